"""What leaves a packet gate: at once, or in order behind barriers that hold it back.

Invariant: nothing overtakes; a barrier that is lifted lets go of what came before the next one, FIN and RST included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, assert_never

from harness.proxy.stage import Receiver

__all__ = ["Barrier", "Outflow", "Outlet"]


class Outlet(Protocol):
    """Whose next receiver is fed."""

    @property
    def next(self) -> Receiver:
        """As of a stage."""


class _Ending(Enum):
    EOF = "eof"
    RESET = "reset"


@dataclass(slots=True, kw_only=True, eq=False)
class Barrier:
    """Holds back what comes after it. Mutable: it is lifted, and counts what gathers behind it."""

    owner: object
    since: float
    gone: Callable[[float, int], None]
    """Told, when it lets go, for how many seconds it stood and how many bytes had gathered."""
    lifted: bool = False
    bytes: int = 0


class Outflow:
    """A queue that is empty unless a barrier stands; mutable."""

    __slots__ = ("_now", "_outlet", "_queue", "held")

    def __init__(self, outlet: Outlet, *, now: Callable[[], float]) -> None:
        self._outlet = outlet
        self._now = now
        self.held = 0
        """Bytes that wait behind barriers."""
        self._queue: deque[bytes | _Ending | Barrier | Callable[[], None]] = deque()

    def __bool__(self) -> bool:
        """Whether anything is held back."""
        return bool(self._queue)

    def data(self, chunk: bytes) -> None:
        """Bytes for the peer."""
        if not self._queue:
            self._outlet.next.data(chunk)
            return
        self._queue.append(chunk)
        self.held += len(chunk)
        last = next((item for item in reversed(self._queue) if isinstance(item, Barrier)), None)
        if last is not None:
            last.bytes += len(chunk)

    def eof(self) -> None:
        """FIN, in its turn."""
        self._put(_Ending.EOF)

    def reset(self) -> None:
        """RST, in its turn."""
        self._put(_Ending.RESET)

    def call(self, act: Callable[[], None]) -> None:
        """Do something when all that came before has gone."""
        self._put(act)

    def bar(self, barrier: Barrier) -> None:
        """Hold back what comes from now on."""
        self._queue.append(barrier)

    def lift(self, barrier: Barrier) -> None:
        """Let go of what the barrier holds, once those before it are lifted too."""
        barrier.lifted = True
        self._flow()

    def lift_all_of(self, owner: object) -> None:
        """Lift every barrier that `owner` has put up."""
        for item in self._queue:
            if isinstance(item, Barrier) and item.owner is owner:
                item.lifted = True
        self._flow()

    def clear(self) -> None:
        """Forget what is held: the connection ends here."""
        self._queue.clear()
        self.held = 0

    def _put(self, item: _Ending | Callable[[], None]) -> None:
        self._queue.append(item)
        if len(self._queue) == 1:
            self._flow()

    def _flow(self) -> None:
        while self._queue:
            item = self._queue[0]
            if isinstance(item, Barrier) and not item.lifted:
                return
            self._queue.popleft()
            match item:
                case Barrier():
                    item.gone(self._now() - item.since, item.bytes)
                case bytes():
                    self.held -= len(item)
                    self._outlet.next.data(item)
                case _Ending.EOF:
                    self._outlet.next.eof()
                case _Ending.RESET:
                    self._outlet.next.reset()
                case _ if callable(item):
                    item()
                case _:
                    assert_never(item)
