"""What a run recorded while a fault was on, for its evidence: calls, losses, errors, the proxy's deeds, findings.

Answers to the part of a Jepsen history between two nemesis operations. Invariant: everything in it was written
down by someone who was there: an attempt, the proxy, the fault itself; a plan is never evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from harness.faults.real.deed import Deed
from harness.history.timed_call import TimedCall

__all__ = ["NOTICE_US", "Evidence", "Loss", "Seen", "fastest_ms", "loss_evidence", "median_ms"]

Evidence = dict[str, Any]

Loss = tuple[int, str, int | str]
"""When (microseconds), over which link, with which error code."""

NOTICE_US = 500_000
"""How long after healing a client may take to notice what became of its connection or its statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of one fault, from `armed_us` to `healed_us`; what lies around that time is there to compare."""

    armed_us: int
    healed_us: int
    arming_us: int | None = None
    """When arming began, from when on it may have done something; None: no sooner than `armed_us`."""
    calls: Sequence[TimedCall] = ()
    """Of the whole run, over both links."""
    losses: Sequence[Loss] = ()
    """Each connection that was lost or refused, in the whole run."""
    errors: Sequence[Loss] = ()
    """Each error that a client met, losses among them, in the whole run."""
    deeds: Sequence[Deed] | None = None
    """What the proxy did on the fault's account; None: it keeps no log, or the fault is not the proxy's."""
    found: Sequence[Mapping[str, Any]] = ()
    """What the fault itself saw."""
    events: Sequence[Mapping[str, Any]] = ()
    """Every line of the run; none while it still runs."""

    def fact(self, what: str) -> Mapping[str, Any] | None:
        """The first that the fault itself saw of that kind."""
        return next((fact for fact in self.found if fact["what"] == what), None)

    def over(self, link: str) -> Seen:
        """Of one link only."""
        return replace(
            self,
            calls=[call for call in self.calls if call.link == link],
            losses=[loss for loss in self.losses if loss[1] == link],
            errors=[error for error in self.errors if error[1] == link],
        )

    def during(self) -> list[TimedCall]:
        """Calls that began under the fault."""
        return [call for call in self.calls if self.armed_us <= call.began_us < self.healed_us]

    def inside(self) -> list[TimedCall]:
        """Calls that began and ended under the fault: all of each happened to it."""
        return [
            call for call in self.during() if call.ended_us is not None and call.ended_us <= self.healed_us
        ]

    def waiting(self) -> list[TimedCall]:
        """Calls that had begun and had no outcome yet when the fault healed."""
        begun = (call for call in self.calls if call.began_us < self.healed_us)
        return [call for call in begun if call.ended_us is None or call.ended_us > self.healed_us]

    def timed_out(self) -> int:
        """How many calls timed out that the fault may have kept waiting.

        The answer may have been on its way when the fault was armed, and its call may have given up after the end.
        """
        begun = (call for call in self.calls if call.began_us < self.healed_us and call.ending == "timeout")
        return sum(1 for call in begun if call.ended_us is not None and call.ended_us >= self._since_us)

    def before(self) -> list[TimedCall]:
        """Calls that had ended when the fault was armed."""
        return [call for call in self.calls if call.ended_us is not None and call.ended_us < self.armed_us]

    def after(self) -> list[TimedCall]:
        """Calls that began when the fault had healed."""
        return [call for call in self.calls if call.began_us >= self.healed_us]

    def losses_during(self, *, grace_us: int = 0) -> list[int | str]:
        """Codes of connections that were lost under the fault, or within the grace after it."""
        return [loss[2] for loss in self.losses if self._is_inside(loss[0], grace_us)]

    def errors_during(self, *codes: int | str, grace_us: int = 0) -> list[int | str]:
        """Those of `codes` (all, if none is named) that clients met under the fault, or within the grace after it."""
        met = [error[2] for error in self.errors if self._is_inside(error[0], grace_us)]
        return [code for code in met if not codes or code in codes]

    def did(self, *dids: str, stream: str = "") -> list[Deed]:
        """The proxy's deeds of these sorts, of one direction if it is named."""
        return [
            deed for deed in self.deeds or () if deed.did in dids and (not stream or deed.stream == stream)
        ]

    def _is_inside(self, at_us: int, grace_us: int) -> bool:
        return self._since_us <= at_us <= self.healed_us + grace_us

    @property
    def _since_us(self) -> int:
        """When it may have begun to act."""
        return self.armed_us if self.arming_us is None else self.arming_us


def median_ms(calls: Sequence[TimedCall]) -> float | None:
    """The median length of those that ended; None if none did."""
    lengths = [call.took_ms for call in calls if call.took_ms is not None]
    return median(lengths) if lengths else None


def fastest_ms(calls: Sequence[TimedCall]) -> float | None:
    """The shortest length of those that ended; None if none did."""
    return min((call.took_ms for call in calls if call.took_ms is not None), default=None)


def loss_evidence(seen: Seen, *, grace_us: int = 0) -> Evidence:
    """How many connections were lost or refused under the fault, by error code."""
    lost = seen.losses_during(grace_us=grace_us)
    codes = Counter(str(code) for code in lost)
    return {"connections_lost": len(lost), "codes": dict(sorted(codes.items()))} if lost else {}
