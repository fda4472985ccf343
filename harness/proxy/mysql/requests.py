"""The client's packets: the login, then commands, and what belongs to a command (a file, a password).

Answers to `dispatch_command` of MySQL's server. Invariant: each command opens one exchange, unless it has no reply.
"""

from __future__ import annotations

from typing import Final

from harness.proxy.mysql.commands import (
    ANSWERLESS,
    CHANGE_USER,
    CLOSE_STATEMENT,
    EXECUTES,
    HANDSHAKE,
    PREPARE,
    QUERY,
    STATEMENT_BYTES,
    Exchange,
)
from harness.proxy.mysql.frames import HEADER_BYTES, LONGEST_FRAME, Packet
from harness.proxy.mysql.query_attributes import without_attributes
from harness.proxy.mysql.session import PROTOCOL_41, QUERY_ATTRIBUTES, TLS, Session

__all__ = ["RequestReader"]

_TLS_REQUEST_BYTES: Final = 32
_LOGS_IN: Final = frozenset({HANDSHAKE, CHANGE_USER})
_STATED: Final = frozenset({QUERY, PREPARE})
_BINARY_LOG: Final = frozenset({0x12, 0x1E})
"""A replica's commands: their reply never ends."""


class RequestReader:
    """Reads what flows upstream."""

    __slots__ = ("_exchange", "_last", "_session", "reach")

    def __init__(self, session: Session) -> None:
        self.reach = STATEMENT_BYTES
        self._session = session
        self._exchange = session.open[0]
        self._last = True

    def quick(self, chunk: bytes) -> bool:
        """See `PacketReader`: one statement, asked when all before it were answered."""
        session = self._session
        if session.open or session.infile is not None or session.abilities & QUERY_ATTRIBUTES:
            return False
        length = len(chunk) - HEADER_BYTES
        if (
            not 1 <= length < LONGEST_FRAME
            or chunk[4] != QUERY
            or chunk[3]
            or length != int.from_bytes(chunk[:3], "little")
        ):
            return False
        text = chunk[HEADER_BYTES + 1 : HEADER_BYTES + STATEMENT_BYTES]
        self._exchange = exchange = Exchange(command=QUERY, text=text, requests=1)
        self._last = True
        session.open.append(exchange)
        return True

    def plausible(self, length: int, sequence: int) -> bool:
        """See `PacketReader`: a client that speaks before it is greeted speaks no MySQL."""
        del length, sequence
        return bool(self._session.offered) or self._session.lose("the client spoke before it was greeted")

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
        """See `PacketReader`."""
        session = self._session
        if session.infile is None and sequence == 0 and length:
            return self._command(length, buffer, at)
        if session.infile is not None:
            self._exchange = session.infile
            if not length:
                session.infile = None
        elif self._exchange.command not in _LOGS_IN or not session.open:
            return session.lose(
                f"a client's packet of {length} bytes, number {sequence}, belongs to no command"
            )
        elif self._exchange.command == HANDSHAKE and not self._exchange.requests:
            self._login(length, buffer, at)
        self._exchange.requests += 1
        self._last = session.infile is None
        return not session.why_lost

    def packet(self, sequence: int) -> Packet:
        """See `PacketReader`."""
        exchange = self._exchange
        return Packet(sequence=sequence, message=exchange, number=exchange.requests, last=self._last)

    def _command(self, length: int, buffer: bytes, at: int) -> bool:
        session, command = self._session, buffer[at]
        if command in _STATED:
            text = buffer[at + 1 : at + min(length, STATEMENT_BYTES)]
            if command == PREPARE:
                session.last_prepared = text
            elif session.abilities & QUERY_ATTRIBUTES:
                text = without_attributes(text)
        else:
            text = self._prepared_text(command, buffer, at)
        self._exchange = exchange = Exchange(command=command, text=text, requests=1)
        self._last = True
        if command not in ANSWERLESS:
            session.open.append(exchange)
        return command not in _BINARY_LOG or session.lose("a replica reads the binary log")

    def _prepared_text(self, command: int, buffer: bytes, at: int) -> bytes:
        statement = int.from_bytes(buffer[at + 1 : at + 5], "little")
        if command in EXECUTES:
            return self._session.text_of(statement)
        if command == CLOSE_STATEMENT:
            self._session.forget(statement)
        return b""

    def _login(self, length: int, buffer: bytes, at: int) -> None:
        session = self._session
        wanted = int.from_bytes(buffer[at : at + 4], "little")
        if length >= _TLS_REQUEST_BYTES:  # the four highest of its reserved bytes are MariaDB's own abilities
            wanted |= int.from_bytes(buffer[at + 28 : at + 32], "little") << 32
        session.abilities = wanted & session.offered
        if length == _TLS_REQUEST_BYTES and wanted & TLS:
            session.lose("the client asked for TLS")
        elif not wanted & PROTOCOL_41:
            session.lose("the client speaks the protocol of before MySQL 4.1")
