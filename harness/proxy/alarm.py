"""An alarm: a timer of a connection that falls silent when the connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Alarm"]


class Alarm:
    """Set when it is made; mutable: it is among its connection's alarms until it rang or was cancelled."""

    __slots__ = ("_act", "_among", "_handle")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        act: Callable[[], None],
        *,
        among: dict[Alarm, None],
    ) -> None:
        self._act = act
        self._among = among
        self._handle = loop.call_later(max(0.0, seconds), self._ring)
        among[self] = None

    def cancel(self) -> None:
        """It shall not ring any more."""
        self._handle.cancel()
        self._among.pop(self, None)

    def _ring(self) -> None:
        del self._among[self]
        self._act()
