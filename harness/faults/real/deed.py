"""A deed: one thing that the proxy did to a connection, from its own log.

Answers to a packet capture beside a test. Invariant: a deed is written when it was done, with the machine's
monotonic clock, so that it can stand beside what the operator recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Deed", "DeedsRead", "deed_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What was done, by which toxic, to which connection; several alike may be told as one."""

    t_us: int
    did: str
    """`held`, `swallowed`, `cut`, `reset`, `refused`, `stalled`, `delayed`, `sliced`, `paced`, `limited`, ..."""
    toxic: str = ""
    """Empty: no toxic's doing, but the link's (it was disabled, or cut)."""
    connection: int = 0
    stream: str = ""
    """`upstream` or `downstream`."""
    bytes: int = 0
    packets: int = 0
    ms: int = 0
    command: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the log says of it."""

    def line(self) -> dict[str, Any]:
        """As JSON, from which `deed_of` makes it again; what is empty is left out."""
        told = {name: getattr(self, name) for name in _OWN if getattr(self, name)}
        return {"t": self.t_us, **told, **self.more}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeedsRead:
    """A part of a proxy's log."""

    deeds: Sequence[Deed]
    next: int
    """What to ask for next (`after`)."""
    lost: int = 0
    """How many had fallen out of the log before they could be read."""


_OWN = ("did", "toxic", "connection", "stream", "bytes", "packets", "ms", "command")


def deed_of(line: Mapping[str, Any]) -> Deed:
    """A deed from the proxy's JSON."""
    told = {name: line[name] for name in _OWN if line.get(name) is not None}
    more = {name: value for name, value in line.items() if name not in (*_OWN, "t", "n")}
    return Deed(t_us=int(line["t"]), more=more, **told)
