"""Claims about a snapshot's file: it comes back whole, or is refused with the operator, the state and the file."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from struct import pack_into
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoints.channel_state_writer import InputChannelStateHandle
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.snapshot_file import (
    FORMAT_VERSION,
    CompletedSnapshot,
    SnapshotDefect,
    SnapshotUnreadable,
    read_snapshot,
    write_snapshot,
)
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.checkpoints.tests.drawn_snapshots import (
    elements,
    keyed_handle,
    operator_handle,
    snapshots,
)
from reference_impl.elements import Record
from reference_impl.errors import StateError, WrongState
from reference_impl.state.element_serializer import from_state, queue_element_from, to_state
from reference_impl.tests.rig import quickly
from tools.cases import each

SNAPSHOT = CompletedSnapshot(
    job_id="job",
    checkpoint_id=5,
    tasks={
        "map 1": TaskStateSnapshot(
            operator_states={
                "lookup": OperatorSubtaskState(managed_operator_state=operator_handle(["a", "b"])),
                "count": OperatorSubtaskState(managed_keyed_state=keyed_handle({1: 4, 2: 5})),
            }
        ),
        "sink 1": None,
    },
)


@contextmanager
def a_file() -> Iterator[Path]:
    """A path in a folder of its own; for properties, which share a test's folder."""
    with TemporaryDirectory() as folder:
        yield Path(folder) / "snapshot"


