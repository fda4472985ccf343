"""A campaign: every run is in every form of its report, what showed the same is one group, what is missing is said."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.scenario.outcome import CountedRun, Extent, LeftOut, Pitfall
from reports.campaign_view import CampaignView, view_of
from reports.junit import junit_text
from reports.markdown import MARKDOWN_CHARS_MAX, markdown_text
from reports.page import cells_of, page_text
from reports.run_document import document_of, document_text
from reports.tests.sample import counted_pass, lost_outcome, many, pass_outcome

TWO_MEGABYTES = 2_000_000


class Seen(HTMLParser):
    """The links, their targets and the texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.targets: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.targets.add(str(value))
            if tag == "a" and name == "href" and str(value).startswith("#"):
                self.links.add(str(value)[1:])

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> CampaignView:
    return many(tmp_path_factory.mktemp("campaign"))


def test_every_run_is_a_row_of_the_document(view: CampaignView) -> None:
    document = json.loads(document_text(document_of(view, title="t")))

    seeds = [(row["scenario"], row["seed"]) for row in document["counted"]]
    assert seeds == [(run.scenario, run.seed) for run in view.runs]
    assert sum(total["runs"] for total in document["totals"]) == len(view.rows) == 60
    assert [(cause["cause"], cause["runs"]) for cause in document["causes"]] == [
        ("V8 lost", 4),
        ("the lookup raised KeyError at enrich.py:7", 4),
    ]
    assert [cause["shown"] for cause in document["causes"]] == [run["run_id"] for run in document["runs"]]


def test_a_row_of_the_document_is_a_line(view: CampaignView) -> None:
    lines = document_text(document_of(view, title="t")).splitlines()

    assert sum(line.startswith('    {"scenario": ') for line in lines) == 60


def test_every_run_is_a_test_case_and_the_red_ones_name_their_cause(view: CampaignView) -> None:
    suites = ET.fromstring(junit_text(view, title="t")).findall("testsuite")  # noqa: S314  our own text

    rest = [case for suite in suites[2:] for case in suite if str(case.get("name")).startswith("seed ")]
    red = [failure.get("message") for case in rest for failure in case.iter("failure")]
    skipped = [skip.get("message") for case in rest for skip in case.iter("skipped")]
    assert len(rest) == 58 + 10
    assert sorted(set(map(str, red))) == ["V8 lost", "the lookup raised KeyError at enrich.py:7"]
    assert (len(red), skipped) == (6, ["not run: the campaign was interrupted"] * 10)


def test_every_run_is_a_cell_and_a_row_of_the_page(view: CampaignView) -> None:
    seen = Seen(page_text(view, title="t"))

    for run in view.runs:
        assert any(text.startswith(f"seed {run.seed} {run.verdict}") for text in seen.texts)
    assert sum(text.endswith("not run: the campaign was interrupted") for text in seen.texts) == 10
    assert page_text(view, title="t").count('<tr><th scope="row" class="num">') == 60


def test_a_cause_is_one_section_with_its_first_run_in_full(view: CampaignView) -> None:
    page = page_text(view, title="t")

    seen = Seen(page)
    assert seen.links <= seen.targets
    assert {"cause-1", "cause-2", "run-1", "run-2"} <= seen.targets
    assert page.count('<details class="run"') == 2
    assert "3 other runs" in seen.texts


def test_an_interrupted_campaign_says_in_every_form_how_many_of_how_many_ran(view: CampaignView) -> None:
    document = json.loads(document_text(document_of(view, title="t")))

    told = "60 of 70 runs were made"
    assert (document["ran"], document["asked"], document["interrupted"]) == (60, 70, True)
    assert document["incomplete"].startswith(told)
    assert [(one["seeds"], one["runs"]) for one in document["missing"]] == [("55-64", 10)]
    for text in (junit_text(view, title="t"), markdown_text(view, title="t"), page_text(view, title="t")):
        assert told in text


def test_a_campaign_that_was_interrupted_is_never_green(tmp_path: Path) -> None:
    passed = [pass_outcome(tmp_path)]

    whole = view_of(passed, extent=Extent(asked=1))
    cut = view_of(passed, extent=Extent(asked=2, interrupted=True))

    assert (whole.headline.word, cut.headline.word) == ("conformant", "interrupted")
    assert 'class="verdict open"' in page_text(cut, title="t")


def test_what_was_left_out_is_counted_in_every_form_and_does_not_change_the_verdict(tmp_path: Path) -> None:
    left_out = [
        LeftOut(scenario=f"killed-{n}", need="Spark", why=f"scenario {n} needs Spark") for n in (1, 2)
    ]

    view = view_of([pass_outcome(tmp_path)], extent=Extent(asked=1, left_out=tuple(left_out)))

    document = json.loads(document_text(document_of(view, title="t")))
    assert (view.headline.word, document["asked"]) == ("conformant", 1)
    assert [one["scenario"] for one in document["left_out"]] == ["killed-1", "killed-2"]
    assert "<skipped" in junit_text(view, title="t")
    for text in (document["sentence"], markdown_text(view, title="t"), page_text(view, title="t")):
        assert "2 left out: 2 need Spark" in text


