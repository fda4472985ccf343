"""Causes: who caused a failure, as a history names it in `by` (V24).

Invariant: a cause is known, never guessed. An exception that a fault or the scenario raises carries its cause; one that
the service raised is `outside` only if no fault of the run can have made the service raise it.
"""

from __future__ import annotations

from collections.abc import Callable

OUTSIDE = "outside"
"""Cause outside of the run: a signal that the harness did not send, an error of the service itself."""
PLANTED = "planted"
"""Cause in the scenario, but no fault."""
CAUSES_OUTSIDE = (OUTSIDE, PLANTED)
"""Causes that name no fault."""


class Caused(Exception):
    """A failure that a fault or the scenario raises; `by` is the fault's name, or `PLANTED`."""

    def __init__(self, message: str, *, by: str) -> None:
        super().__init__(message)
        self.by = by


def cause_of(
    error: BaseException, *, is_outside: Callable[[BaseException], bool] = lambda error: False
) -> str | None:
    """The cause that `error` or an error behind it carries; None: not known."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    named = next((one.by for one in chain if isinstance(one, Caused)), None)
    if named is not None:
        return named
    return OUTSIDE if any(is_outside(one) for one in chain) else None
