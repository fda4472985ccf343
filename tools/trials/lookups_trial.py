"""Tries lookups as strangers write them: each wrong one must be told as it should, each right one must pass.

`python -m tools.trials.lookups_trial --level sim --level live --seeds 10 --write docs/reference/lookups.md` writes the
page. Invariant: a lookup holds only if every seed at every level that it lists was told as its entry says.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from harness.engine.level import Observer, Stop
from harness.engine.open_levels import OpenLevels, StagePlan, open_levels
from harness.history.verdict import Outcome
from harness.levels import level_named
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.order import Order, new_run_id
from harness.scenario.outcome import RunOutcome
from harness.system.errors import Exit

_LOOKUPS: Final = "tools.trials.lookups"
_DRIVERS: Final = "own_clients:"
_TESTS: Final = "harness.levels.live.tests"
"""Where the module with the lookups that have a client of their own is."""
_PITFALL: Final = "pitfall "
_OPENING: Final = """\
# Lookups of strangers

Made by `python -m tools.trials.lookups_trial`; do not edit.

Each lookup of `tools/trials/lookups` in one scenario, with {seeds} seeds at each level. *Told* is what every run must
say: a violated invariant, a [pitfall](../explanation/pitfalls.md), or nothing but a pass. *Expected* says
where the values to expect come from: the calm twin, or a function beside the lookup.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """One lookup, the scenario that it runs in, and how each run must end."""

    lookup: str
    scenario: str
    told: tuple[str, ...]
    """Of these invariants one is violated; or `pitfall NAME`, each of them named; empty: the run passes without any."""
    expected: str | None = None
    levels: tuple[str, ...] = ("sim", "live")

    def order(self, level: str, seed: int) -> Order:
        """One run of it."""
        is_driver = self.lookup.startswith(_DRIVERS)
        return Order(
            scenario=load(catalogue()[self.scenario]),
            level=level,
            seed=seed,
            sut=f"{_TESTS if is_driver else _LOOKUPS}.{self.lookup}",
            expected=self.expected,
        )


_ROWS: Final = f"{_LOOKUPS}.wrong_by_themselves:expected_rows"
STRANGERS: Final = (
    Stranger(lookup="wrong_under_faults:swallows_into_nothing", scenario="connections-cut",
             told=("V8", "pitfall swallowed-error")),
    Stranger(lookup="wrong_under_faults:swallows_into_none", scenario="connections-cut",
             told=("V8", "pitfall swallowed-error")),
    Stranger(lookup="wrong_under_faults:cursor_shared", scenario="calm", told=("V8",)),
    Stranger(lookup="wrong_under_faults:attribute_shared", scenario="calm", told=("V8",)),
    Stranger(lookup="wrong_under_faults:answer_of_the_call_before", scenario="one-way-latency", told=("V8",)),
    Stranger(lookup="wrong_under_faults:exits", scenario="calm", told=("V24",)),
    Stranger(lookup="wrong_under_faults:cancels_itself", scenario="calm", told=("V24",)),
    Stranger(lookup="wrong_under_faults:cancels_for_all", scenario="cancel-storm", told=("V24",)),
    Stranger(lookup="wrong_by_themselves:wrong_key", scenario="calm", told=("V8",), expected=_ROWS),
    Stranger(lookup="wrong_by_themselves:doubles", scenario="calm", told=("V8",), expected=_ROWS),
    Stranger(lookup="wrong_by_themselves:drops", scenario="calm", told=("V8",), expected=_ROWS),
    Stranger(lookup="wrong_by_themselves:constant", scenario="calm", told=("V8",), expected=_ROWS),
    Stranger(lookup="wrong_by_themselves:wrong_key", scenario="calm", told=("pitfall not-its-row",)),
    Stranger(lookup="wrong_by_themselves:doubles", scenario="calm", told=("pitfall not-its-row",)),
    Stranger(lookup="wrong_by_themselves:drops", scenario="calm", told=("pitfall not-its-row",)),
    Stranger(lookup="wrong_by_themselves:constant", scenario="calm", told=("pitfall not-its-row",)),
    Stranger(lookup="wrong_under_faults:cache_for_ever", scenario="rows-change", told=("V8",)),
    Stranger(lookup="wrong_under_faults:falls_back", scenario="timeout-and-retry", told=("V8",)),
    Stranger(lookup="own_clients:SharedAsyncMySql", scenario="calm", told=("V8", "V24"), levels=("live",)),
    Stranger(lookup="own_clients:SharedAioMySql", scenario="calm", told=("V8", "V24"), levels=("live",)),
    Stranger(lookup="own_clients:SharedSqlAlchemy", scenario="calm", told=("V8", "V24"), levels=("live",)),
    Stranger(lookup="own_clients:SharedPyMySql", scenario="calm", told=("V8", "V24"), levels=("live",)),
    Stranger(lookup="pitfalls:blocks", scenario="calm", told=("pitfall blocking-call",)),
    Stranger(lookup="pitfalls:never_gives_back", scenario="calm", told=("pitfall never-given-back",)),
    Stranger(lookup="pitfalls:holds_and_asks", scenario="pool-exhaustion", told=("pitfall nested-acquire",)),
    Stranger(lookup="pitfalls:retries_for_ever", scenario="connections-cut", told=("pitfall no-pause",)),
    Stranger(lookup="pitfalls:ConnectsEachTime", scenario="calm", told=("pitfall no-pool",), levels=("live",)),
    Stranger(lookup="pitfalls:BlockingConnectsEachTime", scenario="calm", told=("pitfall no-pool",),
             levels=("live",)),
    Stranger(lookup="right:with_backoff", scenario="small-pool", told=("pitfall small-pool",), levels=("live",)),
    Stranger(lookup="right:plain", scenario="connections-cut", told=()),
    Stranger(lookup="right:with_backoff", scenario="connections-cut", told=()),
    Stranger(lookup="right:several_results", scenario="connections-cut", told=()),
    Stranger(lookup="right:every_third_key_none", scenario="connections-cut", told=()),
    Stranger(lookup="right:cached_for_a_second", scenario="connections-cut", told=()),
    Stranger(lookup="right:shares_a_shielded_task", scenario="cancel-storm", told=()),
    Stranger(lookup="right:gives_up_early", scenario="cancel-storm", told=(), levels=("sim",)),
    Stranger(lookup="right:asks_on_its_connection", scenario="pool-exhaustion", told=()),
    Stranger(lookup="own_clients:AsyncMySql", scenario="connections-cut", told=(), levels=("live",)),
    Stranger(lookup="own_clients:AioMySql", scenario="connections-cut", told=(), levels=("live",)),
    Stranger(lookup="own_clients:SqlAlchemy", scenario="connections-cut", told=(), levels=("live",)),
    Stranger(lookup="own_clients:ThreadedPyMySql", scenario="connections-cut", told=(), levels=("live",)),
)  # fmt: skip
"""The lookups on trial, in the order of the page."""


