"""The peer of a snapshot: a dict with as many entries, encoded at once.

It shows how the processor's caches affect reading many keys and values: they are in memory in the order of their
creation and are read in another order, as a state reads them key group by key group.
"""

from __future__ import annotations

from msgspec import msgpack

from harness.system.clock import monotonic_us
from tools.bench.scattered import scattered

__all__ = ["EncodedDict"]


class EncodedDict:
    """A dict from key to encoded value. Never changes."""

    def __init__(self, keys: int) -> None:
        made = [(key, msgpack.encode(key)) for key in range(keys)]
        self._entries = dict(made[scattered(step, keys)] for step in range(keys))

    def entry_s(self) -> float:
        """Seconds per entry."""
        began_us = monotonic_us()
        msgpack.encode(self._entries)
        return (monotonic_us() - began_us) / 1e6 / len(self._entries)
