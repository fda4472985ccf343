"""Small programs for a mailbox, on which two mailboxes can be told apart: an era of Flink's, a user's own, ours.

Answers to Flink's `TaskMailboxImplTest`. A program is a list of steps: put a mail (urgent, deferrable, with a
priority, from another thread), make a batch and run it, take what may be taken. Invariant: a program never waits, and
equal programs on equal mailboxes get equal mail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.sut.variant import BuildMailbox
from harness.system.choices import Draw
from harness.system.json_types import Json
from reference_impl.mailbox.loops import real_loop, virtual_loop
from reference_impl.mailbox.mailbox import MAX_PRIORITY, MIN_PRIORITY, Deliverable, Mail, Mailbox

_STEPS_MAX: Final = 14
_JOIN_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MailStep:
    """`put`; `make batch`, `batch` (make one and run it), `rest` (run what is left of it); `take`, `finish`."""

    do: str
    what: str = ""
    priority: int = 0
    urgent: bool = False
    deferrable: bool = False
    afar: bool = False
    """Put by another thread."""

    def as_json(self) -> Json:
        given = {"what": self.what, "priority": self.priority, "urgent": self.urgent}
        given |= {"deferrable": self.deferrable, "afar": self.afar}
        return {"do": self.do, **{name: value for name, value in given.items() if value}}


def drawn_program(seed: int) -> tuple[MailStep, ...]:
    """The program of a seed."""
    draw = Draw(seed, "mail program")
    return tuple(_drawn(draw, number) for number in range(draw.between(3, _STEPS_MAX)))


def _drawn(draw: Draw, number: int) -> MailStep:
    do = draw.one_of("put", "put", "put", "put", "batch", "make batch", "rest", "take", "finish")
    if do != "put":
        return MailStep(do=do, priority=draw.one_of(0, 1) if do in {"take", "finish"} else 0)
    return MailStep(
        do="put",
        what=f"m{number}",
        priority=draw.one_of(0, 0, 1),
        urgent=draw.chance(450),
        deferrable=draw.chance(100),
        afar=draw.chance(250),
    )


def answers_of(build: BuildMailbox, program: Sequence[MailStep]) -> list[Json]:
    """What a mailbox gives for each step, as events."""
    from_afar = any(step.afar for step in program)  # a foreign thread cannot enter virtual time
    with real_loop() if from_afar else virtual_loop() as loop:
        box = build(loop=loop)
        return [
            {"n": number, "t": 0, "k": step.do, **step.as_json(), "gets": _performed(box, step)}
            for number, step in enumerate(program, 1)
        ]


def _performed(box: Mailbox, step: MailStep) -> list[str]:
    match step.do:
        case "put":
            _put(box, step)
            return []
        case "make batch":
            box.create_batch()
            return []
        case "batch":
            box.create_batch()
            return _each(box.try_take_from_batch)
        case "rest":
            return _each(box.try_take_from_batch)
        case "finish":
            return _each(lambda: box.try_take_ignoring_deferrable(step.priority))
        case _:
            priority = step.priority or MIN_PRIORITY
            return _each(lambda: box.try_take(priority))[:_STEPS_MAX]


def _put(box: Mailbox, step: MailStep) -> None:
    mail = Mail(lambda: None, min(step.priority, MAX_PRIORITY), step.what, step.deferrable)
    if not step.afar:
        box.put(mail, urgent=step.urgent)
        return
    thread = threading.Thread(target=box.put, args=(mail,), kwargs={"urgent": step.urgent})
    thread.start()
    thread.join(timeout=_JOIN_S)
    box.let_loop_turn()


def _each(take: Callable[[], Deliverable | None]) -> list[str]:
    """What the mails say that can be taken."""
    return [mail.what for mail in iter(take, None)]


def smallest_program(
    program: Sequence[MailStep], *, differs: Callable[[Sequence[MailStep]], bool]
) -> tuple[MailStep, ...]:
    """The program without the steps that the difference does not need, and with plain mails where it can be."""
    best = tuple(program)
    while (smaller := next((one for one in _smaller(best) if differs(one)), None)) is not None:
        best = smaller
    return best


def _smaller(program: tuple[MailStep, ...]) -> Iterator[tuple[MailStep, ...]]:
    for place in range(len(program)):
        yield (*program[:place], *program[place + 1 :])
    for place, step in enumerate(program):
        for change in _PLAINER:
            plain = replace(step, **change)
            if plain != step:
                yield (*program[:place], plain, *program[place + 1 :])


_PLAINER: Final[tuple[dict[str, Any], ...]] = (
    {"afar": False},
    {"deferrable": False},
    {"urgent": False},
    {"priority": 0},
)
