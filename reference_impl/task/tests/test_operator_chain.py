"""Claims about two operators in one task: A30, A33, A62, A66, A70, A89, A90, B5, B6, B18."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import StopMode
from reference_impl.checkpoints.state_handler import StateInitializationContext
from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.errors import SimulationStuck
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.async_wait import AsyncWaitOperator, to_state
from reference_impl.operator.build import Mode, build_operator, ordered_wait
from reference_impl.operator.result import ResultHandle
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink
from reference_impl.tests.rig import HandFunction, itself, quickly, record, shown, watermark

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


class Kept:
    """The state of one operator: a list that is there already."""

    def __init__(self, elements: Sequence[QueueElement]) -> None:
        self._items = [to_state(element) for element in elements]

    def initialize_operator_state(self, operator: Any) -> None:
        """Hand it over."""
        operator.initialize_state(StateInitializationContext(operator_id="kept", operator_state_store=self))

    def get_list_state(self, _descriptor: Any) -> Kept:
        """There is one."""
        return self

    def get(self) -> list[Any]:
        """What it holds."""
        return self._items

    def close(self) -> None:
        """Nothing is held but the list."""


Restored = Sequence[Sequence[QueueElement]] | None
"""What each operator replays when it is opened."""


def _kept(elements: Sequence[QueueElement], _operator: Any, _timers: Timers) -> Any:
    return Kept(elements)


class ChainRig:
    """A chain of two, head and tail, in virtual time."""

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        mode: Mode,
        capacities: Sequence[int],
        soft: bool,
        restored: Restored = None,
    ) -> None:
        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.emitted: list[OperatorInput] = []
        self.failures: list[BaseException] = []
        self.closed: list[str] = []
        self.head = HandFunction()
        self.tail = HandFunction()
        functions = {"head": self.head, "tail": self.tail}
        links = [
            OperatorLink(
                operator_id=name,
                build=partial(self._build, function=function, mode=mode, capacity=capacity, soft=soft),
                state_handler=None if restored is None else partial(_kept, restored[place]),
            )
            for place, ((name, function), capacity) in enumerate(
                zip(functions.items(), capacities, strict=True)
            )
        ]
        self.chain = OperatorChain(
            links,
            mailbox=self.mailbox,
            timers=partial(Timers, loop),
            record_writer=LocalRecordWriter(self.emitted.append),
            fail=self.failures.append,
        )
        self.operators: list[AsyncWaitOperator] = self.chain.operators  # type: ignore[assignment]  # both are

    def _build(self, *, soft: bool, downstream: Any, **parts: Any) -> AsyncWaitOperator:
        return build_operator(timeout_ms=0, key_of=itself, downstream=downstream if soft else None, **parts)

    def complete(self, function: HandFunction, value: Any, *results: Any) -> None:
        function.attempts[value][-1].complete(results or (value,))

    def soon(self, function: HandFunction, value: Any) -> None:
        """A client's answer: seen when the loop runs."""
        self.loop.call_soon(self.complete, function, value)

    def run_mail(self) -> None:
        while self.executor.try_yield():
            pass

    def held(self) -> list[tuple[QueueElement, ...]]:
        """What each operator holds, from head to tail."""
        return [operator.snapshot() for operator in self.operators]

    def drain(self) -> None:
        """The input has ended."""
        self.chain.end_head_input()
        self.chain.finish_operators(StopMode.DRAIN)

    def sizes(self) -> list[int]:
        return [len(held) for held in self.held()]

    def values(self) -> list[Any]:
        return [shown(element) for element in self.emitted]


@contextmanager
def open_chain(
    *,
    mode: Mode = "ordered",
    capacities: Sequence[int] = (10, 10),
    soft: bool = True,
    restored: Restored = None,
) -> Iterator[ChainRig]:
    with virtual_loop() as loop:
        yield ChainRig(loop, mode=mode, capacities=capacities, soft=soft, restored=restored)


@BOTH
def test_what_the_first_emits_the_second_takes_in_a89(mode: Mode) -> None:
    with open_chain(mode=mode) as rig:
        for element in (record(1), watermark(1), record(2)):
            rig.chain.process(element)
        for value in (1, 2):
            rig.complete(rig.head, value, value, value * 10)
        rig.run_mail()
        assert list(rig.tail.attempts) == [1, 10, 2, 20]

        for value in (1, 10, 2, 20):
            rig.complete(rig.tail, value)
        rig.run_mail()

    assert rig.values() == [1, 10, "w1", 2, 20]


