"""The sweep: runs the reference, or a variant of it, in many random scenarios and judges every invariant.

Answers to the long runs of a deterministic simulator. Invariant: equal seeds give equal tables. A conviction can be
saved as a scenario file with the command that repeats it; names of `COVERAGE` that never occurred are listed.
"""

from __future__ import annotations

import gc
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from signal import SIGINT, signal
from threading import Event
from typing import Final

import msgspec

from harness.engine.executors import Executors, open_processes
from harness.engine.perform import judged_by_order
from harness.explore.coverage import COVERAGE, coverage
from harness.explore.drawing import draw_scenario
from harness.history.event import Failed, FaultEvent
from harness.history.read import open_text
from harness.history.rules import FormatBreach
from harness.history.text import digest_of, header_line, line_of
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge, uncollected
from harness.levels.sim.level import SimulatedLevel, record_of
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant
from harness.system.clock import monotonic_us
from harness.system.errors import Exit

__all__ = ["Swath", "breaches_of", "digest", "judged", "lines", "main", "order_of", "sweep", "swept"]

_CHUNK: Final = 200
"""Seeds that a process runs per task."""
_PIECE: Final = 2000
"""Most seeds of a piece that is sent to an executor."""
_COLLECT_EVERY: Final = 2
"""Runs between two garbage collections: rarer ones are not cheaper, since garbage fills the cache."""
_READ_BACK_EVERY: Final = 10
"""Every how many runs the history is read back to check its format, which doubles the cost of a run."""
_DIGESTS: Final = 1 << 256
_EXPECTED: Final = ("StreamElementFailed", "Fenced", "SinkLost", "StoreLost")
"""Errors with which an attempt may fail: of a call, by a successor, of the database, of the store."""
_WORST_FIRST: Final = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.VACUOUS)
_REDRAWS_MAX: Final = 20
"""How often a vacuous run is replaced by another one, before it counts."""
_REDRAW_STEP: Final = 1_000_000_000
"""From the seed of a vacuous run to that of its replacement."""
_SHOWN_MAX: Final = 50
"""Most verdicts other than a pass that are printed."""
_AGAIN: Final = "python -m harness.explore.sweep"
_WHY_MAX: Final = 300
"""Most characters printed of each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conviction:
    """A run that did not pass: its seed, outcome and reason."""

    seed: int
    outcome: Outcome
    why: str


@dataclass(slots=True, kw_only=True)
class Swath:
    """The sums over some runs. Mutable."""

    runs: int = 0
    events: int = 0
    virtual_ms: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    convictions: list[Conviction] = field(default_factory=list)
    drawn_again: int = 0
    """Runs that showed nothing and were replaced by another draw."""
    idle: Counter[str] = field(default_factory=Counter)
    """Why: how many faults of each kind never began, or had no effect; how many runs used up their restarts."""
    read_back: int = 0
    digest: int = 0
    """The sum of the digests of all histories, which depends on no order; equal for equal seeds, wherever they ran."""
    malformed: dict[int, str] = field(default_factory=dict)
    """Seeds whose history breaks the format, with the first breach; a defect of the simulation."""
    surprises: list[str] = field(default_factory=list)
    """Unexpected errors of attempts, each with its seed."""

    def add(self, other: Swath) -> None:
        self.runs += other.runs
        self.events += other.events
        self.virtual_ms += other.virtual_ms
        self.outcomes.update(other.outcomes)
        self.happened.update(other.happened)
        self.convictions.extend(other.convictions)
        self.drawn_again += other.drawn_again
        self.idle.update(other.idle)
        self.read_back += other.read_back
        self.surprises.extend(other.surprises)
        self.malformed |= other.malformed
        self.digest = (self.digest + other.digest) % _DIGESTS

    @property
    def failed(self) -> int:
        """The number of runs that violate an invariant."""
        return self.outcomes[Outcome.FAIL.name]

    @property
    def exit_code(self) -> Exit:
        """As that of `floodmark run`."""
        if self.failed or self.malformed or self.surprises:
            return Exit.VIOLATION
        return Exit.HOLD if self.outcomes[Outcome.PASS.name] == self.runs else Exit.UNDECIDED


def order_of(seed: int, scenario: Scenario | None = None) -> Order:
    """The run of a seed, of its random scenario unless another one is given."""
    return Order(scenario=draw_scenario(seed) if scenario is None else scenario, level="sim", seed=seed)


def digest(ran: Simulated) -> str:
    """The SHA-256 of the history file."""
    hashed = sha256(header_line(ran.header))
    for event in ran.events:
        hashed.update(line_of(event))
    return hashed.hexdigest()


def judged(order: Order, ran: Simulated, *, variant: Variant = HONEST) -> Judgement:
    """The verdict on one simulated run of `order`.

    Raises HarnessError if the run contradicts its order or itself; not with a defective variant, which may be wrong in
    what is compared.
    """
    if variant is HONEST:
        return judged_by_order(order, record_of(order, ran))
    judgement: Judgement = variant.judge(judge)(ran.header, ran.events)
    return judgement


def swept(seeds: Iterable[int], *, variant: Variant = HONEST) -> Swath:
    """Run and judge these seeds in this process; a run that shows nothing is replaced (`_REDRAW_STEP`).

    Raises HarnessError before the first one if the harness overlooks a canary in this process, and for a run that
    contradicts its order or itself.
    """
    SimulatedLevel().refuse_blindness(None)
    return _swept(seeds, variant)


class _Executor:
    """What a process of an executor remembers from one piece to the next."""

    is_sighted = False
    """Whether it has seen the canaries."""


def _swept_there(seeds: Sequence[int]) -> Swath:
    """On an executor, whose processes see the canaries before their first piece."""
    if not _Executor.is_sighted:
        SimulatedLevel().refuse_blindness(None)
        _Executor.is_sighted = True
    return _swept(seeds, HONEST)


def _swept(seeds: Iterable[int], variant: Variant) -> Swath:
    swath = Swath()
    with uncollected(frozen=True):
        for seed in seeds:
            order, ran, judgement = _telling_run(swath, seed, variant)
            _count(swath, order, ran, judgement)
            if swath.runs % _COLLECT_EVERY == 0:
                gc.collect()
    return swath


def _telling_run(swath: Swath, seed: int, variant: Variant) -> tuple[Order, Simulated, Judgement]:
    """The first of the draws of `seed` that shows anything, else the last one."""
    for draw in range(_REDRAWS_MAX + 1):
        order = order_of(seed + draw * _REDRAW_STEP)
        ran = simulate_scenario(order, variant=variant)
        judgement = judged(order, ran, variant=variant)
        used_up = judgement.outcome is Outcome.UNKNOWN and ran.restarts_used_up
        if judgement.outcome is not Outcome.VACUOUS and not used_up:
            break
        if draw < _REDRAWS_MAX:
            swath.drawn_again += 1
            swath.idle.update(["restarts used up"] if used_up else _idle_faults(order.scenario, ran))
    return order, ran, judgement


def _idle_faults(scenario: Scenario, ran: Simulated) -> list[str]:
    """The kinds of the faults that never began or had no effect, each with which of the two."""
    faults = [event for event in ran.events if type(event) is FaultEvent]
    begun = {event.f for event in faults}
    without = {event.f for event in faults if event.phase == "end" and not event.evidence}
    idle = [f"{fault.do} never began" for fault in scenario.faults if fault.id not in begun]
    idle += [f"{fault.do} had no effect" for fault in scenario.faults if fault.id in without]
    return idle or ["another reason"]


def breaches_of(ran: Simulated) -> list[FormatBreach]:
    """The breaches of the format that a reader finds in the history."""
    encode = msgspec.json.Encoder().encode
    lines = [encode(event) for event in ran.events]
    reader = open_text(header_line(ran.header) + b"\n".join(lines) + b"\n")
    for _ in reader.events():
        pass
    return reader.breaches


def _count(swath: Swath, order: Order, ran: Simulated, judgement: Judgement) -> None:
    seed = order.seed
    if seed % _READ_BACK_EVERY == 0:
        swath.read_back += 1
        if breaches := breaches_of(ran):
            swath.malformed[seed] = breaches[0].say
    outcome = judgement.outcome
    if ran.numbered != len(ran.events) and outcome is Outcome.PASS:
        outcome = Outcome.UNKNOWN
    swath.surprises.extend(f"seed {seed}: {error}" for error in _surprises(ran))
    swath.runs += 1
    swath.digest = (swath.digest + int(digest_of(ran.header, ran.events), 16)) % _DIGESTS
    swath.events += len(ran.events)
    swath.virtual_ms += ran.virtual_ms
    swath.outcomes[outcome.name] += 1
    swath.happened.update(coverage(order.scenario, ran.header, ran.events))
    if outcome is not Outcome.PASS:
        why = _why(ran, judgement, counting={"V23", *order.scenario.decisive})
        swath.convictions.append(Conviction(seed=seed, outcome=outcome, why=why))


def _surprises(ran: Simulated) -> Iterator[str]:
    """Unexpected errors of attempts: defects of the simulation or of a variant."""
    for event in ran.events:
        if type(event) is Failed and not _is_asked_for(str(event.error)):
            yield str(event.error)


def _is_asked_for(error: str) -> bool:
    """`InjectedFailure` in the text: the operator wraps a planned failure of the user's callback."""
    return error.startswith(_EXPECTED) or "InjectedFailure" in error


