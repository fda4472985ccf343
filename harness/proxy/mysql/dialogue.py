"""One MySQL conversation: the packets of both directions and which reply answers which request.

Answers to `dispatch_command` of MySQL's server and `cli_read_query_result` of its client, seen from the middle; no
sockets, no clock. Requests are answered in order; each command opens one exchange, unless it has no reply; a reply
ends with the packet after which a client would send its next command. When a packet of either direction is not
understood, both directions stop being parsed and their bytes pass unchanged. A query whose attributes cannot be parsed
has an empty statement text.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final

from harness.proxy.mysql.commands import (
    ANSWERLESS,
    CHANGE_USER,
    CLOSE_STATEMENT,
    EXECUTES,
    HANDSHAKE,
    PREPARE,
    QUERY,
    SET_OPTION,
    SEVERAL_BYTES,
    STATEMENT_BYTES,
    UNASKED,
    UNTOLD,
    CommandExchange,
    MessageKind,
    changed_tables,
    statements_of,
)
from harness.proxy.mysql.frames import HEADER_BYTES, LONGEST_FRAME, FrameTracker, Packet, is_whole_result

_SIZES: Final = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 0, 8: 8, 9: 4, 13: 2}
"""Size of a value by its type, for numbers and NULL."""
_SHORT: Final = frozenset({7, 10, 11, 12})
"""Dates and times: one byte holds the length. Other types are length-encoded text."""
_COUNTS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


def counted(buffer: bytes, at: int) -> tuple[int, int]:
    """A length-encoded number and the position after it. Raises IndexError if it is cut off."""
    first = buffer[at]
    size = _COUNTS.get(first, 0)
    if not size:
        return first, at + 1
    if at + 1 + size > len(buffer):
        raise IndexError("the number is cut off")
    return int.from_bytes(buffer[at + 1 : at + 1 + size], "little"), at + 1 + size


def without_attributes(text: bytes) -> bytes:
    """The statement in a COM_QUERY with query attributes: what follows them; empty if they cannot be parsed."""
    try:
        count, at = counted(text, 0)
        _, at = counted(text, at)  # the number of attribute sets, always 1
        return text[_values_end(text, at, count) if count else at :]
    except IndexError:
        return b""


def _values_end(text: bytes, at: int, count: int) -> int:
    nulls = text[at : at + (count + 7) // 8]
    at += len(nulls) + 1  # and one byte that announces the types
    kinds = []
    for _ in range(count):
        kinds.append(text[at])
        length, at = counted(text, at + 2)  # the type has a second byte, the sign; then comes the name
        at += length
    for index, kind in enumerate(kinds):
        if nulls[index // 8] >> index % 8 & 1:
            continue
        if kind in _SIZES:
            at += _SIZES[kind]
        elif kind in _SHORT:
            at += 1 + text[at]
        else:
            length, at = counted(text, at)
            at += length
    return at


COMPRESS: Final = 1 << 5
PROTOCOL_41: Final = 1 << 9
TLS: Final = 1 << 11
MULTI_STATEMENTS: Final = 1 << 16
DEPRECATE_EOF: Final = 1 << 24
OPTIONAL_METADATA: Final = 1 << 25
ZSTD: Final = 1 << 26
QUERY_ATTRIBUTES: Final = 1 << 27
MARIADB_PROGRESS: Final = 1 << 32
"""MariaDB's own capabilities are above MySQL's 32 bits."""
CACHED_METADATA: Final = 1 << 36
"""MariaDB omits the columns of a prepared statement's result if the client has cached them."""

_IN_TRANSACTION: Final = 0x0001
_AUTOCOMMIT: Final = 0x0002

PREPARED_MAX: Final = 16_384
"""Prepared statements whose text is remembered; a little more than a server allows by default."""
PREPARED_TEXT_BYTES: Final = 512
_LAST_ONE: Final = 0xFFFFFFFF


