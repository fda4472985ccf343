"""How far the reading of a long history has come: on standard error, never among the data.

Invariant: on a terminal one line moves, and is wiped when the reading is over; elsewhere, and only if asked for, each
further tenth is one plain line. CI and TERM=dumb are no terminals. `--quiet` beats all.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from harness.clock import monotonic_us

if TYPE_CHECKING:
    from harness.checkers.judge import Progress

__all__ = ["Moving", "Tenths", "reading"]

_PATIENCE_US = 500_000
"""What is read sooner needs no progress."""
_BETWEEN_US = 125_000
_WIPE = "\r\x1b[K"
_UNITS = ("B", "kB", "MB", "GB", "TB")
_THOUSAND = 1000


@contextmanager
def reading(name: str, *, quiet: bool, verbose: bool) -> Iterator[Progress | None]:
    """Who is to be told how far the reading of `name` has come; None if nobody wants to know."""
    if quiet:
        yield None
    elif verbose:
        yield Tenths(name, sys.stderr)
    elif sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb":
        moving = Moving(name, sys.stderr)
        try:
            yield moving
        finally:
            moving.wipe()
    else:
        yield None


class Tenths:
    """A line for each further tenth. Mutable: knows the last one told."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._told = -1

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._told:
            self._told = tenth
            self._stream.write(f"read    {_told(done, total)}  {self._name}\n")


class Moving:
    """A line that moves. Mutable: knows when it was last drawn."""

    def __init__(self, name: str, stream: TextIO, *, now_us: Callable[[], int] = monotonic_us) -> None:
        self._name = name
        self._stream = stream
        self._now_us = now_us
        self._next_us = now_us() + _PATIENCE_US
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = self._now_us()
        if now < self._next_us and not (self._drawn and done == total):
            return
        self._next_us = now + _BETWEEN_US
        self._drawn = True
        columns = shutil.get_terminal_size().columns
        self._stream.write(_WIPE + f"read {_told(done, total)}  {self._name}"[: columns - 1])
        self._stream.flush()

    def wipe(self) -> None:
        """The line goes, if it ever came."""
        if self._drawn:
            self._stream.write(_WIPE)
            self._stream.flush()


def _told(done: int, total: int) -> str:
    share = 100 * done // total if total else 100
    return f"{share:3d} % of {_size(total)}" + ", being judged" * (done == total)


def _size(count: int) -> str:
    """`1.2 GB`."""
    amount = float(count)
    thousands = 0
    while amount >= _THOUSAND and thousands < len(_UNITS) - 1:
        amount /= _THOUSAND
        thousands += 1
    return f"{amount:.{min(thousands, 1)}f} {_UNITS[thousands]}"
