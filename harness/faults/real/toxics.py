"""Toxics on a link while a block lasts.

Answers to `toxiproxy-cli toxic add` and `remove`. Invariant: whatever was put on is taken off again, also where only
some of it could be put on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from harness.faults.real.fault_site import Control, Toxic

__all__ = ["toxics_on"]


@contextmanager
def toxics_on(
    control: Control,
    link: str,
    *,
    name: str,
    type: str,  # noqa: A002 - Toxiproxy's own word
    streams: Sequence[str],
    attributes: Mapping[str, int | str],
) -> Iterator[None]:
    """One toxic for each of `streams`; live connections are affected at once."""
    toxics = [
        Toxic(name=f"{name}.{stream}", type=type, stream=stream, attributes=attributes) for stream in streams
    ]
    try:
        for toxic in toxics:
            control.add_toxic(link, toxic)
        yield
    finally:
        for toxic in reversed(toxics):
            control.remove_toxic(link, toxic.name)