class SessionMemory:
    """The state of one connection. Mutable: changes with every packet."""

    __slots__ = (
        "_prepared", "abilities", "changed", "infile", "last_prepared", "number", "offered", "open", "status",
        "why_lost",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open: deque[CommandExchange] = deque([CommandExchange(command=HANDSHAKE)])
        self.number = 0
        """The server's number of the session, from its greeting; 0: it has not greeted."""
        self.offered = 0
        """The server's capabilities."""
        self.abilities = 0
        """The capabilities of both server and client."""
        self.status = 0
        """The server's status flags, from its last OK: a transaction is open, each statement is committed by itself."""
        self.changed: dict[str, None] = {}
        """The tables of which the open transaction has changed rows."""
        self.infile: CommandExchange | None = None
        """The LOAD DATA LOCAL statement whose file the client is sending."""
        self.last_prepared = b""
        self.why_lost = ""
        """Why this connection's packets are not parsed any more; empty while they are."""
        self._prepared: dict[int, bytes] = {}

    @property
    def may_send_several(self) -> bool:
        """Whether a query may hold several statements."""
        return bool(self.abilities & MULTI_STATEMENTS)

    def sends(self, exchange: CommandExchange, whole: bytes) -> None:
        """Note which tables a request may change, before it is open; `whole`: its text with all its statements."""
        several = b";" in whole and exchange.command == QUERY and self.may_send_several
        if not several and whole[:1] in _READS and whole[1:2] not in _STARTS:
            return
        texts = statements_of(whole) if several else []
        if len(texts) > 1:
            exchange.parts = tuple(
                CommandExchange(command=QUERY, text=one[:STATEMENT_BYTES]) for one in texts
            )
        waiting = dict.fromkeys(table for one in self.open for table in one.tables)
        in_autocommit, is_open = bool(self.status & _AUTOCOMMIT), bool(self.status & _IN_TRANSACTION)
        for one in exchange.parts or (exchange,):
            one.in_autocommit = in_autocommit and not is_open
            kind, statement = one.kinds()[0], one.statement()
            if kind is MessageKind.COMMIT:
                one.tables = tuple(dict.fromkeys((*self.changed, *waiting)))
            elif kind in {MessageKind.QUERY, MessageKind.EXECUTE}:
                one.tables = changed_tables(one.text) if one.text else (UNTOLD,)
            if kind in _ENDS or _BEGINS.match(statement):
                self.changed.clear()
                waiting.clear()
                exchange.leaves = ()
                is_open = kind not in _ENDS
            elif not one.in_autocommit:
                waiting.update(dict.fromkeys(one.tables))
                exchange.leaves = tuple(dict.fromkeys((*exchange.leaves, *one.tables)))
            if said := _SETS_AUTOCOMMIT.match(statement):
                in_autocommit = said[1] in {"1", "on", "true"}
        if exchange.parts:
            exchange.tables = tuple(dict.fromkeys(table for one in exchange.parts for table in one.tables))

    def has_changed(self, exchange: CommandExchange) -> None:
        """Keep the tables that a statement has changed until its transaction ends."""
        self.changed.update(dict.fromkeys(exchange.leaves))

    def lose(self, why: str) -> bool:
        """Stop parsing. Always returns False, the reader's answer for a packet that is not understood."""
        self.why_lost = self.why_lost or why
        return False

    def answered_by_us(self) -> tuple[CommandExchange, ...]:
        """Take out the requests before the next reply that the server never got: the reply belongs to none of them."""
        taken: list[CommandExchange] = []
        while self.open and self.open[0].answer:
            taken.append(self.open.popleft())
        return tuple(taken)

    def prepared(self, statement: int, text: bytes) -> None:
        """Remember the text of a prepared statement under the server's number."""
        if len(self._prepared) >= PREPARED_MAX:
            del self._prepared[next(iter(self._prepared))]
        self._prepared[statement] = text[:PREPARED_TEXT_BYTES]

    def forget(self, statement: int) -> None:
        self._prepared.pop(statement, None)

    def text_of(self, statement: int) -> bytes:
        """The text of a prepared statement; MariaDB uses all ones for the last one prepared."""
        return self.last_prepared if statement == _LAST_ONE else self._prepared.get(statement, b"")


_READS: Final = frozenset({b"s", b"S"})
"""SELECT, SET and SHOW, the commonest statements, change no table; START begins with it too."""
_STARTS: Final = frozenset({b"t", b"T"})
_ENDS: Final = frozenset({MessageKind.COMMIT, MessageKind.ROLLBACK})
_BEGINS: Final = re.compile(r"(begin|start transaction|xa (start|begin))\b")
"""What commits a transaction that is open."""
_SETS_AUTOCOMMIT: Final = re.compile(r"set (?:session |@@(?:session\.)?)?autocommit ?:?= ?(\w+)")
_TLS_REQUEST_BYTES: Final = 32
_LOGS_IN: Final = frozenset({HANDSHAKE, CHANGE_USER})
_STATED: Final = frozenset({QUERY, PREPARE})
_FORGETS: Final = frozenset({CHANGE_USER, 0x1F})
"""Also COM_RESET_CONNECTION: what is open is rolled back."""
_BINARY_LOG: Final = frozenset({0x12, 0x1E})
"""A replica's commands; their reply never ends."""


class RequestReader:
    """Parses the packets of the client; a `PacketReader`."""

    __slots__ = ("_exchange", "_last", "_session", "reach")

    def __init__(self, session: SessionMemory) -> None:
        self.reach = STATEMENT_BYTES
        self._session = session
        self._exchange = session.open[0]
        self._last = True

    def quick(self, chunk: bytes) -> bool:
        """See `PacketReader`: a single statement while no other is unanswered."""
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
        text = chunk[HEADER_BYTES + 1 : HEADER_BYTES + self.reach]
        self._exchange = exchange = CommandExchange(command=QUERY, text=text[:STATEMENT_BYTES], requests=1)
        self._last = True
        session.sends(exchange, text)
        session.open.append(exchange)
        return True

    def plausible(self, length: int, sequence: int) -> bool:
        """See `PacketReader`: a client that sends before the greeting does not speak MySQL."""
        del length, sequence
        return bool(self._session.offered) or self._session.lose("the client spoke before it was greeted")

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
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
        exchange = self._exchange
        return Packet(sequence=sequence, message=exchange, number=exchange.requests, last=self._last)

    def _command(self, length: int, buffer: bytes, at: int) -> bool:
        session, command = self._session, buffer[at]
        if command in _STATED:
            text = buffer[at + 1 : at + min(length, self.reach)]
            if command == PREPARE:
                session.last_prepared = text[:STATEMENT_BYTES]
            elif session.abilities & QUERY_ATTRIBUTES:
                text = without_attributes(text)
        else:
            text = self._prepared_text(command, buffer, at)
        self._exchange = exchange = CommandExchange(command=command, text=text[:STATEMENT_BYTES], requests=1)
        self._last = True
        if command == QUERY or command in EXECUTES:
            session.sends(exchange, text)
        elif command in _FORGETS:
            session.changed.clear()
        elif command == SET_OPTION:
            self._may_send_several(is_on=not buffer[at + 1])
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
        if length >= _TLS_REQUEST_BYTES:  # MariaDB's own capabilities are in the last four reserved bytes
            wanted |= int.from_bytes(buffer[at + 28 : at + 32], "little") << 32
        session.abilities = wanted & session.offered
        self._may_send_several(is_on=session.may_send_several)
        if length == _TLS_REQUEST_BYTES and wanted & TLS:
            session.lose("the client asked for TLS")
        elif not wanted & PROTOCOL_41:
            session.lose("the client speaks the protocol of before MySQL 4.1")

    def _may_send_several(self, *, is_on: bool) -> None:
        """The last of several statements may be its COMMIT, so more of a query is examined."""
        session = self._session
        session.abilities = session.abilities & ~MULTI_STATEMENTS | (MULTI_STATEMENTS if is_on else 0)
        self.reach = SEVERAL_BYTES if is_on else STATEMENT_BYTES


_OK: Final = 0x00
_EOF: Final = 0xFE
_ERROR: Final = 0xFF
_LOCAL_INFILE: Final = 0xFB
_DEADLOCK: Final = (1213).to_bytes(2, "little")
"""The server has rolled the transaction back."""
_OLD_EOF_BYTES: Final = 9
"""An EOF packet is shorter than this; a row may begin with the same byte."""
_MORE_RESULTS: Final = 0x0008
_CURSOR: Final = 0x0040
_PROTOCOL: Final = 10
_NO_GREETING: Final = "the server's first packet is no greeting of MySQL's protocol 10"
_FIELD_LIST: Final = 0x04
_STATISTICS: Final = 0x09
_PROCESS_INFO: Final = 0x0A
_FETCH: Final = 0x1C
RESULT_SETS: Final = frozenset({QUERY, _PROCESS_INFO, *EXECUTES})

Step = Callable[[int, bytes, int], bool]
"""Parses one packet of a reply (length, buffer, start of its payload); True if the reply ends with it."""


class ReplyReader:
    """Parses the packets of the server; a `PacketReader`."""

    __slots__ = ("_exchange", "_last", "_left", "_session", "_step", "reach")

    def __init__(self, session: SessionMemory) -> None:
        self.reach = 512
        """The greeting is the longest packet that must be complete to be parsed; a longer one is not understood."""
        self._session = session
        self._exchange = session.open[0]
        self._step: Step | None = self._greeting
        self._left = 0
        """Column or parameter definitions still to come."""
        self._last = False

    def quick(self, chunk: bytes) -> bool:
        """See `PacketReader`: the complete result of the only open statement."""
        waiting = self._session.open
        if len(waiting) != 1 or self._step is not None or waiting[0].command != QUERY:
            return False
        if not is_whole_result(chunk, eof_is_old=not self._session.abilities & DEPRECATE_EOF):
            return False
        self._exchange, self._last = waiting.popleft(), True
        self._session.has_changed(self._exchange)  # INSERT ... RETURNING
        return True

    def plausible(self, length: int, sequence: int) -> bool:
        """See `PacketReader`: the first packet must be a greeting, which is short."""
        greeted = self._step != self._greeting
        return greeted or (sequence == 0 and length < self.reach) or self._session.lose(_NO_GREETING)

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
        session = self._session
        before = session.answered_by_us() if self._step is None else ()
        if not session.open:
            if not length or buffer[at] != _ERROR:
                return session.lose(
                    f"the server sent {length} bytes, number {sequence}, that nobody asked for"
                )
            self._exchange = CommandExchange(command=UNASKED, replies=1, before=before)
            self._last = True
            return True
        exchange = self._exchange = session.open[0]
        exchange.before += before
        exchange.replies += 1
        step = self._step or self._first_step(exchange.command)
        self._step = step
        try:
            self._last = ended = step(length, buffer, at)
        except IndexError:
            return session.lose(f"a reply's packet of {length} bytes is shorter than what it says")
        if ended:
            session.open.popleft()
            self._step = None
        return not session.why_lost

    def packet(self, sequence: int) -> Packet:
        exchange = self._exchange
        return Packet(sequence=sequence, message=exchange, number=exchange.replies, last=self._last)

    def _first_step(self, command: int) -> Step:
        if command in RESULT_SETS:
            return self._result
        if command == PREPARE:
            return self._prepared
        if command == CHANGE_USER:
            return self._login
        return self._rows if command in {_FIELD_LIST, _FETCH} else self._single

    def _can(self, ability: int) -> bool:
        return bool(self._session.abilities & ability)

    def _greeting(self, length: int, buffer: bytes, at: int) -> bool:
        if length and buffer[at] == _ERROR:
            return True
        name_end = buffer.find(b"\0", at, at + length)
        if not length or buffer[at] != _PROTOCOL or name_end < 0 or name_end + 32 > at + length:
            self._session.lose(_NO_GREETING)
            return True
        self.reach = 32
        self._session.number = int.from_bytes(buffer[name_end + 1 : name_end + 5], "little")
        low = name_end + 14  # after the connection id (4 bytes), 8 bytes of salt and a filler
        offered = int.from_bytes(buffer[low : low + 2], "little")
        offered |= int.from_bytes(buffer[low + 5 : low + 7], "little") << 16
        offered |= int.from_bytes(buffer[low + 14 : low + 18], "little") << 32
        self._session.offered = offered
        self._step = self._login
        return False

    def _login(self, length: int, buffer: bytes, at: int) -> bool:
        """A packet that is neither OK nor an error continues the authentication."""
        if not length or buffer[at] not in {_OK, _ERROR}:
            return False
        if buffer[at] == _OK:
            self._session.status = self._status(buffer, at)
        if buffer[at] == _OK and self._exchange.command == HANDSHAKE:
            if self._can(COMPRESS | ZSTD):
                self._session.lose("client and server agreed on compression")
            elif self._can(OPTIONAL_METADATA):
                self._session.lose("client and server agreed that results may come without their columns")
        return True

    def _single(self, length: int, buffer: bytes, at: int) -> bool:
        del length, buffer, at
        return True

    def _result(self, length: int, buffer: bytes, at: int) -> bool:
        first = buffer[at] if length else _OK
        if first == _OK:
            status = self._session.status = self._status(buffer, at)
            has_rows = length > 1 and counted(buffer, at + 1)[0] > 0
            if has_rows or UNTOLD in self._exchange.tables:
                self._session.has_changed(self._exchange)
            if not status & _IN_TRANSACTION:
                self._session.changed.clear()
            return not status & _MORE_RESULTS
        if first == _ERROR:
            return self._error(buffer, at)
        if first == _LOCAL_INFILE:
            self._session.infile = self._exchange
            return False
        columns, end = counted(buffer, at)
        left_out = self._can(CACHED_METADATA) and end < at + length and not buffer[end]
        self._left = self._definitions(1) - 1 if left_out else self._definitions(columns)
        self._step = self._columns if self._left else self._rows
        return False

    def _definitions(self, count: int) -> int:
        """Packets of `count` definitions, with the EOF after them where the protocol has one."""
        return count + (0 if self._can(DEPRECATE_EOF) or not count else 1)

    def _columns(self, length: int, buffer: bytes, at: int) -> bool:
        if length and buffer[at] == _ERROR:
            return True
        self._left -= 1
        if self._left:
            return False
        self._step = self._rows
        ends_with_eof = length < _OLD_EOF_BYTES and buffer[at] == _EOF
        return ends_with_eof and bool(self._status(buffer, at) & _CURSOR)

    def _rows(self, length: int, buffer: bytes, at: int) -> bool:
        first = buffer[at] if length else _OK
        if first < _EOF:
            return False
        if first == _ERROR:
            return self._error(buffer, at)
        longest = LONGEST_FRAME if self._can(DEPRECATE_EOF) else _OLD_EOF_BYTES
        if length >= longest:
            return False
        self._session.has_changed(self._exchange)
        more = bool(self._status(buffer, at) & _MORE_RESULTS)
        if more:
            self._step = self._result
        return not more

    def _error(self, buffer: bytes, at: int) -> bool:
        """MariaDB reports progress as an error packet with code 0xFFFF; that does not end the reply."""
        if buffer[at + 1 : at + 3] == _DEADLOCK:
            self._session.changed.clear()
        progress = buffer[at + 1 : at + 3] == b"\xff\xff" and self._can(MARIADB_PROGRESS)
        return not progress

    def _prepared(self, length: int, buffer: bytes, at: int) -> bool:
        if not length or buffer[at] != _OK:
            return True
        self._session.prepared(int.from_bytes(buffer[at + 1 : at + 5], "little"), self._exchange.text)
        columns = int.from_bytes(buffer[at + 5 : at + 7], "little")
        parameters = int.from_bytes(buffer[at + 7 : at + 9], "little")
        self._left = self._definitions(parameters) + self._definitions(columns)
        self._step = self._described
        return not self._left

    def _described(self, length: int, buffer: bytes, at: int) -> bool:
        del length, buffer, at
        self._left -= 1
        return not self._left

    def _status(self, buffer: bytes, at: int) -> int:
        """The server's status flags in an OK packet or an old EOF packet."""
        if buffer[at] == _EOF and not self._can(DEPRECATE_EOF):
            return int.from_bytes(buffer[at + 3 : at + 5], "little")
        try:
            _, at = counted(buffer, at + 1)
            _, at = counted(buffer, at)
        except IndexError:
            return 0
        return int.from_bytes(buffer[at : at + 2], "little")


def reply_word(payload: bytes) -> str:
    """The kind of a reply by its first packet: `ok`, `error`, or `result` for anything else."""
    first = payload[0] if payload else _OK
    return {_OK: "ok", _ERROR: "error"}.get(first, "result")


class Dialogue:
    """Both directions' trackers; feed them in the order in which the bytes came."""

    __slots__ = ("replies", "requests", "session")

    def __init__(self) -> None:
        self.session = SessionMemory()
        self.requests = FrameTracker(RequestReader(self.session))
        self.replies = FrameTracker(ReplyReader(self.session))

    def lose(self) -> None:
        """Stop parsing both directions."""
        self.requests.lost = self.replies.lost = True