@pytest.mark.parametrize("soft", [True, False])
def test_a_full_second_operator_runs_its_own_mail_and_none_of_the_firsts_a30_a90(*, soft: bool) -> None:
    """A30, A90: not soft, the second one yields inside the first one's emission, which must not be re-entered."""
    with open_chain(capacities=(3, 1), soft=soft) as rig:
        for value in (1, 2, 3):
            rig.chain.process(record(value))
        for value in (1, 2, 3):
            rig.complete(rig.head, value)
        rig.soon(rig.tail, 1)
        rig.loop.call_later(0.001, lambda: rig.complete(rig.tail, 2))
        rig.loop.call_later(0.002, lambda: rig.complete(rig.tail, 3))

        rig.drain()

        assert (rig.values(), rig.sizes(), rig.failures) == ([1, 2, 3], [0, 0], [])
        assert [len(calls) for calls in rig.tail.attempts.values()] == [1, 1, 1]


def test_the_first_operator_waits_to_emit_while_the_second_is_full_a33() -> None:
    """A33: its mail ends instead of yielding, so that other mail, a checkpoint's say, gets its turn (B23)."""
    with open_chain(capacities=(3, 1)) as rig:
        for value in (1, 2, 3):
            rig.chain.process(record(value))
            rig.complete(rig.head, value)

        rig.run_mail()
        assert rig.sizes() == [2, 1]
        assert rig.held() == [(record(2), record(3)), (record(1),)]

        rig.complete(rig.tail, 1)
        rig.run_mail()

        assert (rig.values(), rig.sizes()) == ([1], [1, 1])


def test_an_emission_that_waits_is_put_once_however_many_tried_a33() -> None:
    with open_chain(capacities=(5, 1)) as rig:
        for value in range(5):
            rig.chain.process(record(value))
        for value in range(5):
            rig.complete(rig.head, value)
            rig.run_mail()
        rig.complete(rig.tail, 0)
        rig.executor.yield_()
        assert rig.values() == [0]

        assert len(rig.mailbox) <= 2, "the second's next emission and the first's resumed one"
        rig.run_mail()

        assert rig.sizes() == [3, 1]


def test_who_asks_for_room_meanwhile_takes_nobodys_place_a14_a33_b31() -> None:
    """A14, A33, B31: the task looks whether it may read, while the first operator waits to emit."""
    with open_chain(capacities=(1, 1)) as rig:
        rig.chain.process(record(1))
        rig.complete(rig.head, 1)
        rig.run_mail()
        rig.chain.process(record(2))
        rig.complete(rig.head, 2)
        rig.run_mail()
        told: list[str] = []
        rig.chain.room.then(lambda: told.append("the task"))
        assert not rig.chain.room

        rig.complete(rig.tail, 1)
        rig.run_mail()

        assert (told, rig.sizes()) == (["the task"], [0, 1])


def test_the_head_tells_the_task_whether_there_is_room_a33() -> None:
    with open_chain(capacities=(1, 1)) as rig:
        assert rig.chain.room
        rig.chain.process(record(1))
        assert not rig.chain.room


@pytest.mark.parametrize("soft", [True, False])
@BOTH
def test_more_than_both_can_hold_restores_tail_first_and_drains_head_first_a62_a66_b6(
    mode: Mode, *, soft: bool
) -> None:
    """A62, A66, B4, B6: ten times the capacity of each, and what drains from the first is drained by the second."""
    restored = [[record(value) for value in range(20, 40)], [record(value) for value in range(10)]]
    with open_chain(mode=mode, capacities=(2, 1), soft=soft, restored=restored) as rig:
        for function in (rig.head, rig.tail):
            prompt(rig, function)
        rig.chain.initialize_state_and_open_operators()

        rig.drain()

    assert rig.values() == [*range(10), *range(20, 40)]


def prompt(rig: ChainRig, function: HandFunction) -> None:
    """Let each call of `function` end in the loop's next turn."""

    def invoke(value: Any, handle: ResultHandle) -> None:
        rig.loop.call_soon(handle.complete, [value])

    function.then = invoke


