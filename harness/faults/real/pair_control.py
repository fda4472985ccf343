"""Two database servers as faults use them: a primary and its replica, and which of them the links lead to.

Answers to a cluster manager (Orchestrator, MHA) that promotes a replica. Invariants: facts about a server come over a
direct connection to it; the links lead to the serving server, and the lookups' to the replica where the scenario says
so; what was lost is what SQL reads on one server and not on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

EPOCHS: Final = "epoch"
"""The table of our own sinks in which each epoch that is visible has a row."""
OUTPUTS: Final = "output"
ServerRole = Literal["primary", "replica"]
"""What a server was when the run began; a promoted replica is still called `replica`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """The rows of a table that one server has committed and the serving one does not have."""

    table: str
    rows: Sequence[Mapping[str, Any]]
    """Each row by column."""


class PairControl(Protocol):
    """A primary and an asynchronous replica of it; every method may be called from any thread, and has a limit."""

    @property
    def serving(self) -> ServerRole:
        """The server that the links of the sink lead to."""

    def stop_receiving(self) -> None:
        """The replica gets nothing more from the primary; what it got it still applies."""

    def stop_applying(self) -> None:
        """The replica applies nothing more of what it gets."""

    def resume(self) -> bool:
        """Undoes both; returns whether the replica then caught up, and does nothing once it was promoted."""

    def standing(self) -> Mapping[str, Any]:
        """Where both servers are: `primary` (its log's end), `executed` (how far the replica is in it), and so on."""

    def behind(self) -> int:
        """How many bytes of the primary's log the replica has not executed; whole files in between count 0."""

    def promote(self) -> None:
        """Make the replica a primary: it stops replicating, and takes writes."""

    def move_links(self, *, cut: bool) -> None:
        """All links lead to the replica from now on; `cut`: live connections end, otherwise they stay."""

    def fence_off(self, database: str, *, read_only: bool = False) -> int:
        """Ends all sessions of the run on the old primary; returns how many. `read_only`: it takes no more writes."""

    def answering(self) -> int | None:
        """The id of the server that answers behind the links now; None: no server answers."""

    def only_on(self, role: ServerRole, database: str, table: str) -> Sequence[Mapping[str, Any]]:
        """The rows of `table` that this server has and the other one has not, by column; empty: there is no table."""

    def lose(self, lost: LostRows) -> None:
        """Remembers what a fault of the run found to be lost."""


def find_lost(pair: PairControl, database: str, *, table: str) -> dict[str, Any]:
    """What the old primary has committed and the promoted one has not, as facts of a fault; the pair remembers it.

    `table`: the one that a job writes to; empty: the run is one of our own sinks, whose epochs are told.
    """
    rows = pair.only_on("primary", database, table or EPOCHS)
    pair.lose(LostRows(table=table or EPOCHS, rows=rows))
    if table:
        return {"lost": len(rows)}
    pair.lose(LostRows(table=OUTPUTS, rows=pair.only_on("primary", database, OUTPUTS)))
    return {
        "lost": len(rows),
        "lost_epochs": [[row["subtask"], row["epoch"], row["token"]] for row in rows],
    }
