"""Claims about the handle of a call: A35-A38, A43, A68."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from reference_impl.mailbox import Mailbox, MailboxExecutor
from reference_impl.result import ResultHandle
from reference_impl.tests.rig import watched_loop


class Bench:
    """A handle, and what was settled through it."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.executor = MailboxExecutor(mailbox, 0)
        self.settled: list[tuple[Sequence[Any], BaseException | None]] = []
        self.handle = ResultHandle(executor=self.executor, settle=self._settle)

    def _settle(self, results: Sequence[Any], error: BaseException | None) -> None:
        self.settled.append((results, error))

    def run_mail(self) -> None:
        while self.executor.try_yield():
            pass


@pytest.fixture
def bench() -> Iterator[Bench]:
    with watched_loop() as loop:
        yield Bench(Mailbox(loop=loop))


def test_an_outcome_is_settled_as_mail_and_not_in_the_callers_frame_a37(bench: Bench) -> None:
    bench.handle.complete(["a"])
    assert bench.settled == []

    bench.run_mail()

    assert bench.settled == [(("a",), None)]


def test_the_first_outcome_wins_a36(bench: Bench) -> None:
    error = ArithmeticError()
    bench.handle.fail(error)
    bench.handle.complete(["late"])
    bench.handle.fail(KeyError())

    bench.run_mail()

    assert bench.settled == [((), error)]


def test_a_handle_is_done_before_its_mail_has_run_a43(bench: Bench) -> None:
    assert not bench.handle.done

    bench.handle.complete([])

    assert bench.handle.done


@pytest.mark.parametrize("results", [None, "text", {"a": 1}, 7])
def test_anything_but_a_list_is_refused_and_leaves_the_handle_open_a35(bench: Bench, results: Any) -> None:
    with pytest.raises(TypeError, match="list of results"):
        bench.handle.complete(results)

    assert not bench.handle.done


def test_results_are_copied_when_they_are_given(bench: Bench) -> None:
    """FLINK-28899: a list that its owner uses again."""
    results = ["a"]
    bench.handle.complete(results)
    results.append("b")

    bench.run_mail()

    assert bench.settled == [(("a",), None)]


def test_a_foreign_thread_completes_on_the_tasks_thread(bench: Bench) -> None:
    thread = threading.Thread(target=bench.handle.complete, args=(["a"],))
    thread.start()
    thread.join(timeout=5)
    assert not bench.handle.done

    bench.executor.yield_()
    bench.run_mail()

    assert bench.settled == [(("a",), None)]


def test_of_two_threads_one_wins_a36(bench: Bench) -> None:
    threads = [threading.Thread(target=bench.handle.complete, args=([name],)) for name in "ab"]
    for thread in threads:
        thread.start()
        thread.join(timeout=5)

    bench.mailbox.let_loop_turn()
    bench.run_mail()

    assert bench.settled == [(("a",), None)]


@pytest.mark.parametrize("foreign", [True, False])
def test_an_outcome_for_a_closed_mailbox_is_ignored_a38_a68(bench: Bench, *, foreign: bool) -> None:
    raised: list[BaseException] = []
    bench.mailbox.close()

    def late() -> None:
        try:
            bench.handle.complete(["late"])
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    if foreign:
        thread = threading.Thread(target=late)
        thread.start()
        thread.join(timeout=5)
    else:
        late()

    assert (raised, bench.settled) == ([], [])
