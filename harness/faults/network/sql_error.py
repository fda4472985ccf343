"""`sql_error`: requests are answered with a database's error that the database never sent (marked as synthetic).

1040 comes instead of the greeting; the others instead of a statement, which never reaches the database. Evidence: the
errors that the proxy sent, and errors of that number that clients met.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.packet_toxic import Messages, messages_of, packets_on
from harness.faults.network.toxics import link_of
from harness.faults.seen import NOTICE_US, Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "SqlError"]

_TOO_MANY_CONNECTIONS = 1040


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlError:
    """Answers `messages` with error `code`."""

    name: str
    link: str
    code: int
    messages: Messages

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
            name=self.name,
            stream=self._stream,
            do="error",
            code=self.code,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many errors were sent, and how many of that number clients met."""
        sent = [deed for deed in seen.did("error", stream=self._stream) if deed.more.get("code") == self.code]
        met = seen.over(self.link).errors_during(self.code, grace_us=NOTICE_US)
        return {"code": self.code, "errors_sent": len(sent), "errors_met": len(met)} if sent and met else {}


def _made(fault: Fault, _seed: int) -> SqlError:
    code = fault.code or 0
    usual = "handshake" if code == _TOO_MANY_CONNECTIONS else "query"
    return SqlError(name=fault.id, link=link_of(fault), code=code, messages=messages_of(fault, command=usual))


KIND = FaultKind(
    name="sql_error",
    about="Statements (for 1040: logins) are answered by the proxy with error `code`, marked as synthetic.",
    evidence="The proxy sent errors of that number; clients met some.",
    outside=_made,
)
