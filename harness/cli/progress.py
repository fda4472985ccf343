"""Progress: what a person sees while a campaign runs; on standard error, never among the data.

Invariant: without a terminal every phase is one plain line and nothing is redrawn; with one, the line that
moves says how the run stands now. NO_COLOR, CI and TERM=dumb are honoured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.engine.observer import Observer

__all__ = ["Plain", "Redrawn", "observing"]


class Plain(Observer):
    """One line a phase."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def phase(self, name: str, text: str) -> None:
        """See `Observer`."""
        self._console.print(Text.assemble((f"{name:<7}", "bold"), text), soft_wrap=True)


class Redrawn(Plain):
    """One line a phase, and below them the line that moves."""

    def __init__(self, console: Console, live: Live) -> None:
        super().__init__(console)
        self._live = live

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        """See `Observer`."""
        line = Text(f"{elapsed_s:6.1f} s   in flight {in_flight:3d}   lag {lag:5d}   epoch {epoch:3d}   ")
        for fault, bites in faults.items():
            line.append(f"[{fault} {'bites' if bites else 'acts'}] ", style="red" if bites else "yellow")
        self._live.update(line)


@contextmanager
def observing(*, quiet: bool, verbose: bool, no_color: bool) -> Iterator[Observer]:
    """The observer for this terminal, or for none."""
    if quiet:
        yield Observer()
        return
    console = Console(stderr=True, no_color=no_color or None, highlight=False)
    dumb = bool(os.environ.get("CI")) or os.environ.get("TERM") == "dumb"
    if verbose or dumb or not sys.stderr.isatty():
        yield Plain(console)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield Redrawn(console, live)
