"""What takes an operator's results, and has no room for more now and then: a scenario's `operator.downstream`.

Answers to the output availability of a Flink task under back pressure. Invariant: it takes some results before it is
shut again, so what is held is held for a known time at most.
"""

from __future__ import annotations

import asyncio

from reference_impl.mailbox.availability import AVAILABLE, Availability

__all__ = ["ShutDownstream"]


class ShutDownstream:
    """Of one attempt. Mutable: shut for `shut_ms` each time that it was asked for room `takes` times."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, takes: int, shut_ms: int) -> None:
        self._loop = loop
        self._takes = takes
        self._shut_s = shut_ms / 1000
        self._asked = 0
        self._shut: Availability | None = None

    def __call__(self) -> Availability:
        """Whether there is room, and the wait for it."""
        if self._shut is not None:
            return self._shut
        self._asked += 1
        if self._asked <= self._takes:
            return AVAILABLE
        self._asked = 0
        self._shut = Availability()
        self._loop.call_later(self._shut_s, self._open)
        return self._shut

    def _open(self) -> None:
        shut, self._shut = self._shut, None
        assert shut is not None, "it opens once each time that it is shut"
        shut.end()
