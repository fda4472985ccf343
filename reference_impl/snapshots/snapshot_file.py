"""A completed checkpoint as one file, whole or not there.

Answers to Flink's `_metadata` file with the `MetadataSerializer` and the handles that it refers to. Invariant:
what can be read is what was written. A checksum guards the header and one guards each operator's state by itself,
so an error can name it; the file appears under its name only when all of it is on disk. It is msgpack of plain
values into known types: nothing in a file is ever executed, whoever wrote it.

    magic, format version, length and SHA-256 of the header | header: job, checkpoint, tasks, sections | section | ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from struct import Struct as Layout
from typing import Any

import msgspec

from reference_impl.errors import OperatorError, StateError
from reference_impl.snapshots.handle_format import HANDLE_TYPES, decode_handle, encode_handle
from reference_impl.snapshots.snapshot_unreadable import SnapshotDefect, SnapshotUnreadable
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState, TaskStateSnapshot

__all__ = ["FORMAT_VERSION", "CompletedSnapshot", "read_snapshot", "write_snapshot"]

FORMAT_VERSION = 1
"""Of the file. A reader refuses any other."""

_MAGIC = b"\x8eFLOOD\r\n"
"""A first byte that is no text, and a line's end that a careless copy changes."""
_PREFIX = Layout(">8sHI32s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedSnapshot:
    """What a file holds: of each task what it handed in, None of those without state (C10)."""

    job_id: str
    checkpoint_id: int
    tasks: Mapping[str, TaskStateSnapshot | None]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What whoever assigns the states at a restore wants to know besides, as plain data; comes back as it was."""


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    is_stateless: bool
    is_deployed_as_finished: bool = False
    is_finished: bool = False
    operators: tuple[str, ...] = ()


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one state of one operator of one task, behind those of the section before it."""

    task: str
    operator: str
    state: str
    """A field of `OperatorSubtaskState`."""
    length: int
    sha256: bytes


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    checkpoint_id: int
    tasks: tuple[_Task, ...]
    sections: tuple[_Section, ...]
    metadata: dict[str, Any]


def write_snapshot(path: Path, snapshot: CompletedSnapshot) -> None:
    """Make `snapshot` durable under `path`. Raises StateError, naming it, for a state that is no plain data."""
    sections, bodies = list[_Section](), list[bytes]()
    for task, operator, state, handle in _handles(snapshot):
        body = _encoded(handle, path=path, operator=operator, state=state)
        sections.append(
            _Section(
                task=task, operator=operator, state=state, length=len(body), sha256=sha256(body).digest()
            )
        )
        bodies.append(body)
    header = msgspec.msgpack.encode(
        _Header(
            job_id=snapshot.job_id,
            checkpoint_id=snapshot.checkpoint_id,
            tasks=tuple(_task_of(name, task) for name, task in snapshot.tasks.items()),
            sections=tuple(sections),
            metadata=dict(snapshot.metadata),
        )
    )
    prefix = _PREFIX.pack(_MAGIC, FORMAT_VERSION, len(header), sha256(header).digest())
    _write_whole(path, [prefix, header, *bodies])


def read_snapshot(path: Path, *, job_id: str) -> CompletedSnapshot:
    """What was written under `path` by job `job_id`. Raises SnapshotUnreadable."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise SnapshotUnreadable(SnapshotDefect.MISSING, "there is no such file", path=path) from error
    except OSError as error:
        raise SnapshotUnreadable(SnapshotDefect.NOT_READ, str(error), path=path) from error
    header, bodies_at = _header_of(content, path)
    if header.job_id != job_id:
        detail = f"it is of job {header.job_id!r}, and this is {job_id!r}"
        raise SnapshotUnreadable(SnapshotDefect.OTHER_JOB, detail, path=path)
    states = _states_of(content, header.sections, bodies_at, path)
    return CompletedSnapshot(
        job_id=header.job_id,
        checkpoint_id=header.checkpoint_id,
        tasks={task.name: _snapshot_of(task, states) for task in header.tasks},
        metadata=header.metadata,
    )


# ------------------------------------------------------------------------------------------------------- writing


def _handles(snapshot: CompletedSnapshot) -> Iterator[tuple[str, str, str, Any]]:
    for name, task in snapshot.tasks.items():
        for operator, state in task.operator_states.items() if task else ():
            for kind, handle in state.handles.items():
                yield name, operator, kind, handle


def _task_of(name: str, task: TaskStateSnapshot | None) -> _Task:
    if task is None:
        return _Task(name=name, is_stateless=True)
    return _Task(
        name=name,
        is_stateless=False,
        is_deployed_as_finished=task.is_task_deployed_as_finished,
        is_finished=task.is_task_finished,
        operators=tuple(task.operator_states),
    )


def _encoded(handle: Any, *, path: Path, operator: str, state: str) -> bytes:
    try:
        return encode_handle(state, handle)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"it cannot be written to {path}: {error}; give the state a serializer for its type"
        raise StateError(problem, operator=operator, state=state) from error


def _write_whole(path: Path, parts: Sequence[bytes]) -> None:
    """Under another name first: whoever dies in between leaves nothing under `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# ------------------------------------------------------------------------------------------------------- reading


def _header_of(content: bytes, path: Path) -> tuple[_Header, int]:
    if content[: len(_MAGIC)] != _MAGIC[: len(content)]:
        raise SnapshotUnreadable(SnapshotDefect.NO_SNAPSHOT, "its first bytes are others", path=path)
    if len(content) < _PREFIX.size:
        raise SnapshotUnreadable(SnapshotDefect.TORN, f"it has {len(content)} bytes", path=path)
    _, version, length, checksum = _PREFIX.unpack_from(content)
    if version != FORMAT_VERSION:
        detail = f"it is of version {version}, and this program reads {FORMAT_VERSION}"
        raise SnapshotUnreadable(SnapshotDefect.OTHER_VERSION, detail, path=path)
    bodies_at = _PREFIX.size + length
    header = content[_PREFIX.size : bodies_at]
    if len(header) < length:
        detail = f"its header has {len(header)} bytes of {length}"
        raise SnapshotUnreadable(SnapshotDefect.TORN, detail, path=path)
    if sha256(header).digest() != checksum:
        raise SnapshotUnreadable(SnapshotDefect.ALTERED, "its header's checksum is another", path=path)
    try:
        return msgspec.msgpack.decode(header, type=_Header), bodies_at
    except msgspec.MsgspecError as error:
        detail = f"its header cannot be read: {error}"
        raise SnapshotUnreadable(SnapshotDefect.ALTERED, detail, path=path) from error


def _states_of(
    content: bytes, sections: Sequence[_Section], at: int, path: Path
) -> dict[tuple[str, str], dict[str, Any]]:
    """By task and operator, then by state."""
    states: dict[tuple[str, str], dict[str, Any]] = {}
    for section in sections:
        body = content[at : at + section.length]
        at += section.length
        handle = _handle_of(section, body, path)
        states.setdefault((section.task, section.operator), {})[section.state] = handle
    if at != len(content):
        detail = f"{len(content) - at} bytes follow its end"
        raise SnapshotUnreadable(SnapshotDefect.ALTERED, detail, path=path)
    return states


def _handle_of(section: _Section, body: bytes, path: Path) -> Any:
    defect, detail = _defect_of(section, body)
    if defect is None:
        try:
            return decode_handle(section.state, body)
        except (OperatorError, ValueError, TypeError) as error:
            defect, detail = SnapshotDefect.UNKNOWN_STATE, f"it cannot be read: {error}"
    raise SnapshotUnreadable(defect, detail, path=path, operator_id=section.operator, state=section.state)


def _defect_of(section: _Section, body: bytes) -> tuple[SnapshotDefect | None, str]:
    if len(body) < section.length:
        return SnapshotDefect.TORN, f"{len(body)} bytes of {section.length} are there"
    if sha256(body).digest() != section.sha256:
        return SnapshotDefect.ALTERED, "its checksum is another"
    if section.state not in HANDLE_TYPES:
        return SnapshotDefect.UNKNOWN_STATE, "this program knows no such kind of state"
    return None, ""


def _snapshot_of(task: _Task, states: Mapping[tuple[str, str], dict[str, Any]]) -> TaskStateSnapshot | None:
    if task.is_stateless:
        return None
    return TaskStateSnapshot(
        operator_states={
            operator: OperatorSubtaskState(**states.get((task.name, operator), {}))
            for operator in task.operators
        },
        is_task_deployed_as_finished=task.is_deployed_as_finished,
        is_task_finished=task.is_finished,
    )