def _why(ran: Simulated, judgement: Judgement, *, counting: set[str]) -> str:
    """The anomalies by class, else why it did not pass; `counting`: the invariants of which a vacuous one counts."""
    found = Counter(
        f"{verdict.invariant} {anomaly.kind}"
        for verdict in judgement.invariants
        for anomaly in verdict.anomalies
    )
    said = [f"{name} x{count}" for name, count in found.items()]
    if not said:
        said = [
            f"{verdict.invariant} {verdict.why}"
            for verdict in judgement.invariants
            if verdict.outcome is judgement.outcome
            and (verdict.outcome is not Outcome.VACUOUS or verdict.invariant in counting)
        ]
    if ran.error is not None:
        said.append(ran.error)
    if ran.numbered != len(ran.events):
        said.append(f"{ran.numbered} events were made and {len(ran.events)} recorded")
    return "; ".join(said)


def sweep(
    *,
    runs: int,
    seed: int = 0,
    jobs: int = 1,
    variant: Variant = HONEST,
    executors: Executors | None = None,
    stop: Event | None = None,
) -> Swath:
    """Run `runs` seeds from `seed` on, on `executors` if there are any, else in `jobs` processes.

    The result depends on neither; if `stop` is set, it is that of the seeds before. A variant needs jobs=1, because its
    parts may not be picklable.
    """
    if (jobs > 1 or executors is not None) and variant is not HONEST:
        raise ValueError("a variant cannot be sent to other processes; sweep it with jobs=1")
    swath, seeds = Swath(), range(seed, seed + runs)

    def goes_on() -> bool:
        return stop is None or not stop.is_set()

    own = swept if variant is HONEST else partial(swept, variant=variant)
    work, most = (own, _CHUNK) if executors is None else (_swept_there, _PIECE)
    with open_processes(jobs) if executors is None else nullcontext(executors) as machines:
        for part in machines.map(work, seeds, most=most, goes_on=goes_on):
            swath.add(part)
    return swath


