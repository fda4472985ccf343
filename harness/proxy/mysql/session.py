"""What both directions of one MySQL connection must know of each other: abilities, open requests, prepared texts.

Invariant: requests are answered in the order in which they came; `open` holds those whose reply has not ended.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from harness.proxy.mysql.commands import HANDSHAKE, Exchange

__all__ = [
    "CACHED_METADATA",
    "COMPRESS",
    "DEPRECATE_EOF",
    "MARIADB_PROGRESS",
    "OPTIONAL_METADATA",
    "PROTOCOL_41",
    "QUERY_ATTRIBUTES",
    "TLS",
    "ZSTD",
    "Session",
]

COMPRESS: Final = 1 << 5
PROTOCOL_41: Final = 1 << 9
TLS: Final = 1 << 11
DEPRECATE_EOF: Final = 1 << 24
OPTIONAL_METADATA: Final = 1 << 25
ZSTD: Final = 1 << 26
QUERY_ATTRIBUTES: Final = 1 << 27
MARIADB_PROGRESS: Final = 1 << 32
"""MariaDB's own abilities stand above the 32 bits of MySQL's."""
CACHED_METADATA: Final = 1 << 36
"""MariaDB leaves out the columns of a prepared statement's result if the client knows them."""

PREPARED_MAX: Final = 16_384
"""Prepared statements whose text is remembered, a little more than a server allows by default."""
PREPARED_TEXT_BYTES: Final = 512
_LAST_ONE: Final = 0xFFFFFFFF


class Session:
    """One connection's memory; it changes with every packet."""

    __slots__ = ("_prepared", "abilities", "infile", "last_prepared", "offered", "open", "why_lost")

    def __init__(self) -> None:
        self.open: deque[Exchange] = deque([Exchange(command=HANDSHAKE)])
        self.offered = 0
        """What the server can."""
        self.abilities = 0
        """What both can."""
        self.infile: Exchange | None = None
        """The statement whose file the client is sending."""
        self.last_prepared = b""
        self.why_lost = ""
        """Why this connection's packets are not understood (any more)."""
        self._prepared: dict[int, bytes] = {}

    def lose(self, why: str) -> bool:
        """Understand nothing any more; always False, which is what a reader answers then."""
        self.why_lost = self.why_lost or why
        return False

    def prepared(self, statement: int, text: bytes) -> None:
        """The server gave a prepared statement its number."""
        if len(self._prepared) >= PREPARED_MAX:
            del self._prepared[next(iter(self._prepared))]
        self._prepared[statement] = text[:PREPARED_TEXT_BYTES]

    def forget(self, statement: int) -> None:
        """The client closed a prepared statement."""
        self._prepared.pop(statement, None)

    def text_of(self, statement: int) -> bytes:
        """What a statement was prepared with; all ones is MariaDB's word for the last one."""
        return self.last_prepared if statement == _LAST_ONE else self._prepared.get(statement, b"")
