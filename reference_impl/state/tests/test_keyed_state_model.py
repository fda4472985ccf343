"""Keyed state against dicts, through random writes, snapshots, failures and rescales (S1-S9)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference_impl.state.key_groups import assign_key_to_parallel_operator
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore
from reference_impl.state.snapshots import KeyedStateHandle, SnapshotFuture
from reference_impl.state.state_descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.tests.state_rig import backends, written

MAX_PARALLELISM = 16
KEYS = st.sampled_from((0, 1, True, "a", "b", (1, "a"), -(2**40), 2.5))
NUMBERS = st.integers(-9, 9)
VALUE = ValueStateDescriptor(name="value", value_type=int)
LIST = ListStateDescriptor(name="list")
SUM = ReducingStateDescriptor(name="sum", reduce=lambda old, new: old + new, value_type=int)
MAP = MapStateDescriptor(name="map")
DESCRIPTORS = (VALUE, LIST, SUM, MAP)

Model = dict[tuple[str, str], Any]
"""By the name of the state and the key as it is written: 1 is not True."""


class KeyedStateModel(RuleBasedStateMachine):
    """The subtasks of one operator, and what they ought to hold."""

    build = staticmethod(backends)
    """Makes the subtasks; a planted defect comes in here."""

    @initialize(parallelism=st.integers(1, 5))
    def start(self, parallelism: int) -> None:
        self.subtasks: list[KeyedStateBackend] = self.build(parallelism, (), max_parallelism=MAX_PARALLELISM)
        self.model: Model = {}
        self.pending: tuple[list[SnapshotFuture[KeyedStateHandle | None]], Model] = ([], {})
        self.completed: tuple[list[KeyedStateHandle | None], Model] = ([], {})

    def store(self, key: Any) -> KeyedStateStore:
        """Of the key's owner, the key selected."""
        owner = self.subtasks[assign_key_to_parallel_operator(key, MAX_PARALLELISM, len(self.subtasks))]
        owner.set_current_key(key)
        return KeyedStateStore(owner)

    @rule(key=KEYS, number=NUMBERS)
    def update(self, key: Any, number: int) -> None:
        self.store(key).get_state(VALUE).update(number)
        self.model["value", repr(key)] = number

    @rule(key=KEYS, numbers=st.lists(NUMBERS, max_size=2))
    def append(self, key: Any, numbers: list[int]) -> None:
        self.store(key).get_list_state(LIST).add_all(numbers)
        if numbers:
            self.model["list", repr(key)] = [*self.model.get(("list", repr(key)), []), *numbers]

    @rule(key=KEYS, number=NUMBERS)
    def add(self, key: Any, number: int) -> None:
        self.store(key).get_reducing_state(SUM).add(number)
        self.model["sum", repr(key)] = self.model.get(("sum", repr(key)), 0) + number

    @rule(key=KEYS, inner=KEYS, number=NUMBERS | st.none())
    def put(self, key: Any, inner: Any, number: int | None) -> None:
        self.store(key).get_map_state(MAP).put(inner, number)
        self.model.setdefault(("map", repr(key)), {})[repr(inner)] = number

    @rule(key=KEYS)
    def remove_half_of_a_map(self, key: Any) -> None:
        iterator = self.store(key).get_map_state(MAP).iterator()
        entries = self.model.get(("map", repr(key)), {})
        for inner, number in iterator:
            if not isinstance(number, int) or number % 2:
                iterator.remove()
                del entries[repr(inner)]
        if not entries:
            self.model.pop(("map", repr(key)), None)

    @rule(key=KEYS, descriptor=st.sampled_from(DESCRIPTORS))
    def clear(self, key: Any, descriptor: Any) -> None:
        self.store(key)._backend.get_partitioned_state(None, descriptor).clear()
        self.model.pop((descriptor.name, repr(key)), None)

    @rule()
    def begin_snapshot(self) -> None:
        for future in self.pending[0]:
            future.cancel()
        self.pending = [one.snapshot(1) for one in self.subtasks], deepcopy(self.model)

    @rule(slices=st.integers(1, 12))
    def write_a_little(self, slices: int) -> None:
        for future in self.pending[0]:
            for _ in range(slices):
                future.run_slice()

    @precondition(lambda self: self.pending[0])
    @rule()
    def complete_snapshot(self) -> None:
        futures, model = self.pending
        for future in futures:
            future.run()
        self.completed = [written(future.result()) for future in futures], model
        self.pending = [], {}

    @rule(parallelism=st.integers(1, MAX_PARALLELISM))
    def fail_and_rescale(self, parallelism: int) -> None:
        """Whatever is not read until the next snapshot goes into it unread (S9)."""
        handles, model = self.completed
        self.subtasks = self.build(parallelism, handles, max_parallelism=MAX_PARALLELISM)
        self.model = deepcopy(model)
        self.pending = [], {}

    @invariant()
    def each_entry_has_one_owner(self) -> None:
        """Counted without registering anything, so that states can stay unread."""
        found = sorted(
            (name, repr(key))
            for index, one in enumerate(self.subtasks)
            for name in ("value", "list", "sum", "map")
            for key in one.get_keys(name)
            if assign_key_to_parallel_operator(key, MAX_PARALLELISM, len(self.subtasks)) == index
        )
        assert found == sorted(self.model)
        assert sum(one.num_keyed_state_entries for one in self.subtasks) == len(self.model)

    @rule(key=KEYS)
    def read(self, key: Any) -> None:
        store, of_key = self.store(key), repr(key)
        assert store.get_state(VALUE).value() == self.model.get(("value", of_key))
        assert store.get_list_state(LIST).get() == self.model.get(("list", of_key), [])
        assert store.get_reducing_state(SUM).get() == self.model.get(("sum", of_key))
        entries = {repr(inner): number for inner, number in store.get_map_state(MAP).entries()}
        assert entries == self.model.get(("map", of_key), {})

    def teardown(self) -> None:
        for key in (0, 1, True, "a", "b", (1, "a"), -(2**40), 2.5):
            self.read(key)


KeyedStateModel.TestCase.settings = settings(stateful_step_count=30, deadline=None)
TestKeyedStateAgainstDictsS1S9 = KeyedStateModel.TestCase
