"""Pages as Chromium lays them out: nothing runs off a screen, all text can be read, charts keep their height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reports.campaign_view import view_of
from reports.certificate_write import certificate_page
from reports.over_time import series_of
from reports.page import page_text
from reports.past_report import past_reports
from reports.run_section import section_of
from reports.tests.browser import Browser, Measured, chromium
from reports.tests.certificate_sample import certificate
from reports.tests.job_sample import killed_twice, swept
from reports.tests.sample import hostile_outcome, lost_outcome, many, pass_outcome
from reports.tests.test_over_time import ten
from reports.trend_page import trend_text

pytestmark = pytest.mark.real

WIDTHS = (390, 768, 1400)
PAGES = ("passed", "violated", "several", "hostile", "job", "sweep", "campaign", "certificate", "trend")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    passed, violated = section_of(pass_outcome(folder)), section_of(lost_outcome(folder))
    convicted = section_of(lost_outcome(folder, mutant="snapshot-omits-completed", convicts=("V8", "V10")))
    sections = {
        "passed": [passed],
        "violated": [violated],
        "several": [passed, convicted, violated],
        "hostile": [section_of(hostile_outcome(folder))],
        "job": [section_of(killed_twice(folder))],
        "sweep": [section_of(outcome) for outcome in swept(folder, points=4, bad=(2,))],
    }
    texts = {
        name: page_text(view_of([section.outcome for section in its]), title=name)
        for name, its in sections.items()
    }
    texts["campaign"] = page_text(many(folder), title="campaign")
    texts["certificate"] = certificate_page(certificate(bad=True))
    texts["trend"] = trend_text(series_of(past_reports([ten(folder / "ten", 6, times=2.0)])))
    assert tuple(texts) == PAGES
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def offences(told: Measured) -> Sequence[str]:
    kinds = {"overflow": told.overflow, "small": told.small, "pale": told.pale, "split": told.split}
    return [f"{told.width} px, {kind}: {line}" for kind, lines in kinds.items() for line in lines]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_every_screen_and_every_text_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    """No sideways scrolling, no text under 11 px, contrast of 4.5 in light and dark, no word cut into letters."""
    browser.open(pages[name])

    seen = [browser.measure(width=width, dark=dark) for width in WIDTHS for dark in (False, True)]

    assert [line for told in seen for line in offences(told)] == []
    assert min(told.texts for told in seen) > 100


def test_a_chart_is_as_high_on_a_phone_as_on_a_desk(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["violated"])

    phone, desk = (browser.measure(width=width).charts for width in (390, 1400))

    assert len(phone) == len(desk) == 2
    assert all(abs(one - other) <= 2 for one, other in zip(phone, desk, strict=True))


def test_a_chart_scrolls_in_its_own_box_which_the_keyboard_reaches(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["violated"])
    browser.show(width=390)

    boxes = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].map(c => c.parentElement)"
        ".map(box => [box.scrollWidth > box.clientWidth, box.tabIndex]).flat().join()"
    )

    assert boxes == "true,0,true,0"


def test_on_a_phone_a_cell_stands_below_the_one_before_it_with_its_heading(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["violated"])
    browser.show(width=390)

    told = browser.evaluate(
        "(() => { const [one, two] = document.querySelector('table.keyed tbody tr').children;"
        " return [two.getBoundingClientRect().top >= one.getBoundingClientRect().bottom - 1,"
        " getComputedStyle(two, '::before').content].join() })()"
    )

    assert told == 'true,"outcome"'


def test_the_counterexample_and_its_text_link_to_each_other(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["violated"])
    browser.show(width=1400)

    told = browser.evaluate(
        "(() => { const mark = document.querySelector('svg.chart a.step');"
        " const line = document.querySelector(mark.getAttribute('href'));"
        " return [line.tagName, line.querySelector('a').getAttribute('href') === '#' + mark.id].join() })()"
    )

    assert told == "LI,true"


def test_a_printed_page_fits_the_sheet_and_opens_the_events_of_the_counterexample(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["violated"])
    browser.show(width=700, media="print")

    wide, shown, folded = browser.evaluate(
        "[document.documentElement.scrollWidth, ...['.first', '.story'].map("
        "name => document.querySelector(`details${name}:not([open]) table`).checkVisibility())]"
    )

    assert wide <= 700
    assert (shown, folded) == (True, False)
    assert browser.printed().startswith(b"%PDF")


def test_a_printed_campaign_leaves_out_the_folds_of_single_runs(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["campaign"])
    rows = "document.querySelector('.rows').checkVisibility()"

    browser.show(width=1400)
    on_screen = browser.evaluate(rows)
    browser.show(width=700, media="print")

    assert (on_screen, browser.evaluate(rows)) == (True, False)


def test_what_is_wrong_with_a_page_is_found(browser: Browser, tmp_path: Path) -> None:
    """The measure can fail: one offence of each kind, in HTML and in a chart."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><title>bad</title><p style='width:500px'>wide</p><p style='font-size:9px'>small</p>"
        "<p style='color:#aaa'>pale</p><p style='width:1px;overflow-wrap:anywhere'>letters</p>"
        "<svg class='chart' width='100' viewBox='0 0 200 100'><rect width='200' height='100' fill='#123'/>"
        "<text y='20' font-size='16px' fill='#000'>drawn</text></svg>",
        encoding="utf-8",
    )
    browser.open(page)

    told = browser.measure(width=390)

    assert [line.partition(": ")[2] for line in told.overflow] == ["reaches 508 of 390 px"]
    assert [line.rpartition(": ")[2] for line in told.small] == ["small", "drawn"]
    assert [line.rpartition(": ")[2] for line in told.pale] == ["pale", "drawn"]
    assert [line.rpartition(": ")[2] for line in told.split] == ["letters"]
    assert told.charts == (50,)
