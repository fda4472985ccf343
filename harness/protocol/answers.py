"""Cuts what a program writes into lines, and lines into answers: all up to a `quiet`.

Invariant: it holds at most one line and one answer more than its limits allow, whatever is written.
"""

from __future__ import annotations

from harness.protocol.events import Malformed, Quiet, read_event
from harness.protocol.limits import Limits

__all__ = ["AnswerLimit", "AnswerSplitter"]

QUIET = b'{"ev":"quiet"}'
QUIET_BYTES_MAX = 100
"""A `quiet` with blanks in it is one too, but a longer line is looked at by nobody here."""


class AnswerLimit(Exception):
    """More was written than a limit allows; the message says which."""


class AnswerSplitter:
    """Mutable: it is given chunks, and holds what has come."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[bytes] = []
        """Of a line without its end."""
        self._piece_bytes = 0
        self._answer: list[bytes] = []
        self._answer_bytes = 0
        self._answers: list[list[bytes]] = []
        self.last_line = b""

    @property
    def cut_off(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._pieces)

    def spoke_out_of_turn(self) -> bool:
        """Whether something stands behind the last `quiet`."""
        return bool(self._pieces or self._answer)

    def take(self, count: int) -> list[list[bytes]]:
        """The first whole answers, once."""
        taken, self._answers = self._answers[:count], self._answers[count:]
        return taken

    def split(self, chunk: bytes) -> int:
        """How many answers this chunk has completed."""
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        self._piece_bytes += len(first)
        if self._piece_bytes > self._limits.line_bytes:
            self.last_line = self._pieces[0]
            raise AnswerLimit(f"wrote more than {self._limits.line_bytes} bytes without a line feed")
        if not others:
            if not first:
                self._pieces.pop()
            return 0
        lines = [b"".join(self._pieces), *others]
        rest = lines.pop()
        self._pieces = [rest] if rest else []
        self._piece_bytes = len(rest)
        return self._gather(lines)

    def _gather(self, lines: list[bytes]) -> int:
        whole = 0
        for line in lines:
            if line == QUIET or (b'"quiet"' in line and _is_quiet(line)):
                self._answers.append(self._answer)
                self._answer = []
                self._answer_bytes = 0
                whole += 1
            else:
                self._answer.append(line)
                self._answer_bytes += len(line)
        self.last_line = lines[-1]
        self._require_bounds()
        return whole

    def _require_bounds(self) -> None:
        if len(self._answer) > self._limits.events:
            raise AnswerLimit(f"wrote more than {self._limits.events} events for one command")
        if self._answer_bytes > self._limits.answer_bytes:
            raise AnswerLimit(f"wrote more than {self._limits.answer_bytes} bytes for one command")


def _is_quiet(line: bytes) -> bool:
    if len(line) > QUIET_BYTES_MAX:
        return False
    try:
        return type(read_event(line)) is Quiet
    except Malformed:
        return False
