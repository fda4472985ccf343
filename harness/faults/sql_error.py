"""`sql_error`: the proxy answers requests with a MySQL error that the database never sent (marked as synthetic).

1040 replaces the server's greeting; every other code answers a statement, which never reaches the database. Evidence:
the errors that the proxy sent, and errors of that number that clients got.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

from harness.faults.model.fault import MessageFault
from harness.faults.model.fields import Code, UntilEffective
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.link_acts import OnRequests, Picks, command_of
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_TOO_MANY_CONNECTIONS = 1040
_ENDS_THE_CONNECTION = frozenset({1040, 1053})
"""Errors after which a server closes the connection."""


class SqlError(MessageFault):
    """Answers `messages` with error `code`."""

    about = "The proxy answers statements (for 1040: logins) with error `code`, marked as synthetic."
    must_show = "The proxy sent errors of that number, and clients got some."
    can = ("res",)

    do: Literal["sql_error"]
    code: Annotated[Literal[1040, 1053, 1205, 1213, 1290], Code]
    lasts: UntilEffective = None

    @property
    def usual_command(self) -> str:
        """1040 (too many connections) answers a login."""
        return "handshake" if self.code == _TOO_MANY_CONNECTIONS else "query"

    @property
    def _stream(self) -> str:
        """A greeting is replaced on its way to the client; a request is dropped on its way to the server."""
        return "downstream" if self.messages.command == "handshake" else "upstream"

    def toxic(self) -> Toxic:
        """Counts messages from now on, on live connections too."""
        return self.messages.toxic(self._stream, "error", code=self.code)

    def evidence(self, seen: Seen) -> Evidence:
        sent = [
            event for event in seen.did("error", stream=self._stream) if event.more.get("code") == self.code
        ]
        met = seen.over(self.link).errors_during(self.code, grace_us=NOTICE_US)
        return {"code": self.code, "errors_sent": len(sent), "errors_met": len(met)} if sent and met else {}

    def on_links(self) -> LinkAct:
        return SimulatedSqlError(Picks(self.messages), code=self.code)


class SimulatedSqlError(OnRequests):
    """Answers simulated requests with an error; the server gets nothing. Mutable: counts."""

    def __init__(self, picks: Picks, *, code: int) -> None:
        self._picks = picks
        self._code = code
        self._answered: Counter[str] = Counter()

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Answers the message if it is selected."""
        if not flight.is_sound or not self._picks.take(flight):
            return
        self._answered[command_of(flight)] += 1
        if flight.is_handshake or self._code in _ENDS_THE_CONNECTION:
            link.breaks(flight, worked=False, code=self._code)
        else:
            link.answers(flight, self._code)

    def evidence(self) -> Json:
        if not self._answered:
            return {}
        return {
            "errors": self._answered.total(),
            "code": self._code,
            "synthetic": True,
            "commands": dict(sorted(self._answered.items())),
        }
