"""Equivalent mutants: variants that break no invariant in some scenarios, simulated there but not scored.

Answers to the equivalent mutants of mutation testing. Invariant: no invariant convicts an equivalent; whether
its histories equal the reference's byte for byte is counted, not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from harness.explore.drawing import draw_scenario
from harness.judge.checkers.judge import judge
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant
from harness.system.clock import Deadline
from harness.system.pool import Executors
from tools.defects import IN_RUNS, MAILBOXES


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """A variant, the scenarios in which it is equivalent (`where`, `applies`), and why (`because`)."""

    name: str
    where: str
    because: str
    variant: Variant
    applies: Callable[[Scenario], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sameness:
    """The result of comparing an equivalent with the reference."""

    name: str
    where: str
    because: str
    runs: int
    same: int
    """Runs whose history equals the reference's byte for byte."""
    convicted: tuple[int, ...]
    """Seeds of convicted runs; any shows that the variant is not equivalent."""


_URGENT = (
    "the order of mail within one priority is the mailbox's own affair: the operator's invariants ask what a mail "
    "sees, and every order of whole mails is legal; "
)
_ERAS = {
    "era-1": "urgent mail is last in, first out, and waits for the batch: a checkpoint's mail comes later, or in "
    "another order, which both are legal",
    "era-2": "urgent mail makes a whole new batch: other mail runs sooner than it had to",
    "era-3-unpatched": "all holes of its era at once; each is argued by itself",
    "unseen-take-reverses-urgent": "two urgent mails change places",
    "parked-take-reverses-urgent": "two urgent mails change places",
    "mail-behind-urgent-starves": "mail waits for the next batch, which follows at once",
    "finish-skips-deferrable": "this task has no deferrable mail; urgent mail may be in another batch, as in its era",
}


def _has_mail_of_its_own(scenario: Scenario) -> bool:
    return scenario.workload.checkpoint_interval is not None or scenario.sink != "atomic"


def _mailboxes() -> list[Equivalent]:
    return [
        Equivalent(
            name=mailbox.name,
            where="everywhere",
            because=_URGENT + _ERAS[mailbox.name],
            variant=Variant(build_mailbox=mailbox.wrong),
            applies=_has_mail_of_its_own,
        )
        for mailbox in MAILBOXES.values()
    ]


def _elsewhere(name: str, where: str, because: str, applies: Callable[[Scenario], bool]) -> Equivalent:
    return Equivalent(name=name, where=where, because=because, variant=IN_RUNS[name].variant, applies=applies)


EQUIVALENTS: Sequence[Equivalent] = (
    _elsewhere(
        "watermarks-at-once",
        "without watermarks",
        "there is nothing to forward",
        lambda scenario: (
            not (
                scenario.workload.watermark_every
                or scenario.workload.final_watermark
                or any(fault.do == "watermark_burst" for fault in scenario.faults)
            )
        ),
    ),
    _elsewhere(
        "segment-leak",
        "ordered mode",
        "an ordered queue has no segments, and its head is looked at as ever",
        lambda scenario: scenario.operator.mode == "ordered",
    ),
    _elsewhere(
        "unordered-emission",
        "unordered mode",
        "records may leave as they complete: that is what the mode means",
        lambda scenario: scenario.operator.mode == "unordered",
    ),
    _elsewhere(
        "shares-records",
        "where each record is an object of its own",
        "a copy is equal to what it is a copy of, and nobody changes either",
        lambda scenario: not scenario.workload.reuses_objects,
    ),
    _elsewhere(
        "snapshot-omits-blocked",
        "soft back pressure",
        "nothing is taken from the source before there is room for it, so nothing is blocked",
        lambda scenario: scenario.operator.back_pressure == "soft",
    ),
    *(
        _elsewhere(
            name,
            "with retry",
            "the mutant is one of the handle that a record has without retry; with it, the reference's code runs",
            lambda scenario: scenario.operator.tries > 1,
        )
        for name in ("settles-twice", "late-results", "emits-from-callback")
    ),
    Equivalent(
        name="answers-after-close",
        where="everywhere",
        because="the pool of `emits-after-close` alone: an answer may come when nobody listens any more",
        variant=replace(IN_RUNS["emits-after-close"].variant, build_operator=HONEST.build_operator),
        applies=lambda scenario: True,
    ),
    Equivalent(
        name="state-shared-with-snapshot",
        where="a keyed task without `async_snapshot`",
        because="the snapshot shares its state with the task (FLINK-10567), but such a run writes it down before "
        "the task goes on",
        variant=IN_RUNS["state-shared-with-snapshot"].variant,
        applies=lambda scenario: scenario.task is not None and not scenario.task.async_snapshot,
    ),
    *_mailboxes(),
)


_DRAWS_PER_RUN = 40
"""Scenarios drawn at most for each comparison run of an equivalent."""


def compare_equivalents(
    executors: Executors, *, first_seed: int, runs: int, deadline: Deadline
) -> list[Sameness]:
    """Compares all of `EQUIVALENTS` on `executors`."""
    comparing = partial(_compare_one, first_seed=first_seed, runs=runs, deadline=deadline)
    return list(executors.map(comparing, range(len(EQUIVALENTS)), most=1))


def _compare_one(place: Sequence[int], *, first_seed: int, runs: int, deadline: Deadline) -> Sameness:
    (number,) = place
    one = EQUIVALENTS[number]
    return compare(one, first_seed=first_seed, runs=runs, draws_max=runs * _DRAWS_PER_RUN, deadline=deadline)


def compare(
    equivalent: Equivalent, *, first_seed: int, runs: int, draws_max: int, deadline: Deadline
) -> Sameness:
    """Simulates the equivalent and the reference in up to `runs` drawn scenarios to which it applies."""
    made = same = 0
    convicted: list[int] = []
    for seed in range(first_seed, first_seed + draws_max):
        if made == runs or deadline.passed:
            break
        order = Order(scenario=draw_scenario(seed), level="sim", seed=seed)
        if not equivalent.applies(order.scenario):
            continue
        made += 1
        tried = simulate_scenario(order, variant=equivalent.variant)
        same += _bytes(tried) == _bytes(simulate_scenario(order))
        if judge(tried.header, tried.events).convicted():
            convicted.append(seed)
    return Sameness(
        name=equivalent.name,
        where=equivalent.where,
        because=equivalent.because,
        runs=made,
        same=same,
        convicted=tuple(convicted),
    )


def _bytes(simulated: Simulated) -> bytes:
    return msgspec.json.encode(list(simulated.events))
