"""MySQL packets of a client and a server: the login, a lookup, a bulk of rows.

The proxy benchmark sends them, so that a proxy that parses packets must parse them. Invariant: every reply of a
`Traffic` is one complete result set, as a server without `DEPRECATE_EOF` frames it.
"""

from __future__ import annotations

from dataclasses import dataclass

_PROTOCOL_41, _CONNECT_WITH_DB, _SECURE, _PLUGIN = 1 << 9, 1 << 3, 1 << 15, 1 << 19
_ABILITIES = _PROTOCOL_41 | _CONNECT_WITH_DB | _SECURE | _PLUGIN
_UTF8 = 45
_ROW_BYTES = 64_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One request and its reply, to be repeated."""

    request: bytes
    reply: bytes


def _packet(sequence: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([sequence]) + payload


def _text(words: bytes) -> bytes:
    """A length-encoded string, as in rows."""
    if len(words) <= 250:  # noqa: PLR2004 -- the largest length that is one byte
        return bytes([len(words)]) + words
    return b"\xfc" + len(words).to_bytes(2, "little") + words


GREETING = _packet(
    0,
    b"\x0a8.4.0\0"
    + (7).to_bytes(4, "little")
    + b"saltsalt\0"
    + (_ABILITIES & 0xFFFF).to_bytes(2, "little")
    + bytes([_UTF8])
    + (2).to_bytes(2, "little")
    + (_ABILITIES >> 16).to_bytes(2, "little")
    + b"\x15"
    + bytes(10)
    + b"moresaltmore\0"
    + b"mysql_native_password\0",
)
"""The server's greeting."""

LOGIN = _packet(
    1,
    _ABILITIES.to_bytes(4, "little")
    + (1 << 24).to_bytes(4, "little")
    + bytes([_UTF8])
    + bytes(23)
    + b"app\0"
    + b"\x14"
    + bytes(20)
    + b"shop\0"
    + b"mysql_native_password\0",
)
"""The client's login."""

OK = _packet(2, b"\0\0\0\x02\0\0\0")
"""The server's OK after the login."""

_EOF = b"\xfe\0\0\x02\0"


def _rows(rows: list[bytes]) -> bytes:
    column = (
        _text(b"def")
        + _text(b"shop")
        + _text(b"customer")
        + _text(b"customer")
        + _text(b"name")
        + _text(b"name")
        + b"\x0c"
        + _UTF8.to_bytes(2, "little")
        + (400).to_bytes(4, "little")
        + b"\xfd\0\0\0\0\0"
    )
    payloads = [b"\x01", column, _EOF, *(_text(row) for row in rows), _EOF]
    return b"".join(_packet((number + 1) % 256, payload) for number, payload in enumerate(payloads))


def lookup() -> Traffic:
    """The lookup of one row by its key."""
    return Traffic(
        request=_packet(0, b"\x03SELECT name, city FROM customer WHERE k = 4711"),
        reply=_rows([b"Alexandra Grey, 17 Mill Lane"]),
    )


def bulk(bytes_min: int) -> Traffic:
    """A reply of at least `bytes_min` bytes."""
    row = bytes(range(32, 96)) * (_ROW_BYTES // 64)
    return Traffic(
        request=_packet(0, b"\x03SELECT name FROM customer"), reply=_rows([row] * -(-bytes_min // _ROW_BYTES))
    )
