"""One trial of an exploration: makes the scenario of a candidate, runs it at level sim, judges it, finds its features.

Answers to an input and its execution in AFL. Invariants: a trial depends on its subject and candidate alone, wherever
it is made; a violation that the reference shows in the same run too is none of a subject that is not the reference.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, Literal

from harness.engine.level import Opening, Play, RunRecord, RunSite, asks_a_server
from harness.engine.perform import judged_by_order
from harness.explore.changing import change, shortened
from harness.explore.drawing import draw_scenario
from harness.explore.features import Feature, features_of
from harness.history.verdict import NO_EVIDENCE, Judgement, Outcome
from harness.levels.sim.level import SimulatedLevel, record_of
from harness.levels.sim.run import simulate_scenario
from harness.scenario.model import Scenario, Sql
from harness.scenario.order import REFERENCE, Order
from harness.sut.defects import variant_of
from harness.sut.registry import SUTS
from harness.system.choices import Draw
from harness.system.errors import CannotHere, HarnessError, SutError, as_internal

Violation = tuple[str, str]
"""An invariant and the class of an anomaly, such as `("V8", "duplicate")`."""
Way = Literal["given", "drawn", "changed", "shortened"]
"""Where a candidate comes from: from a file, from nothing, from a change of one that reached something new, from the
catalogue."""

_RUN_S: Final = 60.0
"""The longest time of one run, so that a system that goes on and on does not use up the budget."""
_SITE: Final = RunSite(run_id="", folder=Path(), limit_s=_RUN_S)
_RECORDS_MAX: Final = 30
_RECORDS_SELDOM: Final = 300
"""Records a subtask of a scenario that is shortened, and of one that is long enough for what is rare."""
_SELDOM: Final = 100
_KEEPS_TIME: Final = 500
_CHANGED_TOO: Final = 300
"""Chances per thousand: a scenario that stays long, one that lasts as long as before, one that is changed, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The system under test of an exploration."""

    sut: str = REFERENCE
    mutant: str | None = None
    """A planted defect, or `MODULE:ATTR` of the user's own; of the reference only."""
    expected: str | None = None
    import_path: tuple[str, ...] = ()
    sql: Sql | None = None
    """Replaces the `sql` of each scenario, if it is given."""
    world: str = "auto"
    """The kind of the world of that server."""
    play: Play | None = None
    """Makes its runs against a server (`with_server`); None: level sim makes them without one."""

    @property
    def is_reference(self) -> bool:
        return self.sut == REFERENCE and self.mutant is None

    @property
    def is_lookup(self) -> bool:
        """Whether it is a user's function; the operator that calls it is the reference."""
        return self.sut not in SUTS

    def order(self, scenario: Scenario, seed: int) -> Order:
        """The run of this subject in `scenario`."""
        if self.sql is not None:
            scenario = scenario.model_copy(update={"sql": self.sql})
        return Order(
            scenario=scenario,
            level="sim",
            seed=seed,
            sut=self.sut,
            mutant=self.mutant,
            expected=self.expected,
            import_path=self.import_path,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is to be tried; `made` makes its scenario where it is run, since drawing costs as much as sending."""

    way: Way
    seed: int
    """The seed of the run, and of the drawing if the scenario was drawn."""
    parent: Scenario | None = None
    other: Scenario | None = None
    """A scenario of which parts may be taken."""
    draw_seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of one candidate."""

    features: frozenset[Feature]
    outcome: Outcome
    violations: tuple[Violation, ...]
    events: int
    why: str = ""
    """Why it did not pass, if nothing is violated."""
    refused: str = ""
    """Why the subject could not be run in it."""
    broken: str = ""
    """What broke Floodmark itself in it."""


def made(candidate: Candidate) -> Scenario:
    """The scenario of a candidate."""
    parent, draw = candidate.parent, Draw(candidate.draw_seed, "changes of a candidate")
    match candidate.way:
        case "given" if parent is not None:
            return parent
        case "shortened" if parent is not None:
            most = _RECORDS_SELDOM if draw.chance(_SELDOM) else _RECORDS_MAX
            records, keeps_time = draw.between(most // 2, most), draw.chance(_KEEPS_TIME)
            short = shortened(parent, records=records, keeps_time=keeps_time)
            if short is not None and draw.chance(_CHANGED_TOO):
                short = change(short, draw, other=candidate.other) or short
            return short or draw_scenario(candidate.seed)
        case "changed" if parent is not None:
            return change(parent, draw, other=candidate.other) or parent
        case _:
            return draw_scenario(candidate.seed)


@contextmanager
def with_server(subject: Subject, scenarios: Iterable[Scenario]) -> Iterator[Subject]:
    """The same subject, for which a server runs while the block lasts if it asks one in one of `scenarios`."""
    has_server = any(asks_a_server(subject.order(scenario, 0)) for scenario in scenarios)
    with SimulatedLevel().open(Opening(has_server=has_server, world=subject.world)) as play:
        yield replace(subject, play=play)


def try_all(subject: Subject, candidates: Sequence[Candidate]) -> list[Trial]:
    """The trials of `candidates`, in order. Raises HarnessError if the harness overlooks a canary in this process."""
    refuse_blindness_here()
    trials = []
    for candidate in candidates:
        trials.append(_try_one(subject, made(candidate), candidate.seed))
        gc.collect(1)
    return trials


@cache
def refuse_blindness_here() -> None:
    """Shows the judge of this process the canaries, once. Raises HarnessError if it overlooks one."""
    SimulatedLevel().refuse_blindness(None)


def _try_one(subject: Subject, scenario: Scenario, seed: int) -> Trial:
    try:
        record, judgement = _run(subject, scenario, seed)
    except (SutError, CannotHere) as error:
        return _nothing(refused=error.what)
    except HarnessError as error:
        if subject.is_reference:
            return _broken(error, scenario, seed)
        # A wrong system may contradict what is compared, and is not judged then.
        return _nothing(why=error.what)
    except Exception as error:  # noqa: BLE001 - it ends this trial; the others count
        return _broken(error, scenario, seed)
    kinds = {fault.id: fault.do for fault in scenario.faults}
    violations = _own_violations(subject, scenario, seed, record, judgement)
    outcome = judgement.outcome
    if violations:
        outcome = Outcome.FAIL
    elif outcome is Outcome.FAIL:  # the reference shows it too
        outcome = Outcome.UNKNOWN
    return Trial(
        features=features_of(record.header, record.events, kinds=kinds),
        outcome=outcome,
        violations=violations,
        events=len(record.events),
        why="" if violations else _why(record, judgement),
    )


def _broken(error: Exception, scenario: Scenario, seed: int) -> Trial:
    return _nothing(broken=f"in {scenario.scenario} with seed {seed}: {as_internal(error)}")


def _nothing(*, refused: str = "", why: str = "", broken: str = "") -> Trial:
    return Trial(
        features=frozenset(),
        outcome=Outcome.UNKNOWN,
        violations=(),
        events=0,
        refused=refused,
        why=why,
        broken=broken,
    )


def _run(subject: Subject, scenario: Scenario, seed: int) -> tuple[RunRecord, Judgement]:
    order = subject.order(scenario, seed)
    if subject.sut != REFERENCE:
        played = (subject.play or SimulatedLevel().play)(order, _SITE)
        assert isinstance(played, RunRecord), "level sim runs operators"
        return played, judged_by_order(order, played)
    record = record_of(simulate_scenario(order, site=_SITE, variant=variant_of(subject.mutant)))
    return record, judged_by_order(order, record)


def _own_violations(
    subject: Subject, scenario: Scenario, seed: int, record: RunRecord, judgement: Judgement
) -> tuple[Violation, ...]:
    """Without those of the reference, which are the scenario's fault; V23 counts if only the subject is vacuous."""
    found = judgement.violations
    if subject.is_reference:
        return found
    silent = subject.mutant is not None and NO_EVIDENCE in judgement.shown
    if not found and not silent:
        return ()
    _, honest = _run(Subject(), scenario, seed)
    of_anybody = {invariant for invariant, _ in honest.violations}
    own = [(invariant, kind) for invariant, kind in found if invariant not in of_anybody]
    if silent and record.error is None and NO_EVIDENCE not in honest.shown:
        own.append(NO_EVIDENCE)
    return tuple(own)


def _why(record: RunRecord, judgement: Judgement) -> str:
    if record.error is not None:
        return record.error
    return next(
        (
            f"{verdict.invariant} {verdict.why}"
            for verdict in judgement.invariants
            if verdict.outcome is judgement.outcome and verdict.why
        ),
        "",
    )
