"""The cost of updating a keyed value, against a dict that stores the same bytes.

Invariant: both sides encode with the state's serializer, for the same keys in the same order, equally often; the final
contents are checked, else there is no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.system.clock import monotonic_us
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import ValueStateDescriptor
from tools.bench.answer import WrongOutput
from tools.bench.scattered import scattered

__all__ = ["KeyedUpdates", "UpdateLoad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLoad:
    """In each pass every key, in a scattered order, is selected once and then updated several times."""

    value_type: Any
    value: Any
    keys: int
    updates_of_a_key: int
    passes: int = 1

    @property
    def updates(self) -> int:
        """The number of all updates."""
        return self.keys * self.updates_of_a_key * self.passes


class KeyedUpdates:
    """A state and a dict with the same keys. Mutable: each contender updates all of them, `passes` times."""

    def __init__(self, load: UpdateLoad) -> None:
        self._load = load
        self._keys = [scattered(step, load.keys) for step in range(load.keys)]
        descriptor = ValueStateDescriptor(name="value", value_type=load.value_type)
        self._encode = descriptor.serializer.encode
        self._backend = KeyedStateBackend(operator="bench", max_parallelism=128)
        self._state = self._backend.get_partitioned_state(None, descriptor)
        self._dict: dict[int, bytes] = {}

    def dict_s(self) -> float:
        """Seconds per update of the dict, including the encoding."""
        stored, encode, value = self._dict, self._encode, self._load.value
        times = range(self._load.updates_of_a_key)
        began_us = monotonic_us()
        for _ in range(self._load.passes):
            for key in self._keys:
                for _ in times:
                    stored[key] = encode(value)
        took_us = monotonic_us() - began_us
        if set(stored.values()) != {encode(value)}:
            raise WrongOutput("the dict holds another value than it was given")
        self._require_all("the dict", len(stored))
        return took_us / 1e6 / self._load.updates

    def state_s(self) -> float:
        """Seconds per update of the state, including its share of selecting the key."""
        select, update, value = self._backend.set_current_key, self._state.update, self._load.value
        times = range(self._load.updates_of_a_key)
        began_us = monotonic_us()
        for _ in range(self._load.passes):
            for key in self._keys:
                select(key)
                for _ in times:
                    update(value)
        took_us = monotonic_us() - began_us
        select(self._keys[0])
        if self._state.value() != value:
            raise WrongOutput("the state holds another value than it was given")
        self._require_all("the state", self._backend.num_keyed_state_entries)
        return took_us / 1e6 / self._load.updates

    def _require_all(self, which: str, held: int) -> None:
        if held != self._load.keys:
            raise WrongOutput(f"{which} holds {held} of {self._load.keys} keys")
