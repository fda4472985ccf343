"""Spreads: the marks stand where the quantiles are, and the axis holds every value."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tools.bench.chart_spread import Panel, spread_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawing(**values: list[float]) -> ET.Element:
    return ET.fromstring(spread_svg([Panel(title="Took", unit="ms", values=values)]))  # noqa: S314 - our own text


def medians(root: ET.Element) -> list[float]:
    marks = [path.get("d", "") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "3"]
    return [float(re.match(r"M([\d.]+)", mark)[1]) for mark in marks]  # type: ignore[index]


def test_a_larger_median_stands_further_right() -> None:
    quick, slow = medians(drawing(quick=[1.0, 2.0, 3.0], slow=[10.0, 20.0, 30.0]))

    assert quick < slow


def test_equal_values_make_a_mark_and_no_crash() -> None:
    assert len(medians(drawing(same=[2.0, 2.0]))) == 1


def test_the_axis_says_round_numbers_around_all_values() -> None:
    words = [text.text for text in drawing(some=[1.2, 24.0]).iter(f"{SVG}text")]

    assert {"1", "10", "30"} <= set(words)


def test_a_name_is_spelt_out_and_never_markup() -> None:
    words = [text.text for text in drawing(**{"<b>": [1.0]}).iter(f"{SVG}text")]

    assert "<b>" in words


def test_the_median_is_said_in_figures_with_its_unit() -> None:
    words = [text.text for text in drawing(some=[1.0, 2.5, 9.0]).iter(f"{SVG}text")]

    assert "2.50 ms" in words
