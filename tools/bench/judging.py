"""The judge's rows of the performance table: judging a history, against a bare loop.

Answers to the checkers' part of the performance guide. Invariant: a ratio compares contenders that took turns in this
process over the same file; a judge that does not acquit the legal history gets no time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import log10
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.registry import CHECKERS
from harness.system.clock import monotonic_us
from tools.bench.judging_memory import peak_mb, require_clean
from tools.bench.regular_history import Mode, regular_header, regular_history, write_lines
from tools.bench.rounds import ROUNDS, Costs, Ratio, take_turns
from tools.bench.row import Row, ratio_row

ORDER_AND_ONCE = ("V1", "V2", "V8")
UNSETTLED_ONLY = ("V1", "V2", "V5", "V14", "V15", "V16", "V20", "V21")
"""Invariants that remember only unfinished elements."""
_MODES: tuple[Mode, ...] = ("ordered", "unordered")
_TENFOLD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes in events of the judged histories."""

    ratios: int = 1_000_000
    growth: tuple[int, ...] = (100_000, 1_000_000)
    """Each ten times the previous one; memory is measured with the last."""
    rounds: int = ROUNDS


LARGE = Sizes(growth=(100_000, 1_000_000, 10_000_000))
"""Takes tens of minutes."""


def judging_rows(*, sizes: Sizes, say: Callable[[str], None]) -> Iterator[Row]:
    """Measure all rows."""
    with TemporaryDirectory(prefix="floodmark-judging-") as name:
        folder = Path(name)
        for mode in _MODES:
            say(f"an {mode} history of {sizes.ratios:,} events")
            yield from _text_rows(_history(folder, mode, sizes.ratios), mode, sizes)
        yield from _growth_rows(folder, sizes, say)


def _history(folder: Path, mode: Mode, events: int) -> Path:
    path = folder / f"{mode}-{events}.jsonl"
    write_lines(path, regular_header(mode), regular_history(mode, events))
    return path


def _text_rows(path: Path, mode: Mode, sizes: Sizes) -> Iterator[Row]:
    costs = take_turns(
        {
            "json.loads": partial(_bare_s, path),
            "all": partial(_judged_s, path, ()),
            "order": partial(_judged_s, path, ORDER_AND_ONCE),
        },
        rounds=sizes.rounds,
    )
    detail = f"{sizes.ratios:,} events; {_rates(costs)}"
    yield ratio_row(
        f"{mode}: events/s judged, JSON lines, all invariants, against a bare `json.loads` loop",
        costs.rate("all", against="json.loads"),
        goal=3,
        detail=detail,
        rounds=sizes.rounds,
    )
    yield ratio_row(
        f"{mode}: cost of judging by {', '.join(ORDER_AND_ONCE)} alone, against all invariants",
        costs.cost("order", against="all"),
        goal=1,
        larger_is_better=False,
        detail=detail,
        rounds=sizes.rounds,
    )


def _bare_s(path: Path) -> float:
    """Seconds per event for a bare `json.loads` loop."""
    lines = 0
    began_us = monotonic_us()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
            lines += 1
    return (monotonic_us() - began_us) / 1e6 / (lines - 1)


def _judged_s(path: Path, invariants: Sequence[str]) -> float:
    """Seconds per event; no invariants given: all."""
    checkers = [checker for checker in CHECKERS if not invariants or checker.name in invariants]
    began_us = monotonic_us()
    judged = judge_file(path, checkers=checkers)
    took_us = monotonic_us() - began_us
    require_clean(judged)
    return took_us / 1e6 / judged.accounting["events"]  # type: ignore[union-attr]  # it is clean


def _growth_rows(folder: Path, sizes: Sizes, say: Callable[[str], None]) -> Iterator[Row]:
    say(f"histories of {' and '.join(f'{events:,}' for events in sizes.growth)} events")
    files = {events: _history(folder, "ordered", events) for events in sizes.growth}
    costs = take_turns(
        {f"{events:,}": partial(_judged_s, path, ()) for events, path in files.items()}, rounds=sizes.rounds
    )
    for few, many in zip(sizes.growth, sizes.growth[1:], strict=False):
        ratio = costs.cost(f"{many:,}", against=f"{few:,}")
        yield ratio_row(
            f"growth of the time to judge from {few:,} to {many:,} events, as an exponent",
            Ratio(median=_exponent(ratio.median), low=_exponent(ratio.low), high=_exponent(ratio.high)),
            unit="",
            goal=1.05,
            larger_is_better=False,
            rounds=sizes.rounds,
            detail=f"all invariants; {_rates(costs)}",
        )
    yield from _memory_rows(folder, files[sizes.growth[-1]], sizes, say)


def _exponent(cost: float) -> float:
    """The exponent of growth, from the ratio of the cost per event in a history ten times as long."""
    return 1 + log10(cost) / log10(_TENFOLD)


def _memory_rows(folder: Path, path: Path, sizes: Sizes, say: Callable[[str], None]) -> Iterator[Row]:
    say("memory")
    empty = folder / "empty.jsonl"
    write_lines(empty, regular_header("ordered"), regular_history("ordered", 0))
    for about, invariants, goal in (
        ("all invariants", (), 64),
        (", ".join(UNSETTLED_ONLY), UNSETTLED_ONLY, 16),
    ):
        without, used = peak_mb(empty, invariants), peak_mb(path, invariants)
        yield Row(
            name=f"extra memory to judge {sizes.growth[-1]:,} events, {about}",
            value=used - without,
            unit="MB",
            rounds=1,
            goal=goal,
            larger_is_better=False,
            detail=f"peak of a process, {used:.0f} MB, less that for a history without records",
        )


def _rates(costs: Costs) -> str:
    return ", ".join(f"{name} {costs.per_second(name):,.0f}/s" for name in costs.of)
