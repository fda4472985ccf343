"""Ctrl-C: once ends the run with all that it owes (faults healed, a report), twice ends the process.

Invariant: whatever was started is named in a ledger, so even the second Ctrl-C leaves nothing that
`floodmark clean` would not find.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from harness.engine.observer import Stop
from harness.errors import Exit

__all__ = ["stop_on_interrupt"]


@contextmanager
def stop_on_interrupt() -> Iterator[Stop]:
    """A `Stop` that the first SIGINT or SIGTERM sets; the second ends this process at once."""
    stop = Stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            click.echo("floodmark: killed; `floodmark clean` removes what is left", err=True)
            os._exit(Exit.INTERRUPTED)
        click.echo("floodmark: stopping; what ran is reported (again to kill)", err=True)
        stop.set()

    kept = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
