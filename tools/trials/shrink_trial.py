"""Tries the shrinker on every planted defect that level sim can show, and prints what is left of each find.

Answers to the comparison of shrinkers by the size of what they leave. `python -m tools.trials.shrink_trial`. Invariant:
a find is drawn, or of the catalogue, before anything is known of its size; the file that is measured was read back and
run again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import click

from harness.explore.drawing import draw_scenario
from harness.explore.find import Find, load_find
from harness.explore.shrink import Runs, open_runs, shrink
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.model import Scenario
from harness.sut.defects import find_defect
from harness.system.clock import monotonic_us
from harness.system.errors import Exit
from tools.defects import IN_RUNS, STRANGERS, mutant_named

_FAULTS: Final = 1
_RECORDS: Final = 6
"""The size that is aimed at."""
_DRAWS: Final = 60
_SEEDS: Final = 5
"""Seeds of the scenario of the catalogue, where the draws show nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """What became of the find of one defect."""

    defect: str
    shows: str
    before: str
    """Faults and records of the find as it was found."""
    faults: int
    records: int
    """Of all subtasks."""
    lines: int
    took_s: float
    again: bool
    """Whether the file, read back, shows the same."""

    def __str__(self) -> str:
        again = "" if self.again else "  NOT SHOWN BY ITS FILE"
        return (
            f"{self.defect:<38} {self.shows:<26} {self.before:>16} -> {self.faults} faults {self.records:>3} records "
            f"{self.lines:>3} lines {self.took_s:6.1f} s{again}"
        )


def first_find(name: str, run: Runs) -> Find | None:
    """The first drawn scenario, else the scenario of the catalogue, in which the defect violates an invariant."""
    return next((found for tried in _tried(name) if (found := _found(tried, name, run)) is not None), None)


def _tried(name: str) -> Iterator[tuple[Scenario, int]]:
    defect = find_defect(mutant_named(name))
    drawn = ((draw_scenario(seed), seed) for seed in range(_DRAWS))
    yield from ((scenario, seed) for scenario, seed in drawn if defect.applies(scenario))
    if defect.scenario is not None:
        scenario = load(catalogue()[defect.scenario])
        settings = STRANGERS[name].settings if name in STRANGERS else ()
        if "sim" in scenario.levels:
            yield from ((apply_settings(scenario, settings), seed) for seed in range(1, _SEEDS + 1))


def _found(tried: tuple[Scenario, int], name: str, run: Runs) -> Find | None:
    scenario, seed = tried
    bare = Find(scenario=scenario, seed=seed, mutant=mutant_named(name), invariant="", kind="")
    seen = run(bare)
    if seen is None or not seen.judgement.shown:
        return None
    honest = run(replace(bare, mutant=None))
    of_reference = () if honest is None else honest.judgement.shown
    own = [shown for shown in seen.judgement.shown if shown not in of_reference]
    meant = find_defect(mutant_named(name)).convicted_by
    own = [shown for shown in own if shown[1] != "vacuous" or "V23" in meant]
    own.sort(key=lambda shown: shown[0] not in meant)
    return replace(bare, invariant=own[0][0], kind=own[0][1]) if own and honest is not None else None


def try_defect(name: str, run: Runs, folder: Path) -> Shrunk | None:
    """The shrunk find of one defect, saved in `folder`; None: nothing was found."""
    find = first_find(name, run)
    if find is None:
        return None
    began_us = monotonic_us()
    small = shrink(find, run=run)
    took_s = (monotonic_us() - began_us) / 1e6
    file = small.save(folder)
    seen = run(load_find(file))
    workload = small.scenario.workload
    return Shrunk(
        defect=name,
        shows=find.shows,
        before=f"{len(find.scenario.faults)} f {find.scenario.workload.records * find.scenario.workload.subtasks} r",
        faults=len(small.scenario.faults),
        records=workload.records * workload.subtasks,
        lines=len(file.read_text(encoding="utf-8").strip().splitlines()),
        took_s=took_s,
        again=seen is not None and (small.invariant, small.kind) in seen.judgement.shown,
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[DEFECT...]")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("found"), show_default=True)
def main(names: Sequence[str], *, folder: Path) -> None:
    """Shrink a find of each planted DEFECT, of all that level sim can show if none is named."""
    everything = {name: find_defect(mutant_named(name)) for name in (*IN_RUNS, *STRANGERS)}
    chosen = names or [name for name, one in everything.items() if "sim" in one.levels and one.shows_in_a_run]
    results, missing = list[Shrunk](), list[str]()
    with open_runs() as run:
        for name in chosen:
            result = try_defect(name, run, folder)
            if result is None:
                missing.append(name)
            else:
                results.append(result)
                click.echo(str(result))
    if results:
        click.echo(
            f"{len(results)} of {len(chosen)} defects shrunk; medians: "
            f"{median(one.faults for one in results):g} faults, "
            f"{median(one.records for one in results):g} records, {median(one.lines for one in results):g} lines, "
            f"{median(one.took_s for one in results):.1f} s; at most one fault and six records: "
            f"{sum(one.faults <= _FAULTS and one.records <= _RECORDS for one in results)}; "
            f"not shown by the file: {sum(not one.again for one in results)}"
        )
    if missing:
        click.echo(f"nothing found for: {', '.join(missing)}")
    sys.exit(Exit.HOLD if all(one.again for one in results) else Exit.VIOLATION)


if __name__ == "__main__":
    main()
