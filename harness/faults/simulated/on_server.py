"""Faults of the simulated server, with the errors that the run's clients got as evidence.

Invariant: only errors that clients of the run got since the fault began count as evidence; the act itself does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.database.simulated.hub import Due
    from harness.database.simulated.server import SimulatedServer
    from harness.faults.simulated.act import Evidence, SimulatedRun


def nothing(server: SimulatedServer) -> None:
    """The default for `puts_back`: there is nothing to undo."""
    del server


class OnServer:
    """Changes the server by `sets` while it is active, and undoes that by `puts_back`. Mutable.

    `codes`: the errors that clients get from it. `settles_ms`: how long after its end clients may still get them.
    """

    def __init__(
        self,
        run: SimulatedRun,
        *,
        codes: Iterable[int | str],
        sets: Callable[[SimulatedServer], None],
        puts_back: Callable[[SimulatedServer], None] = nothing,
        settles_ms: int = 0,
    ) -> None:
        self.settles_ms = settles_ms
        self.run = run
        self.server = run.server
        self._codes = tuple(codes)
        self._sets = sets
        self._puts_back = puts_back
        self._before: Counter[int | str] = run.errors

    def begins(self) -> None:
        self._before = self.run.errors
        self._sets(self.server)

    def ends(self) -> None:
        self._puts_back(self.server)

    def met(self) -> dict[str, int]:
        """How many of the errors clients got since it began, by code."""
        now = self.run.errors
        counts = {code: now[code] - self._before[code] for code in self._codes}
        return {str(code): count for code, count in counts.items() if count}

    def evidence(self) -> Evidence:
        met = self.met()
        return {"codes": met} if met else {}


class Hunt(OnServer):
    """Calls `kill_one` every `gap_ms`, until it succeeded `count` times (None: no limit). Mutable: counts."""

    def __init__(
        self,
        run: SimulatedRun,
        *,
        codes: Iterable[int | str],
        kill_one: Callable[[SimulatedServer], bool],
        gap_ms: int,
        count: int | None,
        settles_ms: int = 0,
    ) -> None:
        super().__init__(run, codes=codes, sets=lambda _: self._once(), settles_ms=settles_ms)
        self._kill_one = kill_one
        self._gap_ms = gap_ms
        self._count = count
        self._next: Due | None = None
        self.hits = 0

    def _once(self) -> None:
        if self._count is None or self.hits < self._count:
            self.hits += self._kill_one(self.server)
        hub = self.run.hub
        self._next = hub.at(hub.now_ms + self._gap_ms, self._once)

    def ends(self) -> None:
        if self._next is not None:
            self.run.hub.cancel(self._next)

    def evidence(self) -> Evidence:
        met = self.met()
        return {"killed": self.hits, "codes": met} if met and self.hits else {}