def test_a_snapshot_between_two_mails_holds_each_record_once_a59_b18() -> None:
    """A59, B18, FLINK-13063: for records that are in the first, in the second, and on no way between."""
    with open_chain(capacities=(3, 2)) as rig:
        for value in (1, 2, 3):
            rig.chain.process(record(value))
            rig.complete(rig.head, value)

        cuts = [rig.held()]
        while rig.executor.try_yield():
            cuts.append(rig.held())

    for first, second in cuts:
        assert sorted(shown(element) for element in (*first, *second)) == [1, 2, 3]
    assert [len(second) for _, second in cuts][-1] == 2


def test_a_chain_closes_every_operator_even_if_one_cannot_a69_a70_b5() -> None:
    """A70, B5: and though the second one is full and blocked."""

    def burst() -> None:
        raise ArithmeticError

    with open_chain(capacities=(1, 1)) as rig:
        rig.chain.process(record(1))
        rig.complete(rig.head, 1)
        rig.run_mail()
        rig.head.close = burst  # type: ignore[method-assign]

        with pytest.raises(ArithmeticError):
            rig.chain.close_all_operators()

        assert rig.tail.closed == 1


def test_a_chain_whose_tail_never_answers_says_so_a67() -> None:
    with open_chain(capacities=(1, 1)) as rig:
        rig.chain.process(record(1))
        rig.complete(rig.head, 1)

        with pytest.raises(SimulationStuck, match="nothing is ready"):
            rig.drain()


def new_chain(loop: VirtualLoop, links: Sequence[OperatorLink]) -> OperatorChain:
    return OperatorChain(
        links,
        mailbox=Mailbox(loop=loop),
        timers=partial(Timers, loop),
        record_writer=LocalRecordWriter(print),
        fail=print,
    )


def test_a_chain_of_nothing_is_refused() -> None:
    with virtual_loop() as loop, pytest.raises(ValueError, match="no operator"):
        new_chain(loop, [])


def test_two_operators_of_one_id_are_refused() -> None:
    link = OperatorLink(
        operator_id="twin", build=partial(ordered_wait, function=HandFunction(), timeout_ms=0)
    )
    with virtual_loop() as loop, pytest.raises(ValueError, match="share an id"):
        new_chain(loop, [link, link])


STEPS = st.lists(
    st.tuples(st.sampled_from(["record", "watermark", "head", "tail", "mail", "mail"]), st.integers(0, 7)),
    max_size=40,
)


@BOTH
@pytest.mark.parametrize("soft", [True, False])
@quickly
@given(capacities=st.tuples(st.integers(1, 3), st.integers(1, 3)), steps=STEPS)
def test_whatever_interleaves_each_record_passes_both_once_a59_a90(
    mode: Mode, capacities: tuple[int, int], steps: list[tuple[str, int]], *, soft: bool
) -> None:
    """A32, A52, A59, A90."""
    with open_chain(mode=mode, capacities=capacities, soft=soft) as rig:
        for function in (rig.head, rig.tail):
            function.then = partial(later, rig)
        taken: list[Any] = []
        for number, (what, pick) in enumerate(steps):
            if what in {"record", "watermark"}:
                element: QueueElement = record(number) if what == "record" else watermark(number)
                taken.append(shown(element))
                rig.chain.process(element)
            elif what == "mail":
                rig.executor.try_yield()
            else:
                complete_one(rig, rig.head if what == "head" else rig.tail, pick)
            assert all(size <= capacity for size, capacity in zip(rig.sizes(), capacities, strict=True))
        rig.drain()

        assert sorted(map(str, rig.values())) == sorted(map(str, taken))
        assert mode != "ordered" or rig.values() == taken  # in mode `keyed`, each value is a key of its own
        rig.run_mail()  # emissions that found nothing left may still wait, and do nothing
        assert (rig.sizes(), len(rig.values())) == ([0, 0], len(taken))


def later(rig: ChainRig, value: Any, handle: ResultHandle) -> None:
    """Should nobody end the call, it ends by itself."""
    rig.loop.call_later(1, handle.complete, [value])


def complete_one(rig: ChainRig, function: HandFunction, pick: int) -> None:
    waiting = [value for value, calls in function.attempts.items() if not calls[-1].done]
    if waiting:
        rig.complete(function, waiting[pick % len(waiting)])
