"""The phase trial: kills a worker at each phase that a scenario's task reaches; every seed must still pass.

Answers to crash testing by enumeration, as ALICE does it for file systems. `python -m tools.trials.phase_trial
--seeds 1000 --jobs 2` runs it at level sim; `--write FOLDER` writes scenario files of the same runs for
`floodmark run FOLDER --level spark --runs 10`. Invariant: a phase holds only if every run passed, and a run
whose kill did not happen is vacuous, not passed; the seed draws which hit of the phase is fatal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from harness.engine.run_counts import Counted, count, unbroken
from harness.faults.parts.parts import SINK_FORMS
from harness.faults.parts.triggers import PHASE_FORMS, PHASES, PhaseName
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.catalogue import resolve
from harness.scenario.file import dump, load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.sessions import session_stamps
from harness.scenario.workloads.shape import Key
from harness.system.choices import Choices
from harness.system.errors import Exit

_SEEDS: Final = 10
_RECORDS: Final = 120
_CHECKPOINT_EVERY: Final = 20
_SUBTASK: Final = 1
"""The subtask whose worker is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTrial:
    """The result of one phase."""

    scenario: str
    sink: str
    phase: PhaseName
    passed: int
    seeds: int
    first: int | None
    """The first seed that did not pass."""

    @property
    def holds(self) -> bool:
        return self.passed == self.seeds


def phases_of(scenario: Scenario) -> tuple[PhaseName, ...]:
    """The phases that a worker of `scenario` reaches, in the order of `PHASES`."""
    task = scenario.task
    has = {
        "": True,
        "coordination": scenario.sink != "atomic",
        "task": task is not None,
        "inputs": task is not None and task.inputs > 1 and task.alignment_timeout is None,
    }
    return tuple(phase for phase in PHASES if has[PHASE_FORMS[phase].needs])


def shortened(scenario: Scenario, *, sink: str) -> Scenario:
    """`scenario` with that sink and without faults, cut to a few checkpoints of two subtasks."""
    workload = scenario.workload.model_copy(
        update={"records": _RECORDS, "checkpoint_every": _CHECKPOINT_EVERY, "subtasks": 2}
    )
    data = scenario.model_dump(mode="json", by_alias=True)
    return Scenario.model_validate(
        {
            **{name: value for name, value in data.items() if name != "mutant"},
            "workload": workload.model_dump(mode="json", by_alias=True),
            "sink": sink,
            "faults": [],
            "decisive": ["V1" if scenario.operator.mode == "ordered" else "V2", "V8", "V10"],
            "expects": {
                "records": workload.records * workload.subtasks,
                "checkpoints": workload.checkpoints // 2,
            },
        }
    )


def killed_at(scenario: Scenario, phase: PhaseName, *, seed: int) -> Scenario:
    """`scenario` with a kill at `phase`; for a restore phase, an earlier kill causes the restore."""
    hit = 1 + Choices(seed, f"which {phase} is fatal").index(_hits(scenario, phase, seed=seed))
    first = [_kill("first", "snap.end", 2)] if phase.startswith("restore") else []
    data = scenario.model_dump(mode="json", by_alias=True)
    return Scenario.model_validate(
        {
            **data,
            "scenario": f"{scenario.scenario}-at-{phase.replace('.', '-')}-{scenario.sink}",
            "about": f"A worker dies at its phase {phase}, with the sink {scenario.sink}; a phase trial made this.",
            "faults": [*first, _kill("dies", phase, hit)],
        }
    )


def _kill(name: str, phase: PhaseName, hit: int) -> dict[str, object]:
    return {"id": name, "do": "kill_worker", "subtask": _SUBTASK, "when": {"phase": phase, "hit": hit}}


