"""Patience: a run whose code does nothing but turn, at one instant of virtual time, is stuck and does end.

Answers to the watchdog of a task thread, in a world whose clock stands while anybody runs. Invariant: it acts only
where the clock stands for seconds of computing, which no honest run takes; there is no other end, so where exactly
it comes is of no account.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from harness.sim.simulation import Simulation

__all__ = ["patience"]

_LOOKS_EVERY_S: Final = 2.0
"""Seconds of this process's own computing; what waits for a processor does not count."""


@contextmanager
def patience(run: Simulation) -> Iterator[None]:
    """Look after `run` while it runs; nobody does in any thread but the main one, which alone gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen_ms = -1

    def look(*_: Any) -> None:
        nonlocal seen_ms
        now_ms = run.hub.now_ms
        if now_ms == seen_ms:
            why = f"stuck at {now_ms} ms of virtual time: somebody goes on and on, and it never ends"
            run.fail(why)  # does not return if it is an attempt
            raise TimeoutError(why)
        seen_ms = now_ms

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LOOKS_EVERY_S, _LOOKS_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
