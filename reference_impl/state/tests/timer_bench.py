"""A bench for timers: a clock that a test moves, keys that it sets, and a list of what fired."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import InternalTimer, InternalTimerService, TimersHandle
from reference_impl.state.key_groups import (
    KeyGroupRange,
    assign_to_key_group,
    compute_key_group_range_for_operator_index,
)

MAX_PARALLELISM = 8


class Keys:
    """A key context without state."""

    def __init__(self) -> None:
        self._keys: list[Any] = []

    @property
    def current_key(self) -> Any:
        return self._keys[-1] if self._keys else None

    def set_current_key(self, key: Any) -> None:
        self._keys[:] = [key]


class Fired:
    """Notes each firing with the key that was current; `then` is done at each."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.timers: list[tuple[int, Any, Any]] = []
        self.then: Callable[[InternalTimer], None] = lambda timer: None

    def on_event_time(self, timer: InternalTimer) -> None:
        assert timer.key == self._keys.current_key
        self.timers.append((timer.timestamp, timer.key, timer.namespace))
        self.then(timer)

    on_processing_time = on_event_time


class TimerBench:
    """One subtask's timers, in virtual time."""

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        handles: Iterable[TimersHandle] = (),
        subtask: int = 0,
        parallelism: int = 1,
        services: type[InternalTimerServices] = InternalTimerServices,
    ) -> None:
        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.timers = Timers(loop, self.executor)
        self.keys = Keys()
        self.fired = Fired(self.keys)
        self.key_group_range: KeyGroupRange = compute_key_group_range_for_operator_index(
            MAX_PARALLELISM, parallelism, subtask
        )
        self.services = services(
            timers=self.timers,
            key_context=self.keys,
            key_group_range=self.key_group_range,
            max_parallelism=MAX_PARALLELISM,
        )
        self.services.restore(handles)
        self.service: InternalTimerService = self.services.get_internal_timer_service("t", self.fired)

    def owns(self, key: Any) -> bool:
        """Whether the key's records come here."""
        return assign_to_key_group(key, MAX_PARALLELISM) in self.key_group_range

    def event(self, key: Any, time: int, namespace: Any = None) -> None:
        """Register."""
        self.keys.set_current_key(key)
        self.service.register_event_time_timer(namespace, time)

    def clock(self, key: Any, time: int, namespace: Any = None) -> None:
        """Register."""
        self.keys.set_current_key(key)
        self.service.register_processing_time_timer(namespace, time)

    def run_mail(self) -> None:
        """All that waits, deferrable mail too."""
        while self.mailbox.has_mail():
            self.mailbox.take().action()

    def advance(self, to_ms: int, *, hold: bool = False) -> None:
        """Let it be `to_ms`, and run what falls due at each instant; or only post it."""
        while True:
            if not hold:
                self.run_mail()
            due_ms = self.loop.next_due_ms()
            if due_ms is None or due_ms > to_ms:
                break
            self.loop.advance(due_ms)
            self.loop.run_ready()
        self.loop.advance(to_ms)

    def take_snapshot(self) -> TimersHandle | None:
        """Both parts of it."""
        future = self.services.snapshot()
        future.run()
        return future.result()
