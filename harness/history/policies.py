"""What an outcome may be by the policies that a header declares: the part of V20 that needs nothing but the two.

`on_error`, `on_timeout`, `substitute` and `raised` of `docs/reference/history.md`. The exact checker and the screen ask
the same questions here.
"""

from __future__ import annotations

from msgspec import UNSET

from harness.history.event import Res
from harness.history.header import Header
from harness.history.values import same


def is_failure(event: object) -> bool:
    """Whether it is an outcome by which a record fails for good."""
    if not isinstance(event, Res):
        return False
    return (event.r == "fail" and event.final) or (event.r == "timeout" and event.error is not UNSET)


def is_judged(res: Res, header: Header) -> bool:
    """Whether V20 asks what this outcome yields: a failure, or a timeout whose yield is declared."""
    return is_failure(res) or (res.r == "timeout" and (header.raised or header.substitute is not None))


def policy_for(res: Res, header: Header) -> str | None:
    """What the operator declares for the failure that an outcome is; None: nothing."""
    return header.operator.on_timeout if res.r == "timeout" else header.operator.on_error


def against_policy(res: Res, header: Header) -> str | None:
    """The class of what is wrong with an outcome by the header alone; None: nothing."""
    is_error = res.r == "fail" or (res.r == "timeout" and res.error is not UNSET)
    if res.r == "timeout":
        if header.substitute is not None:
            yielded = [] if res.v is UNSET else res.v
            return "wrong-substitute" if is_error or not same(yielded, list(header.substitute)) else None
        if header.raised and not is_error and policy_for(res, header) in ("fail", "dead"):
            return "wrong-substitute"
    if not header.raised:
        return None
    if is_error:
        is_kept = res.raised is not UNSET and same(res.error, res.raised)
        # Where a failure fails the task an operator may well wrap it, as Flink does.
        return None if is_kept or policy_for(res, header) != "dead" else "error-altered"
    return "result-of-error" if res.r == "ok" and res.raised is not UNSET else None
