"""Claims about the handle of a call, with retry and without: A6, A35-A38, A41-A43, A68."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FixedDelay
from reference_impl.tests.rig import More, Rig, open_rig, record
from tools.cases import each

JUDGED: More = {"retry": FixedDelay(max_retries=1, delay_ms=1, on_error=lambda _: False)}
"""A strategy that welcomes every outcome, so that judging one is all that it adds."""


@pytest.fixture(params=["plain", "judged"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """An operator with one call."""
    with open_rig(timeout_ms=60_000, **(JUDGED if request.param == "judged" else {})) as rig:
        rig.process(record(1))
        yield rig


def handle_of(rig: Rig) -> ResultHandle:
    return rig.hand.attempts[1][0]


def elsewhere(action: Callable[[], None]) -> None:
    """Run `action` in a thread of its own, and raise what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    for error in raised:
        raise error


def test_an_outcome_is_settled_as_mail_and_not_in_the_callers_frame_a37(rig: Rig) -> None:
    handle_of(rig).complete(["a"])
    assert rig.values() == []

    rig.run_mail()

    assert rig.values() == ["a"]


def test_the_first_outcome_wins_a36(rig: Rig) -> None:
    handle_of(rig).fail(ArithmeticError())
    handle_of(rig).complete(["late"])
    handle_of(rig).fail(KeyError())

    rig.run_mail()

    assert (rig.values(), rig.causes()) == ([], [ArithmeticError])


def test_a_plain_handle_is_done_before_its_mail_has_run_a43() -> None:
    with open_rig() as rig:
        rig.process(record(1))
        assert not handle_of(rig).done

        handle_of(rig).complete([])

        assert handle_of(rig).done


def test_a_judged_handle_is_done_once_its_outcome_was_found_final_a43() -> None:
    """A43: not while it waits to be judged, for it might be retried."""
    with open_rig(timeout_ms=60_000, **JUDGED) as rig:
        rig.process(record(1))
        handle_of(rig).complete([])
        assert not handle_of(rig).done

        rig.executor.yield_()

        assert (handle_of(rig).done, len(rig.operator)) == (True, 1)


@pytest.mark.parametrize("results", [None, "text", {"a": 1}, 7, iter([1])])
def test_anything_but_a_list_is_refused_and_leaves_the_handle_open_a35(rig: Rig, results: Any) -> None:
    with pytest.raises(TypeError, match="list of results"):
        handle_of(rig).complete(results)
    assert not handle_of(rig).done

    handle_of(rig).complete(["a"])
    rig.run_mail()

    assert rig.values() == ["a"]


def test_results_are_copied_when_they_are_given_b15(rig: Rig) -> None:
    """FLINK-28899: a list that its owner uses again."""
    results = ["a"]
    handle_of(rig).complete(results)
    results.append("b")

    rig.run_mail()

    assert rig.values() == ["a"]


def test_a_supplier_runs_as_mail_on_the_tasks_thread_a42(rig: Rig) -> None:
    threads: list[int] = []

    def supplied() -> list[Any]:
        threads.append(threading.get_ident())
        return ["a", "b"]

    elsewhere(lambda: handle_of(rig).supply(supplied))
    assert threads == []
    rig.mailbox.let_loop_turn()
    rig.run_mail()

    assert (rig.values(), threads) == (["a", "b"], [threading.get_ident()])


def test_a_supplier_that_comes_second_is_not_asked_a36(rig: Rig) -> None:
    handle_of(rig).complete(["first"])
    handle_of(rig).supply(lambda: pytest.fail("asked"))

    rig.run_mail()

    assert rig.values() == ["first"]


def test_a_foreign_threads_results_are_emitted_on_the_tasks_thread_a6(rig: Rig) -> None:
    elsewhere(lambda: handle_of(rig).complete(["a"]))
    assert rig.values() == []

    rig.executor.yield_()
    rig.run_mail()

    assert (rig.values(), rig.threads) == (["a"], {threading.get_ident()})


def test_a_foreign_threads_error_fails_the_task_on_its_own_thread_a6_a41(rig: Rig) -> None:
    elsewhere(lambda: handle_of(rig).fail(ArithmeticError()))
    assert rig.failures == []

    rig.executor.yield_()
    rig.run_mail()

    assert (rig.causes(), len(rig.operator)) == ([ArithmeticError], 0)
    assert rig.threads == {threading.get_ident()}


def test_of_two_threads_one_wins_a36(rig: Rig) -> None:
    for name in "ab":
        elsewhere(lambda name=name: handle_of(rig).complete([name]))  # type: ignore[misc]

    rig.mailbox.let_loop_turn()
    rig.run_mail()

    assert rig.values() == ["a"]


def test_of_many_threads_at_once_exactly_one_wins_a36(rig: Rig) -> None:
    together = threading.Barrier(8)

    def complete(number: int) -> None:
        together.wait(timeout=60)
        handle_of(rig).complete([number])

    threads = [threading.Thread(target=complete, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    rig.mailbox.let_loop_turn()
    rig.run_mail()

    assert len(rig.values()) == 1
    assert [what for what, _ in rig.happened] == ["called", "ok", "emitted"]


USES: dict[str, Callable[[ResultHandle], None]] = {
    "complete": lambda handle: handle.complete(["late"]),
    "fail": lambda handle: handle.fail(ArithmeticError()),
    "supply": lambda handle: handle.supply(lambda: ["late"]),
}


@pytest.mark.parametrize("foreign", [True, False])
def test_results_for_a_closed_mailbox_are_ignored_a38_a68(rig: Rig, *, foreign: bool) -> None:
    rig.mailbox.close()

    for use in (USES["complete"], USES["supply"]):
        if foreign:
            elsewhere(lambda use=use: use(handle_of(rig)))  # type: ignore[misc]
        else:
            use(handle_of(rig))

    assert (rig.values(), rig.failures) == ([], [])


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("foreign", [True, False])
def test_an_outcome_for_a_closed_operator_is_ignored_a68(
    rig: Rig, use: Callable[[ResultHandle], None], *, foreign: bool
) -> None:
    rig.operator.close()

    if foreign:
        elsewhere(lambda: use(handle_of(rig)))
    else:
        use(handle_of(rig))
    rig.mailbox.let_loop_turn()
    rig.run_mail()

    assert (rig.values(), rig.failures) == ([], [])


@each("use", USES.values(), ids=USES)
@each("more", [{}, JUDGED], ids=["plain", "judged"])
def test_an_outcome_from_a_thread_whose_loop_is_gone_is_ignored_a68(
    use: Callable[[ResultHandle], None], more: More
) -> None:
    """A68, B27: the job is over, its loop is closed, and a client's thread still answers."""
    with ExitStack() as stack:
        rig = stack.enter_context(open_rig(timeout_ms=60_000, **more))
        rig.process(record(1))

    elsewhere(lambda: use(handle_of(rig)))

    assert (rig.values(), rig.failures) == ([], [])
