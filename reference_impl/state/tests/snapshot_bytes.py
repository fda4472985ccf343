"""Prints a digest of a snapshot; run in processes of their own, to be compared."""

from __future__ import annotations

import hashlib

from msgspec import msgpack

from reference_impl.state.state_descriptor import ListStateDescriptor, MapStateDescriptor
from reference_impl.state.tests.state_rig import keyed, saved


def digest() -> str:
    """Of state whose keys, namespaces and values are strings and sets of them."""
    backend, _ = keyed("")
    for word in ("a", "b", "wörter", "x" * 40):
        backend.set_current_key(word)
        backend.get_partitioned_state(word, ListStateDescriptor(name="list")).add({word, "z", "y"})
        state = backend.get_partitioned_state(None, MapStateDescriptor(name="map"))
        state.put_all({word: 1, (word, 1): frozenset((word, "q"))})
    return hashlib.sha256(msgpack.encode(saved(backend))).hexdigest()


if __name__ == "__main__":
    print(digest(), end="")  # noqa: T201  # to the test that started us
