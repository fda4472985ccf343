"""`sql_error`: requests are answered with a database's error that the database never sent (marked as synthetic).

1040 comes instead of the greeting; the others instead of a statement, which never reaches the database. Evidence: the
errors that the proxy sent, and errors of that number that clients met.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from harness.faults.model.fault import MessageFault
from harness.faults.model.fields import Code, UntilEffective
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Site, packets_on
from harness.faults.simulated.act import LinkAct, meet_requests
from harness.faults.simulated.link_acts import Picks, command_of, picks_of

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["SimulatedSqlError", "SqlError"]

_TOO_MANY_CONNECTIONS = 1040
_ENDS_THE_CONNECTION = frozenset({1040, 1053})
"""Errors after which the server hangs up."""


class SqlError(MessageFault):
    """Answers `messages` with error `code`."""

    about = "Statements (for 1040: logins) are answered by the proxy with error `code`, marked as synthetic."
    must_show = "The proxy sent errors of that number; clients met some."

    do: Literal["sql_error"]
    code: Annotated[Literal[1040, 1053, 1205, 1213, 1290], Code]
    lasts: UntilEffective = None

    @property
    def usual_command(self) -> str:
        """Too many connections is what a login is answered."""
        return "handshake" if self.code == _TOO_MANY_CONNECTIONS else "query"

    @property
    def _stream(self) -> str:
        """A greeting is replaced on its way down; a request is taken out on its way up."""
        return "downstream" if self.messages.command == "handshake" else "upstream"

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Messages are counted from now on, live connections' too."""
        return packets_on(
            site.control,
            self.link,
            self.messages,
            name=self.id,
            stream=self._stream,
            do="error",
            code=self.code,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many errors were sent, and how many of that number clients met."""
        sent = [deed for deed in seen.did("error", stream=self._stream) if deed.more.get("code") == self.code]
        met = seen.over(self.link).errors_during(self.code, grace_us=NOTICE_US)
        return {"code": self.code, "errors_sent": len(sent), "errors_met": len(met)} if sent and met else {}

    def on_links(self) -> LinkAct:
        return SimulatedSqlError(picks_of(self.messages), code=self.code)


class SimulatedSqlError:
    """The proxy answers in the server's place, with an error; the server hears nothing. Mutable: counts."""

    def __init__(self, picks: Picks, *, code: int) -> None:
        self._picks = picks
        self._code = code
        self._answered: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """What is asking already is met too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Answer it, if it is one that is meant."""
        if not flight.is_sound or not self._picks.take(flight):
            return
        self._answered[command_of(flight)] += 1
        if flight.is_handshake or self._code in _ENDS_THE_CONNECTION:
            link.breaks(flight, worked=False, code=self._code)
        else:
            link.answers(flight, self._code)

    def ends(self, link: Link) -> None:
        """The server answers for itself again."""

    def evidence(self) -> dict[str, Any]:
        """How many messages were answered so, by their command."""
        if not self._answered:
            return {}
        return {
            "errors": self._answered.total(),
            "code": self._code,
            "synthetic": True,
            "commands": dict(sorted(self._answered.items())),
        }
