"""MySQL's commands by their first byte, and statements by their text.

Invariant: a statement is classified by what the server would execute: leading blanks and comments, case and the width
of blanks do not count; an executed prepared statement is classified by the text that was prepared; each of several
statements in one query is classified by itself. Which tables a statement changes is told from its text alone: what a
trigger, a view or a cascade changes beside them is not seen.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from typing import Final

import msgspec

HANDSHAKE: Final = -1
"""The server's greeting and the client's login; not a command of the protocol."""
UNASKED: Final = -2
"""What the server sends without a request before it hangs up; not a command of the protocol."""
QUIT: Final = 0x01
QUERY: Final = 0x03
PING: Final = 0x0E
CHANGE_USER: Final = 0x11
PREPARE: Final = 0x16
SET_OPTION: Final = 0x1B
EXECUTE: Final = 0x17
SEND_LONG_DATA: Final = 0x18
CLOSE_STATEMENT: Final = 0x19
BULK_EXECUTE: Final = 0xFA
"""MariaDB only: one statement with many rows."""
EXECUTES: Final = frozenset({EXECUTE, BULK_EXECUTE})
ANSWERLESS: Final = frozenset({QUIT, SEND_LONG_DATA, CLOSE_STATEMENT})
"""Commands that the server does not reply to."""

STATEMENT_BYTES: Final = 4096
"""How many bytes of a statement are examined, leading comments included."""
SEVERAL_BYTES: Final = 1 << 20
"""How many bytes of a query are examined where it may hold several statements."""


class MessageKind(StrEnum):
    """The kinds that a packet rule can name; a message can have several (a COMMIT is a query too)."""

    ANY = "any"
    HANDSHAKE = "handshake"
    QUERY = "query"
    PREPARE = "prepare"
    EXECUTE = "execute"
    COMMIT = "commit"
    """COMMIT, or a write outside of a transaction, which the server commits by itself (autocommit)."""
    ROLLBACK = "rollback"
    WRITE = "write"
    """A statement that may change rows."""
    PING = "ping"
    QUIT = "quit"
    OTHER = "other"


_KINDS: Final = {
    HANDSHAKE: MessageKind.HANDSHAKE,
    QUERY: MessageKind.QUERY,
    PREPARE: MessageKind.PREPARE,
    EXECUTE: MessageKind.EXECUTE,
    BULK_EXECUTE: MessageKind.EXECUTE,
    PING: MessageKind.PING,
    QUIT: MessageKind.QUIT,
}
_SKIPPED: Final = re.compile(
    rb"(?:\s+|#[^\n]*(?:\n|\Z)|--(?=\s)[^\n]*(?:\n|\Z)|/\*(?!!|M!).*?(?:\*/|\Z))+", re.DOTALL
)
"""Blanks and comments (`#`, `-- ` and C style), but not `/*! ... */`, whose content MySQL executes."""
_EXECUTED_COMMENT: Final = re.compile(rb"/\*M?!\d*")
_BLANKS: Final = re.compile(r"\s+")
_COMMIT: Final = re.compile(r"(xa )?commit\b")
_ROLLBACK: Final = re.compile(r"(xa rollback\b|rollback\b(?!( work)? to\b))")
"""`ROLLBACK TO` does not end the transaction."""
_WRITE: Final = re.compile(r"(insert|update|delete|replace|load|call|merge|truncate)\b")
_WORD: Final = re.compile(r"[a-z_]+")
_TABLE: Final = re.compile(
    r"(?:(?:insert|replace|delete|load|select)\b.*?\b(?:into table|into|from)\b"
    r"|truncate(?: table)?\b|update\b(?: (?:low_priority|ignore))*)\s*([`\w.]+)"
)
"""The first table that a statement names, whatever its name may mean: it is for readers of a log."""
_NAME_MAX: Final = 64
_NAME: Final = r"(?:`[^`]+`|\"[^\"]+\"|[\w$]+)"
_CHANGED: Final = re.compile(
    r"(?:insert(?: (?:low_priority|delayed|high_priority|ignore))*(?: into)?"
    r"|replace(?: (?:low_priority|delayed))*(?: into)?|load\b.*? into table|truncate(?: table)?"
    r"|delete(?: (?:low_priority|quick|ignore|history))* from|update(?: (?:low_priority|ignore))*)"
    rf" ?((?>{_NAME}(?: ?\. ?{_NAME})?))(.*)"
)
"""A statement that changes one table, and what stands behind the table's name."""
_ONE_TABLE: Final = {
    "update": re.compile(rf"(?: (?:as )?(?!set\b){_NAME})? ?set\b"),
    "delete": re.compile(r"(?! ?[.,])(?!.* using\b)"),
}
"""What stands there if an UPDATE or DELETE names no second table."""
_HIDDEN_WRITE: Final = re.compile(
    r"with\b.*\b(?:insert|update|delete|replace)\b|execute\b|begin not atomic\b"
)
_INNER_COMMENT: Final = re.compile(r" ?/\*.*?\*/ ?")
_STATEMENTS: Final = re.compile(
    rb"""(?:[^;'"`/#-]++|'(?:[^'\\]++|\\.)*+(?:'|\Z)|"(?:[^"\\]++|\\.)*+(?:"|\Z)|`[^`]*+(?:`|\Z)"""
    rb"""|/\*.*?(?:\*/|\Z)|(?:\#|--(?=\s))[^\n]*+|[/#-])++""",
    re.DOTALL,
)
_HAS_BODY: Final = re.compile(
    r"(?:create(?: or replace)?|alter)(?: definer ?= ?\S+)?(?: aggregate)?"
    r" (?:procedure|function|trigger|event|package)\b"
    r"|begin not atomic\b|(?:if|while|loop|repeat|for|case)\b"
)
"""A statement whose own statements end with semicolons, too."""
UNTOLD: Final = "?"
"""Stands for the tables that a statement changes and does not name: of a procedure, or of several tables at once."""