def is_told(stranger: Stranger, outcome: RunOutcome) -> bool:
    """Whether the run says what the entry says."""
    named = {f"{_PITFALL}{pitfall.name}" for pitfall in outcome.pitfalls}
    if not stranger.told:
        return outcome.judgement.outcome is Outcome.PASS and not named
    violated = {verdict.invariant for verdict in outcome.judgement.convicted()}
    meant = [name for name in stranger.told if not name.startswith(_PITFALL)]
    pitfalls = [name for name in stranger.told if name.startswith(_PITFALL)]
    return named.issuperset(pitfalls) and (not meant or not violated.isdisjoint(meant))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One lookup at one level."""

    stranger: Stranger
    level: str
    told: int
    """In how many runs it was told as it should be."""
    others: tuple[str, ...]
    """What the other runs said."""


def _try(stage: OpenLevels, levels: Sequence[str], *, named: Sequence[str], seeds: range) -> Iterator[_Tried]:
    for stranger in STRANGERS:
        if named and not any(name in stranger.lookup for name in named):
            continue
        for level in levels:
            if level in stranger.levels:
                outcomes = [stage.run(stranger.order(level, seed)) for seed in seeds]
                yield _Tried(
                    stranger=stranger,
                    level=level,
                    told=sum(is_told(stranger, outcome) for outcome in outcomes),
                    others=tuple(said(outcome) for outcome in outcomes if not is_told(stranger, outcome)),
                )


def said(outcome: RunOutcome) -> str:
    """The verdict of a run, what is violated, and which pitfalls are named."""
    violated = [verdict.invariant for verdict in outcome.judgement.convicted()]
    pitfalls = [pitfall.name for pitfall in outcome.pitfalls]
    return f"seed {outcome.seed}: {outcome.judgement.outcome} {' '.join([*violated, *pitfalls])}"


def _row(tried: _Tried, *, seeds: int) -> str:
    stranger = tried.stranger
    cells = (
        f"`{stranger.lookup.replace(':', '.')}`",
        stranger.scenario,
        "`expected`" if stranger.expected else "twin",
        ", ".join(stranger.told) or "pass",
        tried.level,
        f"{tried.told} of {seeds}",
    )
    return f"| {' | '.join(cells)} |"


@click.command()
@click.argument("named", nargs=-1)
@click.option("--level", "levels", multiple=True, type=click.Choice(["sim", "live"]), default=["sim"])
@click.option("--world", default="auto", show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True, help="The first seed.")
@click.option(
    "--write", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to it."
)
def main(
    named: tuple[str, ...], levels: tuple[str, ...], world: str, seeds: int, seed: int, page: Path | None
) -> None:
    """Try the lookups whose names contain one of NAMED (default: all)."""
    tried = []
    with tempfile.TemporaryDirectory() as folder:
        plan = StagePlan(
            run_id=new_run_id(), report=Path(folder), levels=level_named, world=world, keep="never"
        )
        with open_levels(plan, observer=Observer(), stop=Stop()) as stage:
            for one in _try(stage, levels, named=named, seeds=range(seed, seed + seeds)):
                click.echo(_row(one, seeds=seeds))
                for other in one.others:
                    click.echo(f"    {other}")
                tried.append(one)
    if page is not None:
        head = [
            "| lookup | scenario | expected | told | level | runs |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        rows = [*head, *(_row(one, seeds=seeds) for one in tried)]
        page.write_text(_OPENING.format(seeds=seeds) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    failed = [one for one in tried if one.told != seeds]
    click.echo(f"{len(tried) - len(failed)} of {len(tried)} told as they should be")
    sys.exit(Exit.VIOLATION if failed or not tried else Exit.HOLD)


if __name__ == "__main__":
    main()