def test_a_green_run_is_a_row_and_one_of_many_is_shown(tmp_path: Path) -> None:
    outcomes = [pass_outcome(tmp_path, seed=seed, run_id=str(seed)) for seed in range(6)]

    view = view_of(outcomes)

    assert [section.outcome.run_id for section in view.sections] == ["0"]
    assert [run.seed for run in view.runs] == list(range(6))


def test_a_pitfall_of_every_run_is_said_once_and_is_no_cause_of_theirs(tmp_path: Path) -> None:
    pitfall = Pitfall(name="no-pause", says="It does not pause.", advice="Pause.", evidence={})
    outcomes = [pass_outcome(tmp_path, seed=seed, run_id=str(seed), pitfalls=(pitfall,)) for seed in range(6)]

    view = view_of(outcomes)

    document = json.loads(document_text(document_of(view, title="t")))
    assert document["causes"] == []
    assert {run["cause"] for run in document["counted"]} == {"all holds"}
    assert document["sentence"].count("Every run that passed shows the pitfall no-pause.") == 1
    assert [section.outcome.run_id for section in view.sections] == ["0"]


def test_a_pitfall_of_some_runs_is_their_cause(tmp_path: Path) -> None:
    pitfall = Pitfall(name="no-pause", says="It does not pause.", advice="Pause.", evidence={})
    has = [(pitfall,), ()]
    outcomes = [pass_outcome(tmp_path, run_id=str(n), pitfalls=pitfalls) for n, pitfalls in enumerate(has)]

    assert [cause.words for cause in view_of(outcomes).causes] == ["pitfall no-pause"]


def test_the_summary_has_the_totals_of_the_terminal_and_the_causes(view: CampaignView) -> None:
    text = markdown_text(view, title="t")

    assert "| `calm` | sim | 54 | 48 | 6 | 0 | 0 | 6 | 10 | 64800 |" in text
    assert "| 9, 18, 27, 36, 45, 54 |" in text
    assert "| the lookup raised KeyError at enrich.py:7 | 4 |" in text


def bytes_of(view: CampaignView) -> int:
    texts = (
        document_text(document_of(view, title="t")),
        junit_text(view, title="t"),
        page_text(view, title="t"),
    )
    return sum(len(text.encode()) for text in texts)


@pytest.mark.sweep
def test_with_what_each_run_adds_a_thousand_stay_below_two_megabytes(
    view: CampaignView, tmp_path: Path
) -> None:
    more = many(tmp_path, runs=120, asked=130)

    each = (bytes_of(more) - bytes_of(view)) / 60

    assert bytes_of(view) + 940 * each < TWO_MEGABYTES


@pytest.mark.soak
def test_a_thousand_runs_stay_below_two_megabytes(tmp_path: Path) -> None:
    view = many(tmp_path, runs=1000, asked=1000)

    assert bytes_of(view) < TWO_MEGABYTES
    assert len(markdown_text(view, title="t")) < MARKDOWN_CHARS_MAX


def test_in_very_large_campaigns_neighbours_that_passed_share_a_cell(view: CampaignView) -> None:
    (kind,) = [kind for kind in view.kinds if kind.scenario == "calm"]

    cells = cells_of(kind, view, each=False)

    assert [cell.sign for cell in cells][:4] == ["✓8", "✗", "✓8", "✗"]
    assert cells[0].told == "seed 1-8: 8 pass"


def test_of_many_runs_shown_each_has_a_few_anomalies_and_counts_the_others(tmp_path: Path) -> None:
    errors = [f"the lookup raised ValueError: x for record 7 (mine.py:{line})" for line in range(5)]

    document = json.loads(
        document_text(document_of(view_of([lost_outcome(tmp_path, error=e) for e in errors]), title="t"))
    )

    verdict = next(one for one in document["runs"][0]["invariants"] if one["invariant"] == "V8")
    assert (len(verdict["anomalies"]), verdict["omitted"]) == (2, 3)


def test_an_outcome_without_an_id_in_the_rows_is_that_of_its_seed(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path, seed=3)
    rows = [counted_pass(outcome.scenario, seed, level=outcome.level) for seed in range(1, 7)]

    view = view_of([outcome], counted=rows)

    assert view.shown == [2]
    assert all(isinstance(run, CountedRun) for run in view.runs)


def test_of_few_seeds_the_grid_has_a_line_for_each_scenario_and_of_many_a_column(tmp_path: Path) -> None:
    few = view_of([pass_outcome(tmp_path), lost_outcome(tmp_path, scenario="another")])

    assert '<div class="matrix short">' in page_text(few, title="t")
    assert '<div class="matrix">' in page_text(many(tmp_path), title="t")
