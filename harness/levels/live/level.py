"""Level `live`: each subtask is a plain Python process, in a real world."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from harness.engine.in_world import record_in_world
from harness.engine.level import Opening, Play
from harness.levels.live.supervisor import LiveRunner
from harness.runs.order import Order

__all__ = ["LiveLevel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLevel:
    """A `Level`."""

    name: ClassVar[str] = "live"
    needs_world: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False

    def refuse(self, order: Order) -> None:
        """Whatever its scenario lists can be run."""

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        """Processes that the ledger knows."""
        yield partial(record_in_world, runner=LiveRunner(note_process=opening.note_process))
