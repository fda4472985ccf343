"""Variants that are no defects where they stand: named with the argument, tried all the same, and not scored.

Answers to equivalent mutants. Invariant: what is said to be equivalent is convicted by nobody; whether its histories
are even the same bytes is counted, not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from harness.checkers.judge import judge
from harness.clock import Deadline
from harness.defects import variant_of
from harness.sim.scenario_run import Simulated
from harness.sim.situation import Situation
from harness.sim.situation_drawing import draw_situation
from harness.sim.situation_run import simulate
from harness.sut.variant import HONEST, Variant
from reference_impl.mutants import MAILBOXES

__all__ = ["EQUIVALENTS", "Equivalent", "Sameness", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """A variant, and why nobody can convict it there."""

    name: str
    where: str
    because: str
    variant: Variant
    applies: Callable[[Situation], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sameness:
    """What a comparison with the reference showed."""

    name: str
    where: str
    because: str
    runs: int
    same: int
    """Runs whose history has the reference's bytes."""
    convicted: tuple[int, ...]
    """Seeds of the runs that somebody convicts: it is no equivalent."""


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


def _has_mail_of_its_own(situation: Situation) -> bool:
    return situation.checkpoints.style == "mail" or situation.checkpoints.sink != "atomic"


def _mailboxes() -> list[Equivalent]:
    return [
        Equivalent(
            name=name,
            where="everywhere",
            because=_URGENT + _ERAS[name],
            variant=Variant(build_mailbox=build),
            applies=_has_mail_of_its_own,
        )
        for name, build in MAILBOXES.items()
    ]


def _elsewhere(name: str, where: str, because: str, applies: Callable[[Situation], bool]) -> Equivalent:
    return Equivalent(name=name, where=where, because=because, variant=variant_of(name), applies=applies)


EQUIVALENTS: Sequence[Equivalent] = (
    _elsewhere(
        "watermarks-at-once",
        "without watermarks",
        "there is nothing to forward",
        lambda situation: not situation.stream.watermark_every and not situation.stream.final_watermark,
    ),
    _elsewhere(
        "segment-leak",
        "ordered mode",
        "an ordered queue has no segments, and its head is looked at as ever",
        lambda situation: situation.operator.mode == "ordered",
    ),
    _elsewhere(
        "unordered-emission",
        "unordered mode",
        "records may leave as they complete: that is what the mode means",
        lambda situation: situation.operator.mode == "unordered",
    ),
    _elsewhere(
        "shares-records",
        "where each record is an object of its own",
        "a copy is equal to what it is a copy of, and nobody changes either",
        lambda situation: not situation.stream.reuses_objects,
    ),
    _elsewhere(
        "snapshot-omits-blocked",
        "soft back pressure",
        "nothing is taken from the source before there is room for it, so nothing is blocked",
        lambda situation: situation.operator.back_pressure == "soft",
    ),
    *(
        _elsewhere(
            name,
            "with retry",
            "the mutant is one of the handle that a record has without retry; with it, the reference's code runs",
            lambda situation: situation.operator.max_tries > 1,
        )
        for name in ("settles-twice", "late-results", "emits-from-callback")
    ),
    Equivalent(
        name="answers-after-close",
        where="everywhere",
        because="the client of `emits-after-close` alone: an answer may come when nobody listens any more",
        variant=Variant(client=variant_of("emits-after-close").client),
        applies=lambda situation: situation.operator.on_error == "fail" or bool(situation.crashes),
    ),
    *_mailboxes(),
)


def compare(
    equivalent: Equivalent, *, first_seed: int, runs: int, draws_max: int, deadline: Deadline
) -> Sameness:
    """So many runs of it, each beside the reference's."""
    made = same = 0
    convicted: list[int] = []
    for seed in range(first_seed, first_seed + draws_max):
        if made == runs or deadline.passed:
            break
        situation = draw_situation(seed)
        if not equivalent.applies(situation):
            continue
        made += 1
        tried = simulate(situation, seed=seed, variant=equivalent.variant)
        same += _bytes(tried) == _bytes(simulate(situation, seed=seed, variant=HONEST))
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
