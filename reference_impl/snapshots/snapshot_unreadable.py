"""Why a snapshot's file is not restored from.

Answers to what Flink raises as `IOException`, `StateMigrationException` or `IllegalStateException` while it reads a
checkpoint's metadata and handles. Invariant: the error names the file, and the operator and its state where it can.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from reference_impl.errors import OperatorError

__all__ = ["SnapshotDefect", "SnapshotUnreadable"]


class SnapshotDefect(Enum):
    """What is wrong with it, with what to do about it."""

    MISSING = "is missing; look whether somebody cleans the folder, or restore another checkpoint"
    NOT_READ = (
        "cannot be read from the disk; look at its permissions and at the disk, or restore another checkpoint"
    )
    NO_SNAPSHOT = "is no snapshot of this program; look at the path"
    OTHER_VERSION = "has another format; read it with the version that wrote it"
    TORN = "ends too early; whoever copied or wrote it did not finish: copy it again, or restore another checkpoint"
    ALTERED = "is not what was written; look at the disk, and restore another checkpoint"
    OTHER_JOB = "belongs to another job; give the path of this job's, or the job's id"
    UNKNOWN_STATE = (
        "holds a state that nothing takes; give the operator its old id, or allow it to be left behind"
    )


class SnapshotUnreadable(OperatorError):
    """The snapshot in file `path` is refused for `defect`, found in `state` of `operator_id` if it was in one."""

    def __init__(
        self,
        defect: SnapshotDefect,
        detail: str,
        *,
        path: Path,
        operator_id: str | None = None,
        state: str | None = None,
    ) -> None:
        where = f"{state} of operator {operator_id!r} in " if operator_id is not None else ""
        super().__init__(f"{where}snapshot {path} {defect.value} ({detail})")
        self.defect = defect
        self.path = path
        self.operator_id = operator_id
        self.state = state
