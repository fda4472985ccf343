"""The grid of a campaign: a line for each scenario, a cell for each seed.

Answers to Bowtie's table and GitHub's contribution graph. Invariant: a cell says its seed and its verdict in words, and
every run is in exactly one cell; in very large campaigns neighbours that simply passed share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reports.campaign_view import COLUMNS, CampaignView, Kind, Row, ranges

ROWS_MAX: Final = 5_000
"""Up to this many runs the page has a cell and a row for each; of more, a row for each with a cause."""
_SEEDS_TOLD: Final = 200
_SIGNS: Final = {"good": "✓", "bad": "✗", "open": "?", "none": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run, or several neighbours that are alike."""

    tone: str
    """`good`, `bad`, `open`, or `none` for what was not run."""
    told: str
    """Seed and verdict in words, for the screen reader and the tooltip."""
    sign: str
    to: str = ""
    """The anchor of the section that says more; empty: there is nothing more to say."""


def cells_of(kind: Kind, view: CampaignView, *, each: bool) -> Sequence[Cell]:
    """The cells of one line; `each`: one for each run, even if thousands of them simply passed."""
    made = [_cell(row, view) for row in kind.rows] if each else list(_joined(kind.rows, view))
    return [*made, *_not_run(kind)]


def _cell(row: Row, view: CampaignView) -> Cell:
    because = f": {row.run.cause}" if row.run.cause else ""
    return Cell(
        tone=row.tone.value,
        told=f"seed {row.run.seed} {row.word}{because}",
        sign=_SIGNS[row.tone.value],
        to=view.anchor_of(row.index) if row.run.cause else "",
    )


def _joined(rows: Sequence[Row], view: CampaignView) -> Iterator[Cell]:
    """Cells of runs with a cause, and one for all neighbours between them."""
    passed: list[int] = []
    for row in rows:
        if row.run.cause:
            yield from _passed(passed)
            passed = []
            yield _cell(row, view)
        else:
            passed.append(row.run.seed)
    yield from _passed(passed)


def _passed(seeds: Sequence[int]) -> Iterator[Cell]:
    if seeds:
        told = f"seed {ranges(sorted(seeds))}: {len(seeds)} pass"
        yield Cell(tone="good", told=told, sign=f"{_SIGNS['good']}{len(seeds)}")


def _not_run(kind: Kind) -> Iterator[Cell]:
    """A grey cell for each run that was not made; of very many, one for the rest."""
    seeds = [(seed, told.why) for told in kind.missing for seed in told.seeds]
    for seed, why in seeds[:_SEEDS_TOLD]:
        yield Cell(tone="none", told=f"seed {seed} not run: {why}", sign=_SIGNS["none"])
    rest = [seed for seed, _ in seeds[_SEEDS_TOLD:]]
    if rest:
        yield Cell(
            tone="none", told=f"seed {ranges(sorted(rest))} not run", sign=f"{_SIGNS['none']}{len(rest)}"
        )


def tally_of(kind: Kind) -> str:
    """`40 runs: 38 pass, 2 fail; 5,210 events in 0.8 s`."""
    counts = ", ".join(f"{kind.counts[outcome]} {outcome}" for outcome in COLUMNS if kind.counts.get(outcome))
    not_run = f"; {kind.not_run} not run" if kind.not_run else ""
    if not kind.rows:
        return f"{kind.not_run} not run"
    runs = "1 run" if len(kind.rows) == 1 else f"{len(kind.rows)} runs"
    return f"{runs}: {counts}{not_run}; {kind.events:,} events in {duration(kind.took_s)}"


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `12 min 5 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def seeds_of(rows: Sequence[Row]) -> str:
    """Their seeds as ranges."""
    return ranges(sorted(row.run.seed for row in rows))


def by_scenario(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of each scenario, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.run.scenario, []).append(row)
    return list(found.items())
