"""Trouble with the checkpoint store: writes that take long or fail, and files that are torn or gone afterwards.

Answers to a remote file system on a bad day. Invariant: what a write met and what became of a file is written down
with the file's name and its bytes; whether that mattered is for a later restore to say.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from harness.checkpoint_store import CheckpointStore
from harness.clock import monotonic_us, pause
from harness.sut.inside.stall import ActJournal

__all__ = ["StoreTrouble"]

_ERRNO = {"no-space": errno.ENOSPC, "read-only": errno.EROFS, "io-error": errno.EIO}


class StoreTrouble:
    """One attempt's. Mutable: what acts on its writes now, each with the instant (us) when it is over."""

    def __init__(self, store: CheckpointStore, journal: ActJournal) -> None:
        self._store = store
        self._journal = journal
        self._acting: list[tuple[int, Callable[[], None]]] = []
        store.trouble = self.before_write

    def before_write(self) -> None:
        """By the store: take the time, or raise the OSError, that a fault asks for."""
        for until_us, meet in self._acting:
            if monotonic_us() < until_us:
                meet()

    def slow(self, fault: str, *, delay_ms: int, lasts_ms: int) -> None:
        """Each write takes so much longer, for a while."""

        def meet() -> None:
            began_us = monotonic_us()
            pause(delay_ms / 1000)
            took_ms = round((monotonic_us() - began_us) / 1000, 1)
            self._journal.measured(fault, "write delayed", took_ms=took_ms)

        self._journal.acted(fault, "store slow", asked_ms=delay_ms)
        self._acting.append((monotonic_us() + lasts_ms * 1000, meet))

    def fail(self, fault: str, *, how: str, lasts_ms: int) -> None:
        """Each write fails, for a while."""
        code = _ERRNO[how]

        def meet() -> None:
            self._journal.measured(fault, "write refused", errno=errno.errorcode[code])
            raise OSError(code, os.strerror(code))

        self._journal.acted(fault, "store failing", how=how)
        self._acting.append((monotonic_us() + lasts_ms * 1000, meet))

    def tear(self, fault: str, *, times: int) -> None:
        """The newest files lose their second half."""
        files = self._store.files
        for name in files.names()[-times:]:
            size = len(files.read(name))
            files.cut(name, size // 2)
            self._journal.acted(fault, "torn", file=name, bytes=size // 2, of=size)

    def lose(self, fault: str, *, times: int) -> None:
        """The newest files are gone."""
        files = self._store.files
        for name in files.names()[-times:]:
            size = len(files.read(name))
            files.remove(name)
            self._journal.acted(fault, "missing", file=name, of=size)
