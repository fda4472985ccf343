"""What a client asks for: the commands of MySQL's protocol by their first byte, statements by their text.

Invariant: a statement is known by what the server would execute: blanks and comments before it do not count, case and
the width of blanks neither; a prepared one is known by the text it was prepared with.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

__all__ = [
    "ANSWERLESS",
    "CHANGE_USER",
    "CLOSE_STATEMENT",
    "EXECUTES",
    "HANDSHAKE",
    "PREPARE",
    "QUERY",
    "QUIT",
    "STATEMENT_BYTES",
    "UNASKED",
    "WORDS",
    "Exchange",
    "Kind",
    "plain",
]

HANDSHAKE: Final = -1
"""Not a command: the greeting and the login."""
UNASKED: Final = -2
"""Not a command: what the server says without being asked, before it hangs up."""
QUIT: Final = 0x01
QUERY: Final = 0x03
PING: Final = 0x0E
CHANGE_USER: Final = 0x11
PREPARE: Final = 0x16
EXECUTE: Final = 0x17
SEND_LONG_DATA: Final = 0x18
CLOSE_STATEMENT: Final = 0x19
BULK_EXECUTE: Final = 0xFA
"""MariaDB's: one statement, many rows."""
EXECUTES: Final = frozenset({EXECUTE, BULK_EXECUTE})
ANSWERLESS: Final = frozenset({QUIT, SEND_LONG_DATA, CLOSE_STATEMENT})
"""Commands that no reply belongs to."""

STATEMENT_BYTES: Final = 4096
"""So much of a statement is looked at, comments before it included."""


class Kind(StrEnum):
    """What a rule may ask for; one message can be of several kinds (a COMMIT is a query too)."""

    ANY = "any"
    HANDSHAKE = "handshake"
    QUERY = "query"
    PREPARE = "prepare"
    EXECUTE = "execute"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    PING = "ping"
    QUIT = "quit"
    OTHER = "other"


_KINDS: Final = {
    HANDSHAKE: Kind.HANDSHAKE,
    QUERY: Kind.QUERY,
    PREPARE: Kind.PREPARE,
    EXECUTE: Kind.EXECUTE,
    BULK_EXECUTE: Kind.EXECUTE,
    PING: Kind.PING,
    QUIT: Kind.QUIT,
}
_SKIPPED: Final = re.compile(
    rb"(?:\s+|#[^\n]*(?:\n|\Z)|--(?=\s)[^\n]*(?:\n|\Z)|/\*(?!!|M!).*?(?:\*/|\Z))+", re.DOTALL
)
"""Blanks and comments: `#`, `-- `, and those of C, but not `/*! ... */`, whose inside is executed."""
_EXECUTED_COMMENT: Final = re.compile(rb"/\*M?!\d*")
_BLANKS: Final = re.compile(r"\s+")
_COMMIT: Final = re.compile(r"(xa )?commit\b")
_ROLLBACK: Final = re.compile(r"(xa rollback\b|rollback\b(?!( work)? to\b))")
"""`ROLLBACK TO` ends no transaction."""
_WORD: Final = re.compile(r"[a-z_]+")

WORDS: Final = frozenset(kind.value for kind in Kind)


class Exchange(msgspec.Struct, kw_only=True, eq=False):
    """One request and its reply, put together from packets; it changes while they pass, and no two are equal.

    `answer`: an error of ours for the client, because the request never reached the server (`b""`: none).
    `replaced`: an error of ours that takes the reply's place, because another request was sent instead.
    """

    command: int
    text: bytes = b""
    """The statement's first bytes, as they were sent."""
    requests: int = 0
    """Packets of the request so far."""
    replies: int = 0
    """Packets of the reply so far."""
    answer: bytes = b""
    replaced: bytes = b""
    then: str = ""
    """What becomes of the connection after such an error: see `rules.Then`."""

    def statement(self) -> str:
        """The statement in plain form; empty if this is no statement."""
        return plain(self.text)

    def kinds(self) -> tuple[Kind, ...]:
        """What it is, the most telling first."""
        named = _KINDS.get(self.command, Kind.OTHER)
        if named in {Kind.QUERY, Kind.EXECUTE}:
            statement = self.statement()
            if _COMMIT.match(statement):
                return (Kind.COMMIT, named)
            if _ROLLBACK.match(statement):
                return (Kind.ROLLBACK, named)
        return (named,)

    def first_word(self) -> str:
        """All of a statement that may be written down: it could hold a password."""
        word = _WORD.match(self.statement())
        return word[0] if word else ""


def plain(text: bytes) -> str:
    """A statement without the blanks and comments before it, in small letters, its blanks single."""
    at = 0
    while at < len(text):
        found = _SKIPPED.match(text, at) or _EXECUTED_COMMENT.match(text, at)
        if found is None:
            break
        at = found.end()
    return _BLANKS.sub(" ", text[at:].decode("utf-8", errors="replace").lower())
