"""Claims about the asynchronous part of a snapshot."""

from __future__ import annotations

from collections.abc import Generator
from threading import Event, Thread

import pytest

from reference_impl.errors import SnapshotCancelled, WrongState
from reference_impl.state.snapshots import SnapshotFuture


def counting(slices: int, ran: list[int]) -> Generator[None, None, str]:
    for number in range(slices):
        ran.append(number)
        yield
    return "written"


def test_it_runs_slice_by_slice_and_ends_with_what_the_last_returns() -> None:
    ran: list[int] = []
    future = SnapshotFuture(counting(2, ran))

    ended = [future.run_slice() for _ in range(3)]

    assert ended == [False, False, True]
    assert future.result() == "written"


def test_running_it_again_does_nothing_c9() -> None:
    ran: list[int] = []
    future = SnapshotFuture(counting(2, ran))

    future.run()
    future.run()

    assert ran == [0, 1]


def test_one_of_a_value_has_ended_at_once() -> None:
    future = SnapshotFuture.of(None)

    assert future.is_done
    assert future.result() is None


def test_an_error_stays_in_it_until_the_result_is_asked_for_c9() -> None:
    def fail() -> None:
        raise OSError("disk full")

    future = SnapshotFuture.calling(fail)
    future.run()

    assert future.is_done
    with pytest.raises(OSError, match="disk full"):
        future.result()


def test_a_result_before_the_end_is_refused() -> None:
    with pytest.raises(WrongState, match=r"call run\(\) before result\(\)"):
        SnapshotFuture(counting(1, [])).result()


def test_a_cancelled_one_runs_no_further_and_has_no_result_c12() -> None:
    ran: list[int] = []
    future = SnapshotFuture(counting(9, ran))
    future.run_slice()

    future.cancel()
    future.run()

    assert ran == [0]
    assert future.is_cancelled
    with pytest.raises(SnapshotCancelled):
        future.result()


def test_one_that_has_ended_cannot_be_cancelled_c8() -> None:
    future = SnapshotFuture.of("durable")

    future.cancel()

    assert not future.is_cancelled
    assert future.result() == "durable"


@pytest.mark.parametrize("end", ["run", "cancel"])
def test_what_it_held_is_let_go_however_it_ends_c7(end: str) -> None:
    held: list[str] = ["a copy"]

    def slices() -> Generator[None, None, None]:
        try:
            yield
            yield
        finally:
            held.clear()

    future = SnapshotFuture(slices())
    future.run_slice()
    getattr(future, end)()

    assert held == []


def test_a_cancel_from_another_thread_lets_the_slice_in_progress_be_the_last_c12() -> None:
    within, cancelled, ran = Event(), Event(), list[int]()

    def slices() -> Generator[None, None, None]:
        for number in range(9):
            ran.append(number)
            within.set()
            assert cancelled.wait(60)
            yield

    future = SnapshotFuture(slices())
    thread = Thread(target=future.run)
    thread.start()
    assert within.wait(60)
    future.cancel()
    cancelled.set()
    thread.join(60)

    assert ran == [0]
    assert future.is_cancelled
