"""The server's packets: which belong to one reply, and which of them ends it.

Answers to `cli_read_query_result` and its kin in MySQL's clients. Invariant: a reply ends with the packet after which a
client would send its next command; whatever this cannot follow loses the connection instead of being guessed at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.proxy.mysql.commands import CHANGE_USER, EXECUTES, HANDSHAKE, PREPARE, QUERY, UNASKED, Exchange
from harness.proxy.mysql.frames import LONGEST_FRAME, Packet
from harness.proxy.mysql.query_attributes import counted
from harness.proxy.mysql.session import (
    CACHED_METADATA,
    COMPRESS,
    DEPRECATE_EOF,
    MARIADB_PROGRESS,
    OPTIONAL_METADATA,
    ZSTD,
    Session,
)
from harness.proxy.mysql.whole_result import is_whole_result

__all__ = ["RESULT_SETS", "ReplyReader", "reply_word"]

_OK: Final = 0x00
_EOF: Final = 0xFE
_ERROR: Final = 0xFF
_LOCAL_INFILE: Final = 0xFB
_OLD_EOF_BYTES: Final = 9
"""An EOF packet is shorter; a row may begin with the same byte."""
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
"""Takes one packet of a reply (length, buffer, where its payload begins); True if the reply ends with it."""


class ReplyReader:
    """Reads what flows downstream."""

    __slots__ = ("_exchange", "_last", "_left", "_session", "_step", "reach")

    def __init__(self, session: Session) -> None:
        self.reach = 512
        """The greeting is the longest that must be seen whole; it gives up on one that is longer."""
        self._session = session
        self._exchange = session.open[0]
        self._step: Step | None = self._greeting
        self._left = 0
        """Definitions that come before the rows."""
        self._last = False

    def quick(self, chunk: bytes) -> bool:
        """See `PacketReader`: the whole result of the one statement that waits for it."""
        waiting = self._session.open
        if len(waiting) != 1 or self._step is not None or waiting[0].command != QUERY:
            return False
        if not is_whole_result(chunk, eof_is_old=not self._session.abilities & DEPRECATE_EOF):
            return False
        self._exchange, self._last = waiting.popleft(), True
        return True

    def plausible(self, length: int, sequence: int) -> bool:
        """See `PacketReader`: a greeting is short, and the first of all."""
        greeted = self._step != self._greeting
        return greeted or (sequence == 0 and length < self.reach) or self._session.lose(_NO_GREETING)

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
        """See `PacketReader`."""
        session = self._session
        if not session.open:
            if not length or buffer[at] != _ERROR:
                return session.lose(
                    f"the server sent {length} bytes, number {sequence}, that nobody asked for"
                )
            self._exchange = Exchange(command=UNASKED, replies=1)
            self._last = True
            return True
        exchange = self._exchange = session.open[0]
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
        """See `PacketReader`."""
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
        low = name_end + 14  # behind the connection's number (4), 8 bytes of salt, and a filler
        offered = int.from_bytes(buffer[low : low + 2], "little")
        offered |= int.from_bytes(buffer[low + 5 : low + 7], "little") << 16
        offered |= int.from_bytes(buffer[low + 14 : low + 18], "little") << 32
        self._session.offered = offered
        self._step = self._login
        return False

    def _login(self, length: int, buffer: bytes, at: int) -> bool:
        """All but OK and an error asks the client for more, or tells it that more comes."""
        if not length or buffer[at] not in {_OK, _ERROR}:
            return False
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
            return not self._status(buffer, at) & _MORE_RESULTS
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
        """So many, and the EOF behind them where there is one."""
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
        more = bool(self._status(buffer, at) & _MORE_RESULTS)
        if more:
            self._step = self._result
        return not more

    def _error(self, buffer: bytes, at: int) -> bool:
        """MariaDB tells of its progress by errors of a number that no error has."""
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
        """The server's status, as an OK packet or an old EOF packet tells it."""
        if buffer[at] == _EOF and not self._can(DEPRECATE_EOF):
            return int.from_bytes(buffer[at + 3 : at + 5], "little")
        try:
            _, at = counted(buffer, at + 1)
            _, at = counted(buffer, at)
        except IndexError:
            return 0
        return int.from_bytes(buffer[at : at + 2], "little")


def reply_word(payload: bytes) -> str:
    """What a reply's first packet says: `ok`, `error`, or that a `result` (a greeting, a file's name) follows."""
    first = payload[0] if payload else _OK
    return {_OK: "ok", _ERROR: "error"}.get(first, "result")
