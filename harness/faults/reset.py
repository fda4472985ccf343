"""`reset`: connections end with the next answer, again and again, while the link goes on listening.

With Toxiproxy, connections opened under it end by RST, those already open by FIN (`docs/references.md`,
Measured). Evidence: connections that were lost while it lasted, with their error codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Control, Evidence, Seen, Toxic, loss_evidence

__all__ = ["Reset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Cuts every connection of `link` at the next bytes that flow in `stream`."""

    name: str
    link: str
    stream: str

    @contextmanager
    def inject(self, control: Control) -> Iterator[None]:
        """Acts on live connections at once; new ones are accepted, then cut."""
        toxic = Toxic(name=self.name, type="reset_peer", stream=self.stream, attributes={"timeout": 0})
        try:
            control.add_toxic(self.link, toxic)
            yield
        finally:
            control.remove_toxic(self.link, self.name)

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were cut, by error code."""
        return loss_evidence(seen, self.link)
