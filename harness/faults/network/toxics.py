"""Toxics on a link while a block lasts, and the words of directions.

Answers to `toxiproxy-cli toxic add` and `remove`. Invariant: whatever was put on is taken off again, also where only
some of it could be put on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from harness.faults.fault import Control, Toxic
from harness.scenario import Fault

__all__ = ["link_of", "stream_of", "streams_of", "toxics_on"]

_STREAMS = {"up": "upstream", "down": "downstream"}


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


def link_of(fault: Fault) -> str:
    """The link that a scenario's entry names."""
    assert fault.link is not None, f"a scenario's {fault.do} names its link"
    return fault.link


def stream_of(fault: Fault) -> str:
    """The direction that it names; the way back, if it names none."""
    return _STREAMS[fault.direction or "down"]


def streams_of(fault: Fault) -> tuple[str, ...]:
    """The direction that it names; both, if it names none."""
    return (_STREAMS[fault.direction],) if fault.direction else ("upstream", "downstream")
