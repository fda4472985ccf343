"""What a fault does to the simulated server, and what the run's clients met of it.

The counterpart of `harness.faults.real.evidence`. Invariant: only an error that a client of the run met since the
fault began counts as evidence; what the fault itself did is no proof that anybody noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.faults.simulated.act import Evidence
    from harness.levels.sim.hub import Due
    from harness.levels.sim.server import SimulatedServer
    from harness.levels.sim.simulation import Simulation

__all__ = ["Hunt", "OnServer", "nothing"]


def nothing(server: SimulatedServer) -> None:
    """Where there is nothing to put back."""
    del server


class OnServer:
    """The server is set so while the act lasts. `codes`: those by which clients notice. Mutable.

    `settles_ms`: for so long after its end clients may notice what it did.
    """

    def __init__(
        self,
        run: Simulation,
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
        self._before: Counter[int | str] = Counter()

    def begins(self) -> None:
        self._before = self.run.errors
        self._sets(self.server)

    def ends(self) -> None:
        self._puts_back(self.server)

    def met(self) -> dict[str, int]:
        """How often clients met which of the errors since it began."""
        now = self.run.errors
        counts = {code: now[code] - self._before[code] for code in self._codes}
        return {str(code): count for code, count in counts.items() if count}

    def evidence(self) -> Evidence:
        met = self.met()
        return {"codes": met} if met else {}


class Hunt(OnServer):
    """Strikes every `gap_ms`, `count` times at most (None: no limit). Mutable: counts."""

    def __init__(
        self,
        run: Simulation,
        *,
        codes: Iterable[int | str],
        strike: Callable[[SimulatedServer], bool],
        gap_ms: int,
        count: int | None,
        settles_ms: int = 0,
    ) -> None:
        super().__init__(run, codes=codes, sets=lambda _: self._once(), settles_ms=settles_ms)
        self._strike = strike
        self._gap_ms = gap_ms
        self._count = count
        self._next: Due | None = None
        self.hits = 0

    def _once(self) -> None:
        if self._count is None or self.hits < self._count:
            self.hits += self._strike(self.server)
        hub = self.run.hub
        self._next = hub.at(hub.now_ms + self._gap_ms, self._once)

    def ends(self) -> None:
        if self._next is not None:
            self.run.hub.cancel(self._next)

    def evidence(self) -> Evidence:
        """How often it struck, and what clients met."""
        met = self.met()
        return {"killed": self.hits, "codes": met} if met and self.hits else {}
