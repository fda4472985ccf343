"""`duplicate_completion`, `missing_completion`: the adapter completes a call twice, or loses its completion.

Answers to an adapter that repeats a callback or loses it. Of the first call of a record, or of several in a row.
Evidence: the attempt's note that the handle was used again, or that an answer had come and was passed on to nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from harness.faults.model.workload import CallFault, StruckCall

__all__ = ["DuplicateCompletion", "MissingCompletion"]


class DuplicateCompletion(CallFault):
    """Each use of the handle is made two times."""

    about = "The adapter completes calls twice."
    must_show = "The handle of a call that was picked was used a second time."
    shows = "completion repeated"

    do: Literal["duplicate_completion"]

    @property
    def does(self) -> str:
        return "twice"

    def strike(self, call: StruckCall) -> None:

        def pass_on(what: str, use: Callable[[], None]) -> None:
            use()
            call.journal.measured(self.id, "completion repeated", id=call.id, by=what)
            use()

        call.invoke(pass_on)


class MissingCompletion(CallFault):
    """No use of the handle is made."""

    about = "The adapter never completes calls, although their answers came."
    must_show = "The answer of a call that was picked came, and was passed on to nobody."
    shows = "completion lost"

    do: Literal["missing_completion"]

    @property
    def does(self) -> str:
        return "never"

    def strike(self, call: StruckCall) -> None:

        def pass_on(what: str, _use: Callable[[], None]) -> None:
            call.journal.measured(self.id, "completion lost", id=call.id, by=what)

        call.invoke(pass_on)