@cache
def written() -> bytes:
    """`SNAPSHOT` as it lies in its file; for properties, which need not write it for each example."""
    with a_file() as path:
        write_snapshot(path, SNAPSHOT)
        return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where `SNAPSHOT` was written."""
    path = tmp_path / "snapshot"
    write_snapshot(path, SNAPSHOT)
    return path


def refusal(path: Path, *, job_id: str = "job") -> SnapshotUnreadable:
    """How reading it is refused."""
    with pytest.raises(SnapshotUnreadable) as raised:
        read_snapshot(path, job_id=job_id)
    assert str(path) in str(raised.value)
    return raised.value


# -------------------------------------------------------------------------------------------------- it comes back


@given(snapshot=snapshots)
@quickly
def test_whatever_is_written_comes_back_equal(snapshot: CompletedSnapshot) -> None:
    with a_file() as path:
        write_snapshot(path, snapshot)

        assert read_snapshot(path, job_id="job") == snapshot


@given(element=elements)
@quickly
def test_an_element_comes_back_from_state_equal_a56(element: Any) -> None:
    assert from_state(to_state(element)) == element


@each("item", [(), ("record",), ("window", 1), ("watermark", "soon", None), None, ("status", 1, None)])
def test_what_is_no_element_is_an_illegal_state_a61(item: Any) -> None:
    with pytest.raises(WrongState, match="is no stream element"):
        from_state(item)


@pytest.mark.parametrize("item", [("latency marker", 1), ("attributes", True)])
def test_what_is_never_queued_is_an_illegal_state_of_a_queue_a61(item: Any) -> None:
    with pytest.raises(WrongState, match="is never queued"):
        queue_element_from(item)


def test_a_second_write_replaces_the_first_whole_and_leaves_nothing_beside_it(path: Path) -> None:
    other = CompletedSnapshot(job_id="job", checkpoint_id=6, tasks={})

    write_snapshot(path, other)

    assert read_snapshot(path, job_id="job") == other
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_does_not_end_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(file: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", torn)

    with pytest.raises(OSError, match="no space"):
        write_snapshot(path, CompletedSnapshot(job_id="job", checkpoint_id=6, tasks={}))

    assert read_snapshot(path, job_id="job") == SNAPSHOT


# ----------------------------------------------------------------------------------------------------- it is refused


@given(data=st.data())
@quickly
def test_a_file_cut_anywhere_is_refused(data: st.DataObject) -> None:
    content = written()
    with a_file() as path:
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])

        assert refusal(path).defect is SnapshotDefect.TORN


@given(data=st.data())
@quickly
def test_a_file_with_one_other_byte_is_refused(data: st.DataObject) -> None:
    content = bytearray(written())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with a_file() as path:
        path.write_bytes(content)

        assert refusal(path).path == path


def test_a_torn_state_is_named_with_its_operator(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])

    error = refusal(path)

    assert (error.operator_id, error.state) == ("count", "managed_keyed_state")
    assert "managed_keyed_state of operator 'count' in snapshot" in str(error)


def test_an_altered_state_is_named_with_its_operator(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    error = refusal(path)

    assert error.defect is SnapshotDefect.ALTERED
    assert (error.operator_id, error.state) == ("count", "managed_keyed_state")


def test_bytes_behind_the_end_are_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")

    assert refusal(path).defect is SnapshotDefect.ALTERED


def test_another_version_is_refused_with_both_versions(path: Path) -> None:
    content = bytearray(path.read_bytes())
    pack_into(">H", content, 8, FORMAT_VERSION + 1)
    path.write_bytes(content)

    error = refusal(path)

    assert error.defect is SnapshotDefect.OTHER_VERSION
    assert "version 2, and this program reads 1" in str(error)


def test_another_jobs_snapshot_is_refused_with_both_jobs(path: Path) -> None:
    error = refusal(path, job_id="another")

    assert error.defect is SnapshotDefect.OTHER_JOB
    assert "'job', and this is 'another'" in str(error)


def test_a_missing_file_is_refused_as_missing(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone").defect is SnapshotDefect.MISSING


def test_what_the_disk_does_not_give_out_is_refused_by_its_path(tmp_path: Path) -> None:
    assert refusal(tmp_path).defect is SnapshotDefect.NOT_READ  # a folder, of all things


def test_a_pickle_is_refused_and_never_loaded(tmp_path: Path) -> None:
    loaded: list[str] = []

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return loaded.append, ("executed",)

    path = tmp_path / "snapshot"
    path.write_bytes(pickle.dumps(Trap()))

    assert refusal(path).defect is SnapshotDefect.NO_SNAPSHOT
    assert loaded == []


def test_a_kind_of_state_that_this_program_does_not_know_is_refused_naming_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference_impl.checkpoints.snapshot_file.HANDLE_TYPES", {})

    error = refusal(path)

    assert error.defect is SnapshotDefect.UNKNOWN_STATE
    assert (error.operator_id, error.state) == ("lookup", "managed_operator_state")


def test_a_state_that_is_of_another_shape_is_refused_naming_it(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    state = OperatorSubtaskState(managed_keyed_state={"a": "plain dict"})
    snapshot = TaskStateSnapshot(operator_states={"count": state})
    write_snapshot(path, CompletedSnapshot(job_id="job", checkpoint_id=5, tasks={"map": snapshot}))

    error = refusal(path)

    assert error.defect is SnapshotDefect.UNKNOWN_STATE
    assert (error.operator_id, error.state) == ("count", "managed_keyed_state")


def test_a_state_that_is_no_plain_data_is_refused_at_the_write_naming_it(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    state = OperatorSubtaskState(managed_keyed_state=object())
    snapshot = TaskStateSnapshot(operator_states={"count": state})

    with pytest.raises(StateError, match="'count', state 'managed_keyed_state'") as raised:
        write_snapshot(path, CompletedSnapshot(job_id="job", checkpoint_id=5, tasks={"map": snapshot}))

    assert str(path) in str(raised.value)
    assert not path.exists()


def test_a_record_in_flight_of_no_plain_value_is_refused_at_the_write(tmp_path: Path) -> None:
    channel = InputChannelStateHandle(
        info=InputChannelInfo(gate_idx=0, input_channel_idx=0), elements=(Record(value=object()),)
    )
    snapshot = TaskStateSnapshot(
        operator_states={"lookup": OperatorSubtaskState(input_channel_state=(channel,))}
    )

    with pytest.raises(StateError, match="'lookup', state 'input_channel_state'"):
        write_snapshot(
            tmp_path / "snapshot", CompletedSnapshot(job_id="job", checkpoint_id=5, tasks={"map": snapshot})
        )
