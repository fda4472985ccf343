"""The checkpoint store: one file for each subtask's part of a checkpoint, readable completely or not at all.

Answers to Flink's `FsCheckpointStorageAccess` and `CompletedCheckpointStore`. Invariant: a file that can be
read is what was written: it carries its length and checksum, and gets its name only when it is on disk; a
restore reports every checkpoint that it skipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.database.epoch import CheckpointPart, PassedOver, Restored, SavedEpoch, SinkLost
from harness.database.store_files import Files
from harness.database.transactions import Backoff
from harness.system.choices import Choices
from harness.system.clock import REAL_CLOCK, Clock, Deadline
from harness.system.json_types import Json

_VERSION = 1
_RETRY_S = 20.0
"""How long a failing write is retried."""


class StoreLost(SinkLost):
    """The store cannot return a checkpoint, or cannot store one."""


class CheckpointUnreadable(Exception):
    """A file is damaged or does not exist; `what` is `torn` or `missing`."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


class _Seal(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file: the length and checksum of the rest."""

    version: int
    bytes: int
    sha256: str


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """The rest of a file: the part itself."""

    checkpoint: int
    position: int
    elements: list[dict[str, Any]]


def checkpoint_folder(run: Path, *, subtask: int) -> Path:
    """The folder for the parts of `subtask` in a run's folder."""
    return run / "checkpoints" / f"subtask-{subtask:03d}"


def _nothing_wrong() -> None:
    """The default for `trouble`: no fault acts on the store."""


class CheckpointStore:
    """The store as one attempt of a subtask uses it.

    `trouble` is called before each write; a fault's `trouble` may block or raise an OSError. `reach` is called at the
    phase `store`, before a part is written; it may not return.
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
        self.reach: Callable[[str], None] = lambda phase: None
        self.files = files
        self._subtask = subtask
        self._clock = clock
        self._choices = Choices(seed, f"waits of the store of subtask {subtask}")

    def write(self, checkpoint: int, *, attempt: int, position: int, elements: Sequence[Json]) -> str:
        """Store a part; returns the name of its file. Raises `StoreLost` if writes keep failing for 20 s."""
        body = msgspec.json.encode(_Body(checkpoint=checkpoint, position=position, elements=list(elements)))
        name = f"checkpoint-{checkpoint:06d}-attempt-{attempt:04d}"
        self.reach("store")
        deadline, backoff = Deadline(_RETRY_S, clock=self._clock), Backoff(self._choices)
        while True:
            try:
                self._write(name, body)
            except OSError as error:
                if deadline.passed:
                    message = (
                        f"checkpoint {checkpoint} of subtask {self._subtask} could not be stored"
                        f" within {_RETRY_S:.3g} s: {error}"
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
        """Read the part in file `name`. Raises `CheckpointUnreadable`."""
        try:
            first, _, body = self.files.read(name).partition(b"\n")
        except FileNotFoundError as error:
            raise CheckpointUnreadable("missing", f"its file {name} is missing") from error
        try:
            seal = msgspec.json.decode(first, type=_Seal)
        except msgspec.MsgspecError as error:
            raise CheckpointUnreadable(
                "torn", f"its file {name} is damaged: its first line has no length and checksum"
            ) from error
        if seal.version != _VERSION:
            message = f"its file {name} has version {seal.version}, and this program reads version {_VERSION}"
            raise CheckpointUnreadable("torn", message)
        if len(body) != seal.bytes or hashlib.sha256(body).hexdigest() != seal.sha256:
            message = f"its file {name} is damaged: {len(body)} of {seal.bytes} bytes, or a wrong checksum"
            raise CheckpointUnreadable("torn", message)
        part = msgspec.json.decode(body, type=_Body)
        return SavedEpoch(epoch=part.checkpoint, position=part.position, elements=part.elements)

    def restore(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
        """Restore the newest readable part of `parts` (completed checkpoints, newest first).

        Never restores a checkpoint older than epoch `committed`, whose outputs are already visible: a replay
        would write them a second time. Raises `StoreLost` if none can be restored.
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
        what = "; ".join(f"checkpoint {one.epoch}: {one.why}" for one in passed_over)
        older = (
            f" checkpoints older than the committed epoch {committed} would write outputs twice;"
            if committed
            else ""
        )
        raise StoreLost(
            f"no checkpoint of subtask {self._subtask} can be restored ({what});{older} check the folder's disk"
        )

    def forget_below(self, checkpoint: int) -> None:
        """Remove the parts of checkpoints below `checkpoint`."""
        for name in self.files.names():
            if int(name.split("-")[1]) < checkpoint:
                self.files.remove(name)
