"""A table becomes cards by style alone, and the page's structure serves a screen reader."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from reports.campaign_view import view_of
from reports.cards import with_cards
from reports.page import page_text
from reports.tests.job_sample import killed_twice
from reports.tests.sample import lost_outcome, pass_outcome

HEAD = '<table class="keyed">\n<thead><tr><th>a "b"</th><th class="num"><b>c</b> &amp; d</th></tr></thead>'


@pytest.fixture(scope="module", params=[pass_outcome, lost_outcome, killed_twice])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    outcome = request.param(tmp_path_factory.mktemp("cards"))
    return page_text(view_of([outcome]), title="one")


def test_tables_of_one_head_share_their_rules_and_the_text_stays() -> None:
    page = with_cards(f"<style>x</style>{HEAD}</table>{HEAD}</table>")

    assert page.count('<table class="keyed cards head-1">') == 2
    assert page.count("::before") == 2
    assert '.head-1 tr>:nth-child(1)::before{content:"a \\000022b\\000022"}' in page
    assert '::before{content:"c \\000026 d"}' in page


def test_a_long_heading_gets_the_room_of_two_lines() -> None:
    page = with_cards("<style></style><table><thead><tr><th>what the run showed</th></tr></thead></table>")

    assert ".head-1 tr>:nth-child(1){min-height:44px}" in page


def test_a_heading_cannot_end_the_style() -> None:
    page = with_cards("<style></style><table><thead><tr><th>&lt;/style&gt;</th></tr></thead></table>")

    assert page.count("</style>") == 1


def test_a_page_without_tables_is_left_alone() -> None:
    assert with_cards("<style></style><p>x</p>") == "<style></style><p>x</p>"


def test_headings_go_down_one_level_at_a_time(page: str) -> None:
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", page)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [two for one, two in pairwise(levels) if two > one + 1] == []


def test_every_column_heading_says_that_it_is_one(page: str) -> None:
    heads = re.findall(r"<thead>.*?</thead>", page, re.DOTALL)

    assert heads
    assert [th for head in heads for th in re.findall(r"<th\b[^>]*>", head) if 'scope="col"' not in th] == []


def test_every_chart_has_a_title_a_text_and_a_box_for_the_keyboard(page: str) -> None:
    charts = re.findall(r'(<div [^>]*>)<svg class="chart"[^>]*aria-labelledby="(\S+) (\S+)"', page)

    assert len(charts) == page.count('<svg class="chart"') > 0
    for box, title, text in charts:
        assert 'tabindex="0"' in box
        assert f'<title id="{title}">' in page
        assert re.search(rf'<desc id="{text}">[^<]{{40,}}', page)


def test_what_passed_folds_into_one_line(tmp_path: Path) -> None:
    page = page_text(view_of([pass_outcome(tmp_path)]), title="one")

    assert "7 hold</span>: V1, V4, V5, V8, V10, V11, V23</summary>" in page
