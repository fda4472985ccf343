"""A completed checkpoint as one file: its format, writing, reading, and the error for files that cannot be read.

Answers to Flink's `_metadata` file with `MetadataSerializer`, and to the handles that it refers to, which Flink
encodes in `MetadataV3Serializer`. Invariant: a file that can be read holds what was written. One checksum guards the
header and one guards each operator's state, so an error can name the state; the file gets its name only when it is
complete on disk. The content is msgpack of plain values, decoded into types that this module fixes by kind of state: a
file chooses no type, and nothing in it is executed or unpickled.

    magic, format version, length and SHA-256 of the header | header: job, checkpoint, tasks, sections | section | ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path
from struct import Struct as Layout
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, msgpack

from reference_impl.checkpoints.channel_state_writer import (
    InputChannelStateHandle,
    ResultSubpartitionStateHandle,
)
from reference_impl.checkpoints.channels import InputChannelInfo, ResultSubpartitionInfo
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.elements import OperatorInput
from reference_impl.errors import OperatorError, StateError
from reference_impl.state.element_serializer import from_state, to_state
from reference_impl.state.handles import KeyedStateHandle, OperatorStateHandle
from reference_impl.state.internal_timers import TimersHandle
from reference_impl.state.serializer import PlainSerializer

__all__ = [
    "FORMAT_VERSION",
    "CompletedSnapshot",
    "SnapshotDefect",
    "SnapshotUnreadable",
    "read_snapshot",
    "write_snapshot",
]


class SnapshotDefect(Enum):
    """What is wrong with a file, and what to do about it."""

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
    """A snapshot file cannot be restored: `defect` says why; `state` and `operator_id` say where, if known.

    Answers to what Flink raises as `IOException`, `StateMigrationException` or `IllegalStateException` while it reads
    a checkpoint. Invariant: the error names the file, and the operator and its state where it can.
    """

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


class _ChannelState(Struct, frozen=True, array_like=True):
    """The in-flight elements of one channel, each encoded with its kind."""

    first: int
    """Index of the gate or partition; `second` is the channel's index in it."""
    second: int
    elements: tuple[bytes, ...]


HANDLE_TYPES: Mapping[str, Any] = MappingProxyType(
    {
        "managed_operator_state": OperatorStateHandle,
        "raw_operator_state": tuple[bytes, ...],
        "managed_keyed_state": KeyedStateHandle,
        "raw_keyed_state": TimersHandle,
        "input_channel_state": tuple[_ChannelState, ...],
        "result_channel_state": tuple[_ChannelState, ...],
    }
)
"""For each field of `OperatorSubtaskState`, the type that is written to the file."""

_PLAIN = PlainSerializer()


def encode_handle(state: str, handle: Any) -> bytes:
    """Encode `handle`, which belongs to the field `state`. Raises TypeError for anything but plain values."""
    match state:
        case "input_channel_state":
            handle = [
                _channel(each.info.gate_idx, each.info.input_channel_idx, each.elements) for each in handle
            ]
        case "result_channel_state":
            handle = [
                _channel(each.info.partition_idx, each.info.sub_partition_idx, each.elements)
                for each in handle
            ]
    return msgpack.encode(handle)


def decode_handle(state: str, data: bytes) -> Any:
    """Decode a handle. Raises ValueError or WrongState for bytes that hold no such handle."""
    decoded = msgpack.decode(data, type=HANDLE_TYPES[state])
    match state:
        case "input_channel_state":
            return tuple(
                InputChannelStateHandle(
                    info=InputChannelInfo(gate_idx=each.first, input_channel_idx=each.second),
                    elements=_elements(each),
                )
                for each in decoded
            )
        case "result_channel_state":
            return tuple(
                ResultSubpartitionStateHandle(
                    info=ResultSubpartitionInfo(partition_idx=each.first, sub_partition_idx=each.second),
                    elements=_elements(each),
                )
                for each in decoded
            )
    return decoded


def _channel(first: int, second: int, elements: tuple[OperatorInput, ...]) -> _ChannelState:
    return _ChannelState(first, second, tuple(_PLAIN.encode(to_state(element)) for element in elements))


def _elements(channel: _ChannelState) -> tuple[OperatorInput, ...]:
    return tuple(from_state(_PLAIN.decode(element)) for element in channel.elements)


FORMAT_VERSION = 1
"""A reader refuses files of another version."""

_MAGIC = b"\x8eFLOOD\r\n"
"""A first byte that no text begins with, and a line ending that a text-mode copy would change."""
_PREFIX = Layout(">8sHI32s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedSnapshot:
    """The content of a file: what each task handed in, None for tasks without state (C10)."""

    job_id: str
    checkpoint_id: int
    tasks: Mapping[str, TaskStateSnapshot | None]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for the state assignment at a restore; it is returned unchanged."""


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    is_stateless: bool
    is_deployed_as_finished: bool = False
    is_finished: bool = False
    operators: tuple[str, ...] = ()


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """Locates one state of one operator of one task; the bytes of the sections follow one another."""

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
    """Write `snapshot` durably to `path`. Raises a StateError that names a state which is no plain data."""
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
    """Read what job `job_id` wrote to `path`. Raises SnapshotUnreadable."""
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
    """Write to a temporary name and rename, so that a crash leaves no partial file under `path`."""
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
    """Decode all sections: by task and operator, then by kind of state."""
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
