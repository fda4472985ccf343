"""Timers against a set: whatever is registered, deleted, saved, restored and rescaled, each fires once (T10-T15)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.state.tests.timer_bench import MAX_PARALLELISM, TimerBench
from reference_impl.tests.rig import quickly

Timer = tuple[int, str, Any]
"""Instant, key as it is shown (1 and True are two), and namespace."""


@dataclass(slots=True, kw_only=True)
class Model:
    """What waits and what has fired. Mutable."""

    waiting: dict[Timer, None] = field(default_factory=dict)
    fired: list[Timer] = field(default_factory=list)

    def pass_to(self, instant: int) -> None:
        """All that is due fires."""
        due = [timer for timer in self.waiting if timer[0] <= instant]
        self.fired += due
        for timer in due:
            del self.waiting[timer]


class Subtasks:
    """Timers of both kinds at some parallelism, with a model of each kind. Mutable."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._benches = [TimerBench(loop)]
        self._earlier: list[Timer] = []
        """Fired before the last restore."""
        self.event, self.clock = Model(), Model()

    def owner(self, key: Any) -> TimerBench:
        (owner,) = [bench for bench in self._benches if bench.owns(key)]
        return owner

    def change(self, what: str, key: Any, time: int, namespace: Any) -> None:
        """Register or delete, of both kinds: instants of the clock are counted from now."""
        bench, at = self.owner(key), self._loop.now_ms() + time
        bench.keys.set_current_key(key)
        service = bench.service
        if what == "register":
            service.register_event_time_timer(namespace, time)
            service.register_processing_time_timer(namespace, at)
            self.event.waiting.setdefault((time, repr(key), namespace))
            self.clock.waiting.setdefault((at, repr(key), namespace))
        else:
            service.delete_event_time_timer(namespace, time)
            service.delete_processing_time_timer(namespace, at)
            self.event.waiting.pop((time, repr(key), namespace), None)
            self.clock.waiting.pop((at, repr(key), namespace), None)

    def advance(self, time: int) -> None:
        """The watermark to `time`, interrupted after every timer, and the clock by as much."""
        for bench in self._benches:
            while not bench.services.try_advance_watermark(time, lambda: True):
                pass
        self.event.pass_to(time)
        to_ms = self._loop.now_ms() + time
        for bench in self._benches:
            bench.advance(to_ms)
        for bench in self._benches:
            bench.run_mail()
        self.clock.pass_to(to_ms)

    def rescale(self, parallelism: int) -> None:
        """Save, lose everything, and restore."""
        handles = [handle for bench in self._benches if (handle := bench.take_snapshot()) is not None]
        self._earlier = self.fired()
        for bench in self._benches:
            bench.services.close()
        self._benches = [
            TimerBench(self._loop, handles=handles, subtask=index, parallelism=parallelism)
            for index in range(parallelism)
        ]

    def fired(self) -> list[Timer]:
        """By all, of both kinds."""
        now = [timer for bench in self._benches for timer in bench.fired.timers]
        return self._earlier + [(time, repr(key), namespace) for time, key, namespace in now]


steps = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["register", "register", "delete"]),
            st.sampled_from(["a", "b", 1, True, ("c", 2)]),
            st.integers(0, 6),
            st.sampled_from([None, "n"]),
        ),
        st.tuples(st.just("advance"), st.integers(0, 6)),
        st.tuples(st.just("rescale"), st.integers(1, MAX_PARALLELISM)),
    ),
    max_size=30,
)


@quickly
@given(steps)
def test_each_timer_fires_once_whatever_is_saved_and_rescaled_in_between_t10_t11_t12_t13_t14_t15(
    steps: list[tuple[Any, ...]],
) -> None:
    with virtual_loop() as loop:
        subtasks = Subtasks(loop)
        for step in [*steps, ("advance", 100)]:
            match step:
                case ("advance", time):
                    subtasks.advance(time)
                case ("rescale", parallelism):
                    subtasks.rescale(parallelism)
                case (what, key, time, namespace):
                    subtasks.change(what, key, time, namespace)

        expected = subtasks.event.fired + subtasks.clock.fired
        assert sorted(subtasks.fired(), key=repr) == sorted(expected, key=repr)
