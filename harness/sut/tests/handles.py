"""A handle that remembers what it was told, a function that answers at once, and a journal in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.history.notes import Acted, AttemptNote, Measured, Stops
from reference_impl.operator.result import ResultHandle, Supplier


class Told:
    """A `ResultHandle`."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    @property
    def record_key(self) -> object:
        return self

    @property
    def done(self) -> bool:
        return bool(self.told)

    def complete(self, results: Sequence[Any]) -> None:
        self.told.append(("complete", list(results)))

    def fail(self, error: BaseException) -> None:
        self.told.append(("fail", error))

    def supply(self, supplier: Supplier) -> None:
        self.told.append(("supply", supplier()))


class Answering:
    """An `AsyncFunction` that completes at once, or fails with `error`."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.asked: list[int] = []
        self.life: list[str] = []
        self._error = error

    def open(self) -> None:
        self.life.append("open")

    def close(self) -> None:
        self.life.append("close")

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self.asked.append(value.id)
        if self._error is None:
            handle.complete([f"answer {value.id}"])
        else:
            handle.fail(self._error)

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        handle.complete([f"late {value.id}"])


class Notes:
    """What an attempt would have written."""

    def __init__(self) -> None:
        self.acts: list[tuple[str, str, dict[str, Any]]] = []
        self.measures: list[tuple[str, str, dict[str, Any]]] = []
        self.errors: list[tuple[int, str, bool]] = []

    def raised(self, id: int, error: BaseException, *, by_timeout: bool = False) -> None:
        self.errors.append((id, str(error), by_timeout))

    def note(self, note: AttemptNote) -> None:
        match note:
            case Acted():
                self.acts.append((note.fault, note.what, note.facts))
            case Measured():
                self.measures.append((note.fault, note.what, note.facts))
            case Stops():
                self.acts.append((note.fault, "stop", {}))
