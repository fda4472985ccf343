"""`down`: the link stops listening; live connections are cut, new ones refused, until it heals.

Evidence: connections that were lost when it began or refused while it lasted, with their error codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Control, Evidence, Seen, loss_evidence

__all__ = ["Down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """Takes `link` down."""

    name: str
    link: str

    @contextmanager
    def inject(self, control: Control) -> Iterator[None]:
        """The port stays the same when it listens again."""
        try:
            control.disable(self.link)
            yield
        finally:
            control.enable(self.link)

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were lost or refused, by error code."""
        return loss_evidence(seen, self.link)
