"""Random runs over several channels, and what must hold in each: the properties that also convict planted defects.

A run is what upstream tasks legally send, with losses, cancellations and ends, and an order in which it comes and is
read. Invariant: a run is plain data, so the same one can be held against the reference and against a mutant of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    SnapshotType,
)
from reference_impl.checkpoints.channels import ChannelElement
from reference_impl.checkpoints.tests.bench import (
    Bench,
    HandlerKind,
    barrier,
    cancel_marker,
    end,
    open_bench,
    unaligned,
)
from reference_impl.elements import Record

TIMEOUT_MS = 7
LAST_ID = 1_000
"""Of a checkpoint that every channel takes part in at the end, and so does the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What comes through each channel, and in which order: ("put" or "read", channel), ("mail", _), ("wait", ms)."""

    contents: tuple[tuple[ChannelElement, ...], ...]
    steps: tuple[tuple[str, int], ...]
    count_ended: bool = True


BARRIERS: dict[str, Callable[[int], CheckpointBarrier]] = {
    "aligned": barrier,
    "timeoutable": lambda number: barrier(number, timeout_ms=TIMEOUT_MS),
    "unaligned": unaligned,
    "savepoint": lambda number: barrier(number, snapshot_type=SnapshotType.SAVEPOINT, timeout_ms=TIMEOUT_MS),
}
"""By kind; all barriers of one checkpoint are of the same."""

FATES = ["barrier"] * 5 + ["cancelled", "lost"]
"""Of a checkpoint in a channel."""


@st.composite
def runs(
    draw: st.DrawFn,
    kinds: Sequence[str],
    *,
    always_counts_ended: bool = True,
    channels: Sequence[int] = (1, 2, 3, 4),
) -> Run:
    """What so many channels carry, up to four checkpoints among it, and an order."""
    checkpoints = draw(st.lists(st.sampled_from(list(kinds)), max_size=4))
    number_of_channels = draw(st.sampled_from(list(channels)))
    contents = tuple(draw(_contents(channel, checkpoints)) for channel in range(number_of_channels))
    channel = st.integers(0, number_of_channels - 1)
    step = st.one_of(
        st.tuples(st.sampled_from(["put", "put", "read", "read"]), channel),
        st.tuples(st.just("mail"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, TIMEOUT_MS + 1)),
    )
    count_ended = True if always_counts_ended else draw(st.booleans())
    return Run(contents=contents, steps=tuple(draw(st.lists(step, max_size=60))), count_ended=count_ended)


@st.composite
def _contents(draw: st.DrawFn, channel: int, kinds: Sequence[str]) -> tuple[ChannelElement, ...]:
    elements: list[ChannelElement] = []
    for number, kind in enumerate([*kinds, None], start=1):
        records = range(draw(st.integers(0, 3)))
        elements += [Record(value=f"{channel}.{number}.{index}") for index in records]
        fate = draw(st.sampled_from(FATES)) if kind is not None else "lost"
        if fate == "barrier" and kind is not None:
            elements.append(BARRIERS[kind](number))
        elif fate == "cancelled":
            elements.append(cancel_marker(number))
        if draw(st.integers(0, 9)) == 0:
            return (*elements, *end())
    return tuple(elements)


# ------------------------------------------------------------------------------------------------------ to play one


def play(
    run: Run,
    check: Callable[[Bench, Run], None],
    *,
    kind: HandlerKind = "alternating",
    gates: int = 1,
    **parts: Any,
) -> None:
    """Do the steps, with what must hold after each; then let all come, be read and time out; then `check`."""
    channels = len(run.contents) // gates
    with open_bench(kind=kind, channels=channels, gates=gates, count_ended=run.count_ended, **parts) as bench:
        waiting = [list(elements) for elements in run.contents]
        for what, number in run.steps:
            _do(bench, waiting, what, number)
            stays_consistent(bench)
        for channel, elements in enumerate(waiting):
            bench.put(channel, *elements)
        _settle(bench)
        stays_consistent(bench)
        check(bench, run)


def _do(bench: Bench, waiting: list[list[ChannelElement]], what: str, number: int) -> None:
    match what:
        case "put" if waiting[number]:
            bench.put(number, waiting[number].pop(0))
        case "read":
            bench.read(number)
        case "mail":
            bench.run_mail()
        case "wait":
            bench.advance(bench.timers.now_ms() + number)


def _settle(bench: Bench) -> None:
    bench.read_all()
    bench.advance(bench.timers.now_ms() + TIMEOUT_MS + 1)
    bench.read_all()
    bench.run_mail()


# ------------------------------------------------------------------------------------------------- what must hold


def stays_consistent(bench: Bench) -> None:
    """No channel is blocked without a pending checkpoint; none is told of twice, or taken after it was given up."""
    assert bench.handler.is_checkpoint_pending or bench.blocked == [], "a channel is blocked for nobody"
    aborted = [number for number, _ in bench.task.aborted]
    assert len(set(aborted)) == len(aborted), "a checkpoint was given up twice"
    assert bench.task.triggered == sorted(set(bench.task.triggered)), "numbers did not rise"


def goes_on(bench: Bench, run: Run) -> None:
    """Whatever has happened: one more checkpoint completes, and every record is processed once, in its order.

    Two are sent, for the end of a channel that was blocked until now may give up the first (C23).
    """
    for number in (LAST_ID, LAST_ID + 1):
        for channel in bench.channels:
            if not channel.has_ended:
                channel.put(barrier(number, timestamp=bench.timers.now_ms()))
        _settle(bench)
    has_open = any(not channel.is_finished for channel in bench.channels)
    assert (LAST_ID + 1 in bench.task.triggered) == has_open, "the last checkpoint did not complete"
    assert bench.blocked == [], "a channel is blocked for ever"
    _all_was_read(bench, run)


def _all_was_read(bench: Bench, run: Run) -> None:
    for index, elements in enumerate(run.contents):
        sent = [element.value for element in elements if isinstance(element, Record)]
        read = [value for value in bench.task.processed if value.startswith(f"{index}.")]
        assert read == sent, "records were lost, doubled or out of order"


def conserves(bench: Bench, run: Run) -> None:
    """Of each checkpoint that completed: state and capture together are what came before its barriers (C28).

    But one that was cancelled may complete, if it was only announced then (C24): it was declined, so nobody uses it.
    """
    for number in _completed(bench, run):
        before = [value for elements in run.contents for value in records_before(elements, number)]
        held = [*bench.task.state[number], *bench.task.captured(number)]
        assert Counter(held) == Counter(before), f"checkpoint {number} holds the wrong records"


def restores(bench: Bench, run: Run) -> None:
    """From each of them: what was captured and then what came behind the barriers make up what was sent (C28)."""
    for number in _completed(bench, run):
        with open_bench(channels=len(run.contents)) as restored:
            restored.task.processed = list(bench.task.state[number])
            for handle in bench.task.in_flight(number):
                restored.channels[handle.info.input_channel_idx].recover(handle.elements)
            for channel, elements in enumerate(run.contents):
                sent = [element.value for element in elements if isinstance(element, Record)]
                restored.put(channel, *sent[len(records_before(elements, number)) :])
            restored.read_all()
            _all_was_read(restored, run)


def _completed(bench: Bench, run: Run) -> list[int]:
    given_up = {number for number, _ in bench.task.aborted} | _cancelled(run)
    return [
        number for number in bench.task.triggered if number not in given_up and _is_captured(bench, number)
    ]


def _cancelled(run: Run) -> set[int]:
    markers = (element for elements in run.contents for element in elements)
    return {marker.checkpoint_id for marker in markers if isinstance(marker, CancelCheckpointMarker)}


def _is_captured(bench: Bench, number: int) -> bool:
    """Not of one that a cancellation of a higher number has ended: its task declines it when writing fails (C9)."""
    result = bench.task.results.get(number)
    if result is None:
        return True
    captured = result.input_channel_state
    return captured.done() and captured.exception() is None


def records_before(elements: Sequence[ChannelElement], number: int) -> list[Any]:
    """What a channel carries before that checkpoint's barrier; before its end, if it ends without one."""
    before: list[Any] = []
    for element in elements:
        match element:
            case CheckpointBarrier() if element.checkpoint_id == number:
                return before
            case EndOfPartition():
                return before
            case Record():
                before.append(element.value)
    raise AssertionError(f"checkpoint {number} completed without the barrier of a channel")
