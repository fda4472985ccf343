"""Errors that no server sent: their packets as a server writes them, marked as ours in the message.

Invariant: whoever reads a log finds the word `synthetic` in every one of them; no test takes one for a server's.
"""

from __future__ import annotations

from typing import Final

from harness.proxy.mysql.frames import framed

__all__ = ["ENDING", "ERRORS", "ROLLS_BACK", "error_packet", "rollback_packet"]

ERRORS: Final = {
    1040: ("08004", "Too many connections"),
    1053: ("08S01", "Server shutdown in progress"),
    1205: ("HY000", "Lock wait timeout exceeded; try restarting transaction"),
    1213: ("40001", "Deadlock found when trying to get lock; try restarting transaction"),
    1290: (
        "HY000",
        "The MySQL server is running with the --read-only option so it cannot execute this statement",
    ),
}
"""By number: the SQL state and the server's sentence."""
ENDING: Final = frozenset({1040, 1053})
"""After these a server hangs up."""
ROLLS_BACK: Final = frozenset({1213})
"""The server rolls the whole transaction back before it says this."""


def error_packet(code: int, *, sequence: int, greeted: bool = True) -> bytes:
    """The packet; before the greeting it has no SQL state, for nobody knows yet what the client can read."""
    state, sentence = ERRORS[code]
    marked = f"{sentence} (synthetic, floodmark)"
    payload = b"\xff" + code.to_bytes(2, "little")
    payload += f"#{state}{marked}".encode() if greeted else marked.encode()
    return framed(payload, sequence=sequence)


def rollback_packet() -> bytes:
    """The statement that undoes the server's transaction."""
    return framed(b"\x03ROLLBACK", sequence=0)
