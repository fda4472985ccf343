"""The peer of a snapshot: a dict with as many entries, encoded whole, in one pause.

It says what the machine's caches do to anybody who reads so many keys and values: they lie in memory in the order in
which they were made, and are read in another, as a state reads them key group by key group.
"""

from __future__ import annotations

from msgspec import msgpack

from harness.clock import monotonic_us
from tools.bench.scattered import scattered

__all__ = ["EncodedDict"]


class EncodedDict:
    """The entries key -> the value's bytes. Nothing in it changes."""

    def __init__(self, keys: int) -> None:
        made = [(key, msgpack.encode(key)) for key in range(keys)]
        self._entries = dict(made[scattered(step, keys)] for step in range(keys))

    def entry_s(self) -> float:
        """Seconds an entry."""
        began_us = monotonic_us()
        msgpack.encode(self._entries)
        return (monotonic_us() - began_us) / 1e6 / len(self._entries)
