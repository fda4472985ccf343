"""A downstream that repeatedly has no output buffer available: a scenario's `operator.downstream`.

Answers to the output availability of a Flink task under back pressure. Invariant: it accepts `takes` checks between two
blocked times, so a result waits for at most `shut_ms`.
"""

from __future__ import annotations

import asyncio

from reference_impl.mailbox.availability import AVAILABLE, Availability


class ShutDownstream:
    """The downstream of one attempt: blocks for `shut_ms` after every `takes` checks. Mutable."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, takes: int, shut_ms: int) -> None:
        self._loop = loop
        self._takes = takes
        self._shut_s = shut_ms / 1000
        self._asked = 0
        self._shut: Availability | None = None

    def __call__(self) -> Availability:
        """The present availability; if it is blocked, a wait for its end."""
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
