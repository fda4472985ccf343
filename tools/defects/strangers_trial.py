"""Tries the strangers: shows which invariant convicts each planted defect whose author has not looked at the checkers.

Answers to mutation testing with mutants of somebody else. `python -m tools.defects.strangers_trial` runs each in random
scenarios and in those of the catalogue that let it show, at level sim, up to its first conviction, and prints a table.
Invariant: a verdict counts only if the reference's own run of the same scenario and seed does not have it; a defect
whose run breaks, or never differs from the reference's, is a survivor and not a conviction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Final

import click

from harness.explore.drawing import draw_scenario
from harness.history.event import Event, Failed
from harness.history.text import digest_of
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge
from harness.levels.sim.run import simulate_scenario
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load, load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.settings import apply_settings
from harness.sut.variant import HONEST
from harness.system.errors import Exit, UsageError
from harness.system.pool import open_processes
from tools.defects import STRANGERS
from tools.defects.kinds import Stranger

_DRAWS: Final = 24
_SCENARIOS: Final = 5
_DRAWN_OF: Final = 100
"""A scenario that applies is searched among so many seeds for each draw that is wanted."""
_MISTAKES: Final = ("AttributeError", "NameError", "TypeError")
"""What a defect raises that no longer fits the class that it replaces: such a run convicts nothing."""
_FEWER_RECORDS: Final = "records accepted, where at least"
"""The words of V23 for an input that was not read to its end; what it says of faults convicts nobody."""
_OPENING: Final = """\
# Strangers on trial

Made by `python -m tools.defects.strangers_trial --write docs/reference/strangers.md`; do not edit.

Planted defects that name a promise, and not the invariant that convicts them: whoever wrote them had not looked at the
checkers. Each is run at level sim in the scenario that is meant for it, if there is one, in {draws} random scenarios
that let it show, and in {scenarios} of the catalogue, up to its first conviction. `differs`: in how many of its runs
the history, with the rows of the tables, was not the reference's. `V23 records`: the run read fewer records than its
input has, and is vacuous. `may survive`: why nothing convicts it.

Not in the table are strangers that do what a planted defect of the table of mutants does (`docs/reference/mutants.md`):
{taken_out}.
"""
_TAKEN_OUT: Final[Mapping[str, str]] = {
    "gives-up-one-try-early": "gives-up-one-try-early",
    "retries-empty-answers": "retries-empty-answers",
    "end-waits-for-backoff": "waits-out-backoff-at-end",
    "waits-run-any-mail": "yields-to-upstream",
    "idle-input-holds-back": "idle-input-counts",
    "latency-marker-waits": "latency-markers-wait",
    "processing-timers-not-restored": "processing-timers-lost-on-restore",
    "snapshot-sees-updates": "state-shared-with-snapshot",
    "state-never-expires": "ttl-never-ends",
    "key-as-byte": "key-in-8-bits",
    "key-as-short": "key-in-16-bits",
    "key-without-sign": "key-without-sign",
    "key-folded": "key-folded",
    "cache-never-expires": "stale-cache",
}
"""The strangers that were taken out, and the defects that do the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of one stranger."""

    name: str
    runs: int
    differed: int
    """Runs whose history is not the reference's."""
    undecided: int
    """Runs that were judged `unknown`."""
    convicted_by: str | None
    """`V8 missing`: the invariants and classes of the first convicted run; None: it survived."""
    convicted_in: str = ""
    """The scenario, or the seed, of that run."""
    broke: str = ""
    """The first error of the simulation itself."""

    @property
    def holds(self) -> bool:
        """Whether it was convicted, by an invariant that its entry names if it names any, or may survive."""
        stranger = STRANGERS[self.name]
        if not stranger.convicted_by:
            return self.convicted_by is not None or stranger.survives is not None
        found = {what.split()[0] for what in (self.convicted_by or "").split(", ") if what}
        return not found.isdisjoint(stranger.convicted_by)


def try_stranger(name: str, *, draws: int = _DRAWS, scenarios: int = _SCENARIOS) -> Tried:
    """Runs one stranger up to its first conviction: `draws` random scenarios, then `scenarios` of the catalogue."""
    stranger = STRANGERS[name]
    runs = differed = undecided = 0
    broke = ""
    for order in _orders(stranger, draws=draws, scenarios=scenarios):
        runs += 1
        try:
            ran = simulate_scenario(order, variant=stranger.variant)
        except Exception as error:  # noqa: BLE001 - shown in the table, as no conviction
            broke = broke or f"{type(error).__name__}: {error}"
            continue
        if digest_of(ran.header, ran.events) == _of_reference(order)[0]:
            continue
        differed += 1
        if mistake := _mistake(ran.events):
            broke = broke or mistake
            continue
        judgement = judge(ran.header, ran.events)
        undecided += judgement.outcome is Outcome.UNKNOWN
        found = [what for what in _found(judgement) if what not in _of_reference(order)[1]]
        if found:
            return Tried(
                name=name,
                runs=runs,
                differed=differed,
                undecided=undecided,
                convicted_by=", ".join(found),
                convicted_in=_place(order),
                broke=broke,
            )
    return Tried(name=name, runs=runs, differed=differed, undecided=undecided, convicted_by=None, broke=broke)


def _mistake(events: Iterable[Event]) -> str | None:
    """The error of an attempt that failed by a mistake in the defect's own code; None: there is none."""
    return next(
        (
            event.error
            for event in events
            if isinstance(event, Failed) and str(event.error).startswith(_MISTAKES)
        ),
        None,
    )


