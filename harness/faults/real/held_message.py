"""A message of a job's link that our proxy holds, and the two ways to let it go.

Invariant: it is let go once, by whichever of `release` and `cut` is called first.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from harness.faults.parts.triggers import LookupMoment, SinkMoment


class LetsGo(Protocol):
    """The part of a proxy's control by which a held message goes on or is lost."""

    def cut_one(self, link: str, connection: int) -> None:
        """Resets one connection; what is held of it is lost."""

    def release(self, link: str, toxic: str, connection: int) -> None:
        """Sends what a holding toxic holds of one connection."""


@dataclass(slots=True, kw_only=True)
class HeldMessage:
    """A message that the proxy holds. Mutable: it is let go once, by `release` or by `cut`."""

    control: LetsGo
    toxic: str
    """The toxic that holds it."""
    connection: int
    peer: int
    """The client's port."""
    when: SinkMoment | LookupMoment
    said: str
    """The request, in words: `COMMIT`, `UPDATE offsets`."""
    counted: str
    """The table whose COMMITs or writes are counted, as `of enriched`; empty: all."""
    held_us: int
    stopped_us: int | None = None
    """Since when the job stands still; None: it does not."""
    meanwhile: int = 0
    """How many messages of the link's other connections passed until then."""
    still: ExitStack = field(default_factory=ExitStack)
    """What ends the standstill."""
    rows_modified: int | None = None
    """The rows that the transaction of a COMMIT has changed; None: the message is a write in autocommit."""
    is_over: bool = False

    @property
    def name(self) -> str:
        """The moment in words: `before COMMIT 3 of enriched`, `after UPDATE offsets (message 7)`."""
        moment, nth = f"{self.when.moment} {self.said}", self.when.nth
        match self.when.counts:
            case "commit":
                return f"{moment} {nth} {self.counted}"
            case "write":
                return f"{moment} (write {nth} {self.counted})"
            case "message":
                return f"{moment} (message {nth})"

    @property
    def lag_ms(self) -> float | None:
        """How long after it was held the job stood still; None: the job goes on."""
        return None if self.stopped_us is None else round(max(0, self.stopped_us - self.held_us) / 1000, 1)

    def release(self) -> None:
        """Lets it go on."""
        if not self.is_over:
            self.is_over = True
            self.control.release(self.when.link, self.toxic, self.connection)

    def cut(self) -> None:
        """Resets its connection: a request never arrives, and the server rolls back what was open."""
        if not self.is_over:
            self.is_over = True
            self.control.cut_one(self.when.link, self.connection)
