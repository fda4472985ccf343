"""What a fault is: something that is armed, acts, heals, and must have left evidence.

Answers to Jepsen's nemesis and to Toxiproxy's toxics. Invariant: evidence is what the run recorded while the
fault was on, never that the fault was asked for; no evidence means that nothing was shown (V23).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from harness.history.timed_call import TimedCall

__all__ = ["Control", "Evidence", "NetworkFault", "Seen", "Toxic", "fastest_ms", "loss_evidence", "median_ms"]

Evidence = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic, as Toxiproxy takes it; `stream` is `upstream` (to the server) or `downstream`."""

    name: str
    type: str
    stream: str
    attributes: dict[str, int]


class Control(Protocol):
    """What a fault does to a link of the world's proxy; every call has a limit."""

    def add_toxic(self, link: str, toxic: Toxic) -> None:
        """Put `toxic` on `link`; live connections are affected at once."""

    def remove_toxic(self, link: str, name: str) -> None:
        """Take it away; one that is gone already is no error. Never deadlocks (infrastructure 3.4)."""

    def disable(self, link: str) -> None:
        """Stop listening and cut every live connection."""

    def enable(self, link: str) -> None:
        """Listen again on the same port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the run recorded, cut at the fault's window."""

    armed_us: int
    healed_us: int
    calls: Sequence[TimedCall]
    """Over the fault's own link."""
    losses: Sequence[tuple[int, str, int | str]]
    """(when, link, error code) of each connection that was lost or refused."""

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

    def before(self) -> list[TimedCall]:
        """Calls that had ended when the fault was armed."""
        return [call for call in self.calls if call.ended_us is not None and call.ended_us < self.armed_us]

    def after(self) -> list[TimedCall]:
        """Calls that began when the fault had healed."""
        return [call for call in self.calls if call.began_us >= self.healed_us]

    def losses_during(self, link: str, *, grace_us: int = 0) -> list[int | str]:
        """Codes of connections over `link` lost under the fault, or within the grace after it."""
        until_us = self.healed_us + grace_us
        within = (loss for loss in self.losses if self.armed_us <= loss[0] <= until_us)
        return [code for _, over, code in within if over == link]


def median_ms(calls: Sequence[TimedCall]) -> float | None:
    """The median length of those that ended; None if none did."""
    lengths = [call.took_ms for call in calls if call.took_ms is not None]
    return median(lengths) if lengths else None


def fastest_ms(calls: Sequence[TimedCall]) -> float | None:
    """The shortest length of those that ended; None if none did."""
    return min((call.took_ms for call in calls if call.took_ms is not None), default=None)


def loss_evidence(seen: Seen, link: str) -> Evidence:
    """How many connections over `link` were lost or refused under the fault, by error code."""
    lost = seen.losses_during(link)
    codes = Counter(str(code) for code in lost)
    return {"connections_lost": len(lost), "codes": dict(sorted(codes.items()))} if lost else {}


class NetworkFault(Protocol):
    """A fault of a link."""

    @property
    def link(self) -> str:
        """The link that it disturbs."""

    def inject(self, control: Control) -> AbstractContextManager[None]:
        """On while the block lasts; healed when it ends, however it ends."""

    def evidence(self, seen: Seen) -> Evidence:
        """What shows that it bit; empty if nothing does."""