# ------------------------------------------------------------------------------------------- command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep and print the table; exits as `floodmark run` does."""
    parser = ArgumentParser(prog="python -m harness.explore.sweep", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--on", metavar="MASTER", help="send the runs to the executors of this master of Spark"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="write the scenario file of each convicted run there; with --runs 1 that of the run",
    )
    given = parser.parse_args(arguments)
    if given.runs == 1:
        for line in _one_run(given.seed, given.keep):
            print(line)  # noqa: T201 - a command
    with _stopped_by_interrupt() as stop, _machines(given.on) as executors:
        began_us = monotonic_us()  # the start of a session is not the runs'
        swath = sweep(runs=given.runs, seed=given.seed, jobs=given.jobs, executors=executors, stop=stop)
        took_us = monotonic_us() - began_us
    for line in lines(swath, seconds=took_us / 1e6):
        print(line)  # noqa: T201 - a command
    if given.keep is not None:
        for one in swath.convictions:
            if one.outcome is Outcome.FAIL:
                _keep(one.seed, given.keep)
    return Exit.INTERRUPTED if stop.is_set() and not swath.failed else swath.exit_code


@contextmanager
def _stopped_by_interrupt() -> Iterator[Event]:
    """Set by the first Ctrl-C, after which the runs that are done are reported; the second one ends the process."""
    stop = Event()

    def on_signal(number: int, frame: object) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal(SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal(SIGINT, before)


@contextmanager
def _machines(master: str | None) -> Iterator[Executors | None]:
    if master is None:
        yield None
        return
    from harness.levels.spark.executors import open_executors  # noqa: PLC0415 - pulls in pyspark

    with open_executors(master) as executors:
        yield executors


def _one_run(seed: int, folder: Path | None) -> Iterator[str]:
    """Lines with the scenario file of a run, the command that repeats it, and the digest of its history."""
    order = order_of(seed)
    if folder is None:
        yield _text_of(order.scenario)
    else:
        yield f"its scenario: {_keep(seed, folder)}"
    yield f"the same run: {_command(seed, folder or Path())}"
    yield f"sha256 of its history.jsonl: {digest(simulate_scenario(order))}"


def _command(seed: int, folder: Path) -> str:
    return f"floodmark run {folder / _file_of(seed)} --level sim --seed {seed}"


def _file_of(seed: int) -> str:
    return f"random-{seed}.yaml"


def _keep(seed: int, folder: Path) -> Path:
    """Write the scenario file of a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _file_of(seed)
    file.write_text(f"# {_command(seed, folder)}\n{_text_of(draw_scenario(seed))}", encoding="utf-8")
    return file


def lines(swath: Swath, *, seconds: float) -> Iterator[str]:
    """The table as lines of text."""
    rate = swath.runs / seconds if seconds else 0
    yield (
        f"{swath.runs} runs, {swath.events} events, {swath.virtual_ms / 1000:.0f} s of virtual time "
        f"in {seconds:.1f} s: {rate:.0f} runs a second, judging included"
    )
    yield f"digest of all histories: {swath.digest:064x}"
    yield "verdicts: " + ", ".join(
        f"{name.lower()} {count}" for name, count in sorted(swath.outcomes.items())
    )
    if swath.drawn_again:
        causes = ", ".join(f"{cause} {times}" for cause, times in swath.idle.most_common())
        yield f"drawn again because nothing was shown: {swath.drawn_again} ({causes})"
    yield f"read back: {swath.read_back}, malformed {len(swath.malformed)}"
    for seed, say in sorted(swath.malformed.items()):
        yield f"  seed {seed}: malformed, a defect of the simulation: {say}"
    for surprise in swath.surprises[:_SHOWN_MAX]:
        yield f"  an attempt failed unexpectedly, {surprise}"
    worst_first = sorted(swath.convictions, key=lambda one: (_WORST_FIRST.index(one.outcome), one.seed))
    for one in worst_first[:_SHOWN_MAX]:
        why = one.why if len(one.why) <= _WHY_MAX else f"{one.why[:_WHY_MAX]}..."
        yield f"  seed {one.seed}: {one.outcome.name.lower()}: {why}"
        if one.outcome is Outcome.FAIL:
            yield f"    {_AGAIN} --runs 1 --seed {one.seed} --keep . && {_command(one.seed, Path())}"
    if len(swath.convictions) > _SHOWN_MAX:
        yield f"  and {len(swath.convictions) - _SHOWN_MAX} more"
    yield "happened: " + ", ".join(
        f"{name} {swath.happened[name]}" for name in COVERAGE if swath.happened[name]
    )
    never = [name for name in COVERAGE if not swath.happened[name]]
    if never:
        yield "never happened, so not tried: " + ", ".join(never)


def _text_of(scenario: Scenario) -> str:
    from harness.scenario.file import dump  # noqa: PLC0415 - a YAML library of ten megabytes, rarely needed

    return dump(scenario)


if __name__ == "__main__":
    from harness.explore.sweep import main as main_by_name  # executors import by name what is sent to them

    sys.exit(main_by_name())
