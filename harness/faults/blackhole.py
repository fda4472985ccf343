"""`blackhole`: the link swallows everything; connections stay open, connects succeed, nothing answers.

Evidence: calls begun under it timed out or lost their connection, and none got its answer while it lasted. A
client that waits without a limit of its own notices when healing cuts its connection, so losses just after
count too, if a call was waiting then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Control, Evidence, Seen, Toxic

__all__ = ["Blackhole"]

_NOTICE_US = 500_000
"""How long after healing a connection that was swallowed may take to be noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole:
    """Drops what flows `downstream`, `upstream`, or both ways (`stream` None)."""

    name: str
    link: str
    stream: str | None

    @contextmanager
    def inject(self, control: Control) -> Iterator[None]:
        """Healing closes the connections that were swallowed: their streams have holes."""
        streams = (self.stream,) if self.stream else ("upstream", "downstream")
        try:
            for stream in streams:
                name = f"{self.name}-{stream}"
                toxic = Toxic(name=name, type="timeout", stream=stream, attributes={"timeout": 0})
                control.add_toxic(self.link, toxic)
            yield
        finally:
            for stream in streams:
                control.remove_toxic(self.link, f"{self.name}-{stream}")

    def evidence(self, seen: Seen) -> Evidence:
        """How many calls it swallowed; empty if one of them was answered while it lasted."""
        during = seen.during()
        answered = [call for call in seen.inside() if call.ending == "ok"]
        timed_out = sum(1 for call in during if call.ending == "timeout")
        lost = seen.losses_during(self.link, grace_us=_NOTICE_US)
        if answered or not (timed_out or (lost and seen.waiting())):
            return {}
        return {
            "calls_during": len(during),
            "timed_out": timed_out,
            "connections_lost": len(lost),
            "waiting_at_its_end": len(seen.waiting()),
            "answered": 0,
        }