WORDS: Final = frozenset(kind.value for kind in MessageKind)


class CommandExchange(msgspec.Struct, kw_only=True, eq=False):
    """One request and its reply, assembled from packets. Mutable; compared by identity.

    `answer`: our error for the client, because the request never reached the server (`b""`: none). `replaced`: our
    error in place of the server's reply, because we sent the server another request instead. `before`: requests with
    an `answer` that the client sent before this one; their errors precede its reply. `in_autocommit`: the server
    commits it by itself. `tables`: those that it changes, or of a COMMIT those that its transaction has changed.
    `parts`: its statements, each as a request, if it has several. `leaves`: the tables whose changes by it are not
    committed when the server has carried it out.
    """

    command: int
    text: bytes = b""
    """The statement's first bytes as sent."""
    requests: int = 0
    replies: int = 0
    answer: bytes = b""
    replaced: bytes = b""
    before: tuple[CommandExchange, ...] = ()
    in_autocommit: bool = False
    tables: tuple[str, ...] = ()
    parts: tuple[CommandExchange, ...] = ()
    leaves: tuple[str, ...] = ()

    def statement(self) -> str:
        """The normalised statement; empty if the command has none."""
        return plain(self.text)

    def kinds(self) -> tuple[MessageKind, ...]:
        """Its kinds, the most specific first."""
        named = _KINDS.get(self.command, MessageKind.OTHER)
        if self.parts:
            return tuple(dict.fromkeys((named, *(kind for part in self.parts for kind in part.kinds()))))
        if named in {MessageKind.QUERY, MessageKind.EXECUTE}:
            statement = self.statement()
            if _COMMIT.match(statement):
                return (MessageKind.COMMIT, named)
            if _ROLLBACK.match(statement):
                return (MessageKind.ROLLBACK, named)
            if _WRITE.match(statement):
                own = (MessageKind.COMMIT,) if self.in_autocommit else ()
                return (named, MessageKind.WRITE, *own)
        return (named,)

    def first_word(self) -> str:
        """The statement's first word, the only part that is logged, since the rest could hold a password.

        Of several statements, that of each; of those alike in a row once.
        """
        if self.parts:
            return "; ".join(word for word, _ in groupby(part.first_word() for part in self.parts))[
                :_NAME_MAX
            ]
        word = _WORD.match(self.statement())
        return word[0] if word else ""

    def table(self) -> str:
        """The table that a statement about rows names first, without quotes; empty: it names none."""
        if self.parts:
            return next((part.table() for part in self.parts if part.tables), "")
        named = _TABLE.match(self.statement())
        return named[1].replace("`", "")[:_NAME_MAX] if named else ""

    def changes(self, table: str) -> bool:
        """Whether it may change rows of `table`, or commit such a change; `*`: of any table."""
        if table == "*":
            return bool(self.tables)
        return any(name in {table, UNTOLD} or name.endswith(f".{table}") for name in self.tables)


def statements_of(text: bytes) -> list[bytes]:
    """The statements of a query. What follows the beginning of a routine's body is part of it."""
    found = [(one, plain(one[:STATEMENT_BYTES])) for one in _STATEMENTS.findall(text)]
    found = [(one, start) for one, start in found if start]
    for place, (_, start) in enumerate(found):
        if _HAS_BODY.match(start):
            return [one for one, _ in found[:place]] + [b";".join(one for one, _ in found[place:])]
    return [one for one, _ in found]


def changed_tables(text: bytes) -> tuple[str, ...]:
    """The tables whose rows these statements may change, as they are written, without quotes and in lower case."""
    found = map(_changed_table, _STATEMENTS.findall(text) if b";" in text else [text])
    return tuple(dict.fromkeys(name for name in found if name))


def _changed_table(text: bytes) -> str:
    statement = plain(text)
    if "/*" in statement:
        statement = _INNER_COMMENT.sub(" ", statement)
    if not _WRITE.match(statement):
        return UNTOLD if _HIDDEN_WRITE.match(statement) else ""
    named = _CHANGED.match(statement)
    only = _ONE_TABLE.get(statement[:6])
    if named is None or (only is not None and not only.match(named[2])):
        return UNTOLD
    return re.sub(r"[`\"]| ?(\.) ?", r"\1", named[1])


@lru_cache(maxsize=1024)
def plain(text: bytes) -> str:
    """A statement without leading blanks and comments, in lower case, with single blanks."""
    at = 0
    while at < len(text):
        found = _SKIPPED.match(text, at) or _EXECUTED_COMMENT.match(text, at)
        if found is None:
            break
        at = found.end()
    return _BLANKS.sub(" ", text[at:].decode("utf-8", errors="replace").lower())
