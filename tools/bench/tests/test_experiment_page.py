"""The experiments' page says what the numbers make, over how many draws."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tools.bench.experiment import DrawnTimes, ExperimentPlan, Times
from tools.bench.experiment_page import chart, section
from tools.bench.lookup_forms import FORMS

PLAN = ExperimentPlan(draws=2, records=2, at_once=2)


def drawn(*, ordered_ms: float, unordered_ms: float, service_ms: tuple[int, int] = (1, 3)) -> DrawnTimes:
    totals = {"synchronous": 8.0, "thread pool": 4.0, "ordered": ordered_ms, "unordered": unordered_ms}
    times = {
        name: Times(total_ms=total, first_ms=total / 2, mean_ms=total * 0.75)
        for name, total in totals.items()
    }
    return DrawnTimes(service_ms=service_ms, of=times)


def test_the_page_counts_in_how_many_draws_order_won() -> None:
    draws = [drawn(ordered_ms=2.0, unordered_ms=3.0), drawn(ordered_ms=4.0, unordered_ms=3.0)]

    assert "In 1 of 2 draws ordered was done before unordered." in section(PLAN, draws)


def test_the_page_compares_each_form_with_one_by_one() -> None:
    text = section(PLAN, [drawn(ordered_ms=2.0, unordered_ms=1.0)])

    assert "| ordered | 2.00 | 2.00 - 2.00 | 0.25 x | 1.00 | 1.50 |" in text.splitlines()


def test_the_page_counts_draws_without_a_slow_record() -> None:
    draws = [
        drawn(ordered_ms=2.0, unordered_ms=2.0, service_ms=(1, 2)),
        drawn(ordered_ms=2.0, unordered_ms=2.0),
    ]

    assert "In 1 of 2 draws no record took the 3 ms" in section(PLAN, draws)


def test_the_chart_is_well_formed_and_names_every_form_twice() -> None:
    root = ET.fromstring(chart([(PLAN, [drawn(ordered_ms=2.0, unordered_ms=3.0)])]))  # noqa: S314 - our own text

    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(words.count(form) == 2 for form in FORMS)
