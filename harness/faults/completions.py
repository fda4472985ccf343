"""`duplicate_completion`, `missing_completion`, `answer_at_timeout`: a handle is completed twice, never, or in a race.

Answers to a client library that repeats or loses a callback (`ResultFuture.complete` in Flink), and to one that
completes from a thread of its own while the record times out. Evidence: the attempt journalled that the handle was used
a second time, that an answer arrived and was not passed to the handle, or that it was held until the timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from harness.faults.model.fault import Effect
from harness.faults.model.fields import Way
from harness.faults.model.workload import CallFault, StruckCall, Turn
from harness.history.notes import Measured


class DuplicateCompletion(CallFault):
    """Performs each use of the result handle twice."""

    about = "The function completes some calls twice."
    must_show = "The result handle of a selected call was used a second time."
    shows = "completion repeated"
    can = ()
    acts_alone = True

    do: Literal["duplicate_completion"]

    @property
    def does(self) -> str:
        return "twice"

    def act_on_call(self, call: StruckCall) -> None:

        def pass_on(what: str, use: Callable[[], None]) -> None:
            use()
            facts = {"id": call.id, "by": what}
            call.journal.note(Measured(fault=self.id, what="completion repeated", facts=facts))
            use()

        call.invoke(pass_on)


class MissingCompletion(CallFault):
    """Performs no use of the result handle."""

    about = "The function never completes some calls, although their answers arrive."
    must_show = "The answer of a selected call arrived and did not complete it."
    shows = "completion lost"
    can = ("late",)
    acts_alone = True

    do: Literal["missing_completion"]

    @property
    def does(self) -> str:
        return "never"

    def act_on_call(self, call: StruckCall) -> None:

        def pass_on(what: str, _use: Callable[[], None]) -> None:
            facts = {"id": call.id, "by": what}
            call.journal.note(Measured(fault=self.id, what="completion lost", facts=facts))

        call.invoke(pass_on)


class AnswerAtTimeout(CallFault):
    """Holds the uses of the result handle until the record times out.

    A coroutine's answer takes two turns of the loop more than a timer, so by itself none comes at that instant.
    """

    about = (
        "The answers of some calls are held until their records time out, and reach the handle at that instant: "
        "`before` the timer's mail, `at` it (it waits and has not run), or `after` it gave its outcome."
    )
    must_show = "An answer that had been held was passed to the handle in the turn of its record's timer."
    shows = "answer at the timeout"
    levels = ("sim",)
    can = ("late",)
    acts_alone = True

    do: Literal["answer_at_timeout"]
    how: Annotated[Turn, Field(description=Way.description, examples=["at"])]

    @property
    def effects(self) -> tuple[Effect, ...]:
        """An answer that comes before the timer's mail has run keeps the timeout away (A43)."""
        return self.can if self.how == "after" else ()

    @property
    def does(self) -> str:
        return self.how

    def act_on_call(self, call: StruckCall) -> None:
        held: list[Callable[[], None]] | None = []

        def release() -> None:
            nonlocal held
            uses, held = held or [], None
            for use in uses:
                use()

        def pass_on(what: str, use: Callable[[], None]) -> None:
            if held is None:  # the answer comes later than the timeout by itself
                use()
                return

            def use_now() -> None:
                facts = {"id": call.id, "by": what}
                call.journal.note(Measured(fault=self.id, what="answer at the timeout", facts=facts))
                use()

            held.append(use_now)

        call.at_timeout(self.how, release)
        call.invoke(pass_on)
