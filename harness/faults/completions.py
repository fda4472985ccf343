"""`duplicate_completion`, `missing_completion`: a call's result handle is completed twice, or never.

Answers to a client library that repeats or loses a callback (`ResultFuture.complete` in Flink). Evidence: the attempt
journalled that the handle was used a second time, or that an answer arrived and was not passed to the handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from harness.faults.model.workload import CallFault, StruckCall
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
