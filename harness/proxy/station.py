"""A station: where a toxic stands at one direction of one connection, and what it may ask for there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.choices import Choices
from harness.proxy.stage import Stream, Timer, Wire

__all__ = ["Station"]


class _Line(Wire, Protocol):
    """A connection as stations see it."""

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer: ...
    def now(self) -> float: ...
    def eased(self) -> None: ...
    def choices(self, toxic: str) -> Choices: ...
    def deed(self, did: str, *, stream: str, toxic: str, **numbers: int | str) -> None: ...


class Station:
    """A stage's `Place`; mutable only in that its choices are made when first asked for."""

    __slots__ = ("_choices", "_line", "_toxic", "eased", "later", "now", "stream", "wire")

    def __init__(self, line: _Line, *, stream: Stream, toxic: str) -> None:
        self._line = line
        self._toxic = toxic
        self._choices: Choices | None = None
        self.wire: Wire = line
        self.stream = stream
        self.now = line.now
        self.later = line.call_later
        self.eased = line.eased

    @property
    def choices(self) -> Choices:
        """Draws of this toxic on this connection."""
        if self._choices is None:
            self._choices = self._line.choices(self._toxic)
        return self._choices

    def deed(self, did: str, **numbers: int | str) -> None:
        """Write down what the toxic did here."""
        self._line.deed(did, stream=self.stream, toxic=self._toxic, **numbers)
