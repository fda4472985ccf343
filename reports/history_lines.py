"""The lines of a history file, streamed: header first, then events, in the text form of `docs/history.md`.

Invariant: one line is held at a time. A torn last line is dropped and said; any other line that does not
parse ends the reading, and that is said too: a report shows what can be read and never guesses.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

__all__ = ["HistoryLines"]


class HistoryLines:
    """Iterates over the events of a file; `header` and `problems` fill up on the way (mutable)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The events, in order; none where the file cannot be read."""
        try:
            with _opened(self.path) as lines:
                yield from self._events(lines)
        except (OSError, EOFError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.problems.append(f"the history file {self.path.name} could not be read: {reason}")

    def _events(self, lines: IO[bytes]) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(lines, start=1):
            value = _parsed(line)
            if value is None:
                self.problems.append(_complaint(number, whole=line.endswith(b"\n")))
                return
            if number == 1:
                self.header = value
            elif _is_event(value):
                yield value
            else:
                self.problems.append(f"line {number} of the history is no event; what follows is not shown")
                return


def _opened(path: Path) -> IO[bytes]:
    match path.suffix:
        case ".gz":
            return io.BufferedReader(gzip.open(path, "rb"))
        case ".zst":
            import zstandard  # noqa: PLC0415  only histories in this form need it

            return io.BufferedReader(zstandard.open(path, "rb"))
        case _:
            return path.open("rb")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_event(value: dict[str, Any]) -> bool:
    numbers = (value.get("n"), value.get("t"))
    return all(isinstance(n, int) and not isinstance(n, bool) for n in numbers) and "k" in value


def _complaint(number: int, *, whole: bool) -> str:
    if whole:
        return f"line {number} of the history does not parse; what follows is not shown"
    return f"the last line of the history (line {number}) was cut off and is left out"