def _orders(stranger: Stranger, *, draws: int, scenarios: int) -> Iterator[Order]:
    if not stranger.levels:
        return
    if stranger.scenario is not None:
        scenario = apply_settings(load(catalogue()[stranger.scenario]), stranger.settings)
        yield Order(scenario=scenario, level="sim", seed=1)
    drawn = 0
    for seed in range(draws * _DRAWN_OF):
        if drawn == draws:
            break
        scenario = draw_scenario(seed)
        if stranger.applies(scenario):
            drawn += 1
            yield Order(scenario=scenario, level="sim", seed=seed)
    fitting = (scenario for scenario in _able() if stranger.applies(scenario))
    for scenario in islice(fitting, scenarios):
        yield Order(scenario=scenario, level="sim", seed=1)


@cache
def _able() -> tuple[Scenario, ...]:
    """The scenarios of the catalogue that run at sim, the short ones first."""
    able = [scenario for scenario in load_many(sorted(catalogue())) if "sim" in scenario.levels]
    return tuple(sorted(able, key=lambda scenario: scenario.workload.records * scenario.workload.subtasks))


_references: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = {}


def _of_reference(order: Order) -> tuple[str, tuple[str, ...]]:
    """The digest of the reference's history, and what convicts it."""
    key = order.scenario.model_dump_json(), order.seed
    if key not in _references:
        ran = simulate_scenario(order, variant=HONEST)
        _references[key] = digest_of(ran.header, ran.events), tuple(_found(judge(ran.header, ran.events)))
    return _references[key]


def _found(judgement: Judgement) -> dict[str, None]:
    """`V8 missing` for each class of anomaly of each invariant that fails.

    `V23 records`: the run read fewer records than its input has. V23 never fails; it makes the run vacuous.
    """
    found: dict[str, None] = {}
    for verdict in judgement.invariants:
        if verdict.invariant == "V23" and _FEWER_RECORDS in verdict.why:
            found["V23 records"] = None
        if verdict.outcome is Outcome.FAIL:
            for anomaly in verdict.anomalies:
                found[f"{verdict.invariant} {anomaly.kind}"] = None
            if not verdict.anomalies:
                found[verdict.invariant] = None
    return found


def _place(order: Order) -> str:
    name = order.scenario.scenario
    return f"seed {order.seed}" if name.startswith("random-") else f"`{name}` {order.seed}"


def page_text(tried: Sequence[Tried], *, draws: int, scenarios: int) -> str:
    """The page `docs/reference/strangers.md`."""
    rows = [
        "| stranger | component | what is wrong | breaks | differs | convicted by | in | may survive |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(one) for one in tried),
    ]
    taken_out = ",\n".join(f"`{name}` (`{same}`)" for name, same in _TAKEN_OUT.items())
    opening = _OPENING.format(draws=draws, scenarios=scenarios, taken_out=taken_out)
    return opening + "\n" + "\n".join(rows) + "\n"


def _row(one: Tried) -> str:
    stranger = STRANGERS[one.name]
    notes = [f"{one.undecided} unknown"] * bool(one.undecided) + [f"broke: {one.broke}"] * bool(one.broke)
    survived = f"SURVIVED {'; '.join(notes)}".rstrip()
    cells = (
        f"`{one.name}`",
        stranger.component,
        stranger.about,
        stranger.breaks,
        f"{one.differed} of {one.runs}",
        one.convicted_by or survived,
        one.convicted_in,
        stranger.survives or "",
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


@click.command()
@click.argument("names", nargs=-1)
@click.option("--draws", type=click.IntRange(min=0), default=_DRAWS, show_default=True)
@click.option("--scenarios", type=click.IntRange(min=0), default=_SCENARIOS, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--write", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to it."
)
def main(names: tuple[str, ...], draws: int, scenarios: int, jobs: int, page: Path | None) -> None:
    """Try the strangers NAMES (default: all) at level sim."""
    unknown = [name for name in names if name not in STRANGERS]
    if unknown:
        raise UsageError(f"there is no stranger called {unknown[0]!r}", fix=f"one of: {', '.join(STRANGERS)}")
    tried = []
    for one in _tried(names or tuple(STRANGERS), draws=draws, scenarios=scenarios, jobs=jobs):
        tried.append(one)
        click.echo(f"{one.name}: {one.convicted_by or 'SURVIVED'}", err=True)
    text = page_text(tried, draws=draws, scenarios=scenarios)
    if page is not None:
        page.write_text(text, encoding="utf-8")
    click.echo(text)
    convicted = sum(one.convicted_by is not None for one in tried)
    open_ones = [one.name for one in tried if not one.holds]
    click.echo(f"{convicted} of {len(tried)} convicted; {len(open_ones)} not as their entries say")
    if open_ones:
        click.echo(f"not as their entries say: {', '.join(open_ones)}", err=True)
    sys.exit(Exit.VIOLATION if open_ones else Exit.HOLD)


def _tried(names: Sequence[str], *, draws: int, scenarios: int, jobs: int) -> Iterator[Tried]:
    with open_processes(jobs) as processes:
        yield from processes.map(partial(_try_one, draws=draws, scenarios=scenarios), names, most=1)


def _try_one(names: Sequence[str], *, draws: int, scenarios: int) -> Tried:
    (name,) = names
    return try_stranger(name, draws=draws, scenarios=scenarios)


if __name__ == "__main__":
    main()
