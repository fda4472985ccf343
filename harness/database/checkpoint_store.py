"""The checkpoint store: one file for each part that a subtask hands in, whole or not there.

Answers to Flink's `FsCheckpointStorageAccess` and `CompletedCheckpointStore`. Invariant: a file that can be read is
the one that was written, for it carries its length and checksum and appears under its name only when it is on disk;
what was passed over in a restore is said, never hidden.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.choices import Choices
from harness.clock import REAL_CLOCK, Clock, Deadline
from harness.database.epoch import Part, PassedOver, Restored, SavedEpoch, SinkLost
from harness.database.store_files import Files
from harness.database.transactions import Backoff

__all__ = [
    "CheckpointStore",
    "CheckpointUnreadable",
    "StoreLost",
    "checkpoint_folder",
]

_VERSION = 1
_INSIST_S = 20.0
"""As long as a write that fails is tried again."""


class StoreLost(SinkLost):
    """The store cannot give back what it was given, or cannot take any more."""


class CheckpointUnreadable(Exception):
    """A file is torn, or not there; `what` is `torn` or `missing`."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


class _Seal(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file."""

    version: int
    bytes: int
    sha256: str


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """The rest of it."""

    checkpoint: int
    position: int
    elements: list[dict[str, Any]]


def checkpoint_folder(run: Path, *, subtask: int) -> Path:
    """Where the parts of `subtask` are, in the folder of a run's recordings."""
    return run / "checkpoints" / f"subtask-{subtask:03d}"


def _nothing_wrong() -> None:
    """No fault acts on the store."""


class CheckpointStore:
    """One attempt's way to the parts of its subtask.

    `trouble` is called before each write: it may take its time, or raise an OSError.
    """

    def __init__(
        self,
        files: Files,
        *,
        subtask: int,
        seed: int,
        trouble: Callable[[], None] = _nothing_wrong,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self.trouble = trouble
        self.files = files
        self._subtask = subtask
        self._clock = clock
        self._choices = Choices(seed, f"waits of the store of subtask {subtask}")

    def write(
        self, checkpoint: int, *, attempt: int, position: int, elements: Sequence[dict[str, Any]]
    ) -> str:
        """Store a part; the name of its file. Raises `StoreLost` after so many failures that no more is to be hoped."""
        body = _Body(checkpoint=checkpoint, position=position, elements=list(elements))
        name = f"checkpoint-{checkpoint:06d}-attempt-{attempt:04d}"
        deadline, backoff = Deadline(_INSIST_S, clock=self._clock), Backoff(self._choices)
        while True:
            try:
                self._write(name, msgspec.json.encode(body))
            except OSError as error:
                if deadline.passed:
                    message = (
                        f"checkpoint {checkpoint} of subtask {self._subtask} could not be stored"
                        f" within {_INSIST_S:.3g} s: {error}"
                    )
                    raise StoreLost(message) from error
                self._clock.pause(backoff.next_ms() / 1000)
            else:
                return name

    def _write(self, name: str, body: bytes) -> None:
        self.trouble()
        seal = _Seal(version=_VERSION, bytes=len(body), sha256=hashlib.sha256(body).hexdigest())
        self.files.write(name, msgspec.json.encode(seal) + b"\n" + body)

    def read(self, name: str) -> SavedEpoch:
        """The part in file `name`. Raises `CheckpointUnreadable`."""
        try:
            first, _, body = self.files.read(name).partition(b"\n")
        except FileNotFoundError as error:
            raise CheckpointUnreadable("missing", f"its file {name} is missing") from error
        try:
            seal = msgspec.json.decode(first, type=_Seal)
        except msgspec.MsgspecError as error:
            raise CheckpointUnreadable(
                "torn", f"its file {name} is torn: its first line is no seal"
            ) from error
        if seal.version != _VERSION:
            message = f"its file {name} is of version {seal.version}, and this program reads {_VERSION}"
            raise CheckpointUnreadable("torn", message)
        if len(body) != seal.bytes or hashlib.sha256(body).hexdigest() != seal.sha256:
            message = f"its file {name} is torn: {len(body)} bytes of {seal.bytes}, or not those written"
            raise CheckpointUnreadable("torn", message)
        part = msgspec.json.decode(body, type=_Body)
        return SavedEpoch(epoch=part.checkpoint, position=part.position, elements=part.elements)

    def restore(self, parts: Sequence[Part], *, committed: int) -> Restored:
        """The newest of `parts` (newest first, all completed) that can be read; those before it are passed over.

        Nothing may be restored that is older than epoch `committed`, whose outputs are visible already: a replay
        would show them a second time. Raises `StoreLost`.
        """
        passed_over: list[PassedOver] = []
        for part in parts:
            if part.epoch < committed:
                break
            try:
                saved = self.read(part.file)
            except CheckpointUnreadable as error:
                passed = PassedOver(epoch=part.epoch, file=part.file, what=error.what, why=str(error))
                passed_over.append(passed)
            else:
                return Restored(saved=saved, passed_over=tuple(passed_over))
        if not parts:
            return Restored(saved=None, passed_over=())
        raise StoreLost(self._in_vain(passed_over, committed))

    def _in_vain(self, passed_over: Sequence[PassedOver], committed: int) -> str:
        what = "; ".join(f"checkpoint {one.epoch}: {one.why}" for one in passed_over)
        older = (
            f" older ones than epoch {committed}, which is committed, would show outputs twice;"
            if committed
            else ""
        )
        return f"no checkpoint of subtask {self._subtask} can be restored ({what});{older} look at the store's disk"

    def forget_below(self, checkpoint: int) -> None:
        """Remove parts of checkpoints that nobody will restore any more."""
        for name in self.files.names():
            if _number_of(name) < checkpoint:
                self.files.remove(name)


def _number_of(name: str) -> int:
    """The checkpoint whose part is in the file `name`."""
    return int(name.split("-")[1])