def _hits(scenario: Scenario, phase: PhaseName, *, seed: int) -> int:
    """A lower bound of how often a worker that is not killed reaches `phase`."""
    workload = scenario.workload
    match phase:
        case "accept":
            return workload.positions
        case "call" | "result" | "emit":
            return workload.records
        case "wm":
            return workload.positions - workload.records
        case "align":
            return workload.checkpoints
        case "timer":
            return max(1, _timers(scenario, seed=seed))
        case "notify":
            return max(1, workload.checkpoints // 2)  # one notification may stand for two checkpoints
        case "snap.begin" | "snap.mid" | "snap.end" | "store" | "ack" | "commit.pre" | "commit.post":
            return workload.checkpoints + 1
        case _:
            return 1


def _timers(scenario: Scenario, *, seed: int) -> int:
    """The number of sessions that end before the next record of their key."""
    assert scenario.task is not None, "without keyed state there are no timers"
    source = LookupSource(workload=scenario.workload, seed=seed, subtask=_SUBTASK)
    inputs = Inputs(scenario.task, source, seed=seed, subtask=_SUBTASK)
    stamps = session_stamps(source, inputs, task=scenario.task)
    last: dict[Key, int] = {}
    for lookup, _ in source.records:
        last[lookup.key] = stamps[lookup.id]["session"]
    return sum(session - 1 for session in last.values())


def try_phases(
    scenarios: Sequence[Scenario], *, seeds: int, jobs: int = 1, among: Sequence[str] = PHASES
) -> list[PhaseTrial]:
    """Runs the phases `among` those of each scenario, with seeds 1 to `seeds`, at level sim."""
    kinds = [(scenario, phase) for scenario in scenarios for phase in phases_of(scenario) if phase in among]
    orders = [order for scenario, phase in kinds for order in _orders(scenario, phase, seeds)]
    counted = list(unbroken(count(orders, SimulatedLevel(), jobs=jobs)))
    return [
        _trial(scenario, phase, counted[number * seeds : (number + 1) * seeds])
        for number, (scenario, phase) in enumerate(kinds)
    ]


def _orders(scenario: Scenario, phase: PhaseName, seeds: int) -> Iterator[Order]:
    """One order per seed; orders with the same kill share one `Scenario`, as there are thousands."""
    made: dict[str, Scenario] = {}
    for seed in range(1, seeds + 1):
        killed = killed_at(scenario, phase, seed=seed)
        killed = made.setdefault(str(killed.faults[-1].when), killed)
        yield Order(scenario=killed, level="sim", seed=seed)


def _trial(scenario: Scenario, phase: PhaseName, runs: Sequence[Counted]) -> PhaseTrial:
    failed = [seed for seed, run in enumerate(runs, start=1) if not run.as_expected]
    return PhaseTrial(
        scenario=scenario.scenario,
        sink=scenario.sink,
        phase=phase,
        passed=len(runs) - len(failed),
        seeds=len(runs),
        first=failed[0] if failed else None,
    )


def _table(trials: Sequence[PhaseTrial]) -> str:
    rows = [
        "| scenario | sink | phase | passed | first seed that did not |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| {trial.scenario} | {trial.sink} | `{trial.phase}` | {trial.passed} of {trial.seeds} | {trial.first or ''} |"
        for trial in trials
    ]
    return "\n".join(rows)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--seeds", type=click.IntRange(min=1), default=_SEEDS, show_default=True, help="Of each phase.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--sink",
    "sinks",
    type=click.Choice(tuple(SINK_FORMS)),
    multiple=True,
    default=tuple(SINK_FORMS),
    help="Repeatable; all.",
)
@click.option("--phase", "phases", type=click.Choice(PHASES), multiple=True, help="Repeatable; default: all.")
@click.option(
    "--write", "folder", type=click.Path(file_okay=False, path_type=Path),
    help="Run nothing: write a scenario file for each phase, to be run at another level.",
)  # fmt: skip
def main(
    names: tuple[str, ...],
    *,
    seeds: int,
    jobs: int,
    sinks: tuple[str, ...],
    phases: tuple[str, ...],
    folder: Path | None,
) -> None:
    """Kill a worker at every phase of the scenarios NAMES (default: sessions-calm), once in a run."""
    loaded = [load(path) for path in resolve(names or ("sessions-calm",))]
    scenarios = [shortened(scenario, sink=sink) for scenario in loaded for sink in sinks]
    if folder is not None:
        click.echo(f"{_write(scenarios, folder, phases or PHASES)} scenario files in {folder}")
        return
    trials = try_phases(scenarios, seeds=seeds, jobs=jobs, among=phases or PHASES)
    click.echo(_table(trials))
    failed = [trial for trial in trials if not trial.holds]
    click.echo(f"{len(trials) - len(failed)} of {len(trials)} phases hold")
    sys.exit(Exit.VIOLATION if failed else Exit.HOLD)


def _write(scenarios: Sequence[Scenario], folder: Path, among: Sequence[str]) -> int:
    """Writes one scenario file for each phase; returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    killed = [
        killed_at(scenario, phase, seed=1)
        for scenario in scenarios
        for phase in phases_of(scenario)
        if phase in among
    ]
    for one in killed:
        (folder / f"{one.scenario}.yaml").write_text(dump(one), encoding="utf-8")
    return len(killed)


if __name__ == "__main__":
    main()
