"""A selector that wakes when it was asked to, and not up to a millisecond later.

Python's epoll rounds a wait up to whole milliseconds: of a request of 5 ms that is a fifth. `select` on the epoll's
own descriptor waits in microseconds. There is no such class in Flink, whose timers have threads. Invariant: it
never wakes early, and finds the same events.
"""

from __future__ import annotations

import select
import selectors
import sys

__all__ = ["fine_selector"]

_DESCRIPTOR_MAX = 1023
"""The largest that `select` can wait for."""


def fine_selector() -> selectors.BaseSelector:
    """The finest that this system has."""
    return _FineEpollSelector() if sys.platform == "linux" else selectors.DefaultSelector()


if sys.platform == "linux":

    class _FineEpollSelector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0 and self.fileno() <= _DESCRIPTOR_MAX:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
            return super().select(timeout)
