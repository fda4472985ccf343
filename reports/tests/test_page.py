"""The page stands alone, escapes whatever it is given, and puts first what matters first."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.history.verdict import InvariantVerdict, Outcome
from reports.campaign_view import view_of
from reports.page import PAGE_BYTES_MAX, page_text
from reports.run_section import RunSection, section_of
from reports.tests.sample import HOSTILE, hostile_outcome, lost_outcome, pass_outcome

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Balance(HTMLParser):
    """Keeps the open elements; every end must match the last start."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Balance:
    parser = Balance()
    parser.feed(page)
    parser.close()
    return parser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def passed(folder: Path) -> RunSection:
    return section_of(pass_outcome(folder))


@pytest.fixture(scope="module")
def convicted(folder: Path) -> RunSection:
    return section_of(lost_outcome(folder, mutant="snapshot-omits-completed", convicts=("V8", "V10")))


@pytest.fixture(scope="module")
def violated(folder: Path) -> RunSection:
    return section_of(lost_outcome(folder))


@pytest.fixture(scope="module")
def demo(passed: RunSection, convicted: RunSection) -> str:
    return page_text(view_of([passed.outcome, convicted.outcome]), title="demo")


@pytest.fixture(scope="module")
def hostile(folder: Path) -> str:
    return page_text(view_of([hostile_outcome(folder)]), title=HOSTILE)


def test_every_element_that_opens_is_closed_in_its_order(demo: str, hostile: str) -> None:
    assert parsed(demo).open == []
    assert parsed(hostile).open == []


def test_the_page_has_no_script_and_nothing_to_load(demo: str, hostile: str) -> None:
    for page in (demo, hostile):
        found = parsed(page)
        assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(found.seen)
        assert all(value.startswith("#") for name, value in found.attributes if name in {"href", "src"})
        assert not [name for name, _ in found.attributes if name.startswith("on")]
        assert "@import" not in page


def test_the_only_urls_in_styles_and_shapes_are_anchors_of_the_page(demo: str) -> None:
    assert all(target.startswith("#run-") for target in re.findall(r"url\(([^)]*)\)", demo))


def test_hostile_text_is_shown_as_text(hostile: str) -> None:
    assert "<script" not in hostile
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile
    assert not set("\x00\x1b\u202e\u200f\ud800") & set(hostile)


def test_no_class_attribute_was_escaped_by_mistake(demo: str) -> None:
    assert "class=&#34;" not in demo
    assert 'class="witness"' in demo


def test_every_id_is_there_once_and_every_anchor_has_its_target(demo: str) -> None:
    found = parsed(demo)
    ids = [value for name, value in found.attributes if name == "id"]

    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in found.attributes if name == "href"} <= set(ids)


def test_the_charts_are_drawn_with_their_faults_shaded_and_described(demo: str) -> None:
    assert demo.count('class="chart"') == 4
    assert demo.count("spike: latency</text>") == 4
    assert "Timeline, one lane per subtask</title><desc" in demo


def test_what_matters_first_comes_first(violated: RunSection) -> None:
    page = page_text(view_of([violated.outcome]), title="one")
    headings = [
        'class="verdict bad"', "<h3>Counterexample: lost, record 1194", "Timeline, one lane per subtask", "<p>Let</p>",
        "<h3>Latency over time", "<h3>All failures", "<h3>Invariants", "<h3>Threats to validity", "<h3>Faults",
        "<h3>Guarantee", "<h3>Time to recover", "<h3>Checkpoints", "<h3>Accounting", "<h3>Environment",
        "<h2>What this report does not claim",
    ]  # fmt: skip

    places = [page.index(heading) for heading in headings]

    assert places == sorted(places)


def test_a_planted_defect_that_was_convicted_reads_green_and_says_so(convicted: RunSection) -> None:
    page = page_text(view_of([convicted.outcome]), title="one")

    assert 'class="verdict good"' in page
    assert "convicted by V8 and V10, as it should be" in page
    assert "<h3>All convictions" in page


def test_the_command_to_run_it_again_is_on_the_page(passed: RunSection) -> None:
    assert passed.outcome.again in page_text(view_of([passed.outcome]), title="one")


def test_what_a_disturbance_cost_stands_in_a_row_with_its_reasons(violated: RunSection) -> None:
    page = page_text(view_of([violated.outcome]), title="one")

    row = page[page.index("kill of attempt 1 of subtask 1") :].split("</tr>")[0]
    assert "21 of 219" in row
    assert "not measured: detect (no call failed and no attempt died)" in page


def test_a_checker_that_raised_shows_its_traceback_line_by_line(passed: RunSection) -> None:
    raised = "the checker failed:\nTraceback (most recent call last):\n  boom()\nKeyError: '<b>'\n"
    verdict = InvariantVerdict(invariant="V4", outcome=Outcome.UNKNOWN, why=raised)
    judgement = replace(passed.outcome.judgement, invariants=(verdict,))

    page = page_text(view_of([replace(passed.outcome, judgement=judgement)]), title="one")

    assert '<pre class="trace">the checker failed:\nTraceback' in page
    assert "KeyError: &#39;&lt;b&gt;&#39;" in page


def test_ten_anomalies_are_told_in_full_and_the_rest_are_counted(violated: RunSection) -> None:
    (one, *_) = violated.outcome.judgement.convicted()
    many = replace(one, anomalies=one.anomalies[:1] * 14, omitted=6)
    judgement = replace(violated.outcome.judgement, invariants=(many,))

    page = page_text(view_of([replace(violated.outcome, judgement=judgement)]), title="one")

    assert page.count('class="reasoning"') == 10
    assert "20 found in all; not explained: 4 lost, 6 that the checker only counted." in page


def test_a_run_without_a_history_still_has_a_page(passed: RunSection) -> None:
    gone = replace(passed.outcome, history=Path("gone.jsonl"))

    page = page_text(view_of([gone]), title="one")

    assert "gone.jsonl could not be read" in page
    assert "no subtask to draw" in page


def test_no_run_at_all_still_has_a_page() -> None:
    assert 'class="verdict open"' in page_text(view_of([]), title="none")


def test_a_page_that_grows_too_large_draws_less_and_still_names_every_run(
    passed: RunSection, violated: RunSection, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [passed.outcome, passed.outcome, violated.outcome]
    whole = page_text(view_of(runs), title="many")
    monkeypatch.setattr("reports.page.PAGE_BYTES_MAX", len(whole) * 3 // 4)

    page = page_text(view_of(runs), title="many")

    assert len(page.encode()) <= len(whole) * 3 // 4
    assert page.count('<tr><th scope="row" class="num">') == 3
    assert whole.count('<svg class="chart"') > page.count('<svg class="chart"') > 0


def test_the_limit_of_a_page_is_a_megabyte_at_most() -> None:
    assert PAGE_BYTES_MAX <= 1_000_000


def test_runs_with_one_cause_are_one_group_and_only_the_first_is_shown_u3(folder: Path) -> None:
    ended = section_of(lost_outcome(folder, error="the lookup raised ValueError: x for record 7 (mine.py:3)"))

    page = page_text(view_of([ended.outcome] * 3), title="three runs")

    assert "By cause: the lookup raised ValueError at mine.py:3 (3 runs)." in page
    assert [f'id="run-{n}" open>' in page for n in (1, 2)] == [True, False]
    assert "2 other runs" in page
