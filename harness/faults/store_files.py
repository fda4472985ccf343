"""`store_torn`, `store_newest_missing`: the newest parts of a subtask in the checkpoint store are torn, or gone.

Answers to a write that was never synced. Evidence: a later restore met that very file, said what is wrong with it, and
passed it over; a file that nobody read again shows nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, cast

from harness.faults.model.fault import InsideFault
from harness.faults.model.fields import Subtask, Times
from harness.faults.real.attempt_site import AttemptSite
from harness.faults.real.found import Found, Line, acts
from harness.faults.simulated.act import Act, Evidence
from harness.faults.simulated.on_store import OnStore

if TYPE_CHECKING:
    from harness.sim.coordinated_run import CoordinatedRun
    from harness.sim.coordinator import Part
    from harness.sim.simulation import Simulation

__all__ = ["StoreNewestMissing", "StoreTorn"]

_LOOK_MS: Final = 10


class _OfFiles(InsideFault):
    """Damages the newest files of a subtask."""

    abilities = ("store",)

    subtask: Subtask
    times: Times = 1

    def found(self, lines: Sequence[Line]) -> Found | None:
        """The files that it damaged and the restores that met them."""
        damaged = acts(self.id, lines)
        if not damaged:
            return None
        what = {(line["file"], line["what"]) for line in damaged}
        met = [line for line in lines if line["k"] == "~store" and (line["file"], line["what"]) in what]
        began_us, last_us = damaged[0]["t"], lines[-1]["t"]
        if not met:
            return Found(began_us=began_us, ended_us=last_us)
        evidence = {
            "subtask": met[0]["s"],
            "what": met[0]["what"],
            "checkpoints": sorted({line["c"] for line in met}),
            "bytes": [line.get("bytes", 0) for line in damaged],
            "of": [line["of"] for line in damaged],
            "restored": met[-1]["to"],
        }
        return Found(began_us=began_us, measured_us=met[0]["t"], ended_us=met[-1]["t"], evidence=evidence)


class StoreTorn(_OfFiles):
    """The newest files lose their second half."""

    about = (
        "The newest part of a subtask in the checkpoint store, or its newest `times`, loses its second half."
    )
    must_show = "A restore met that file, found it torn, and went back to an older checkpoint."

    do: Literal["store_torn"]

    def inside(self, attempt: AttemptSite) -> None:
        """See `Fault`."""
        for path in attempt.store.files()[-self.times :]:
            size = path.stat().st_size
            os.truncate(path, size // 2)
            attempt.journal.acted(self.id, "torn", file=path.name, bytes=size // 2, of=size)

    def simulated(self, run: Simulation) -> Act:
        """See `Fault`. Only a coordinated run has a store; with another sink the scenario is refused before."""
        return _SimulatedTorn(cast("CoordinatedRun", run), self.subtask, times=self.times)


class StoreNewestMissing(_OfFiles):
    """The newest files are gone."""

    about = "The newest part of a subtask in the checkpoint store, or its newest `times`, is gone."
    must_show = "A restore looked for that file, did not find it, and went back to an older checkpoint."

    do: Literal["store_newest_missing"]

    def inside(self, attempt: AttemptSite) -> None:
        """See `Fault`."""
        for path in attempt.store.files()[-self.times :]:
            size = path.stat().st_size
            path.unlink()
            attempt.journal.acted(self.id, "missing", file=path.name, of=size)

    def simulated(self, run: Simulation) -> Act:
        """See `StoreTorn`."""
        return _SimulatedMissing(cast("CoordinatedRun", run), self.subtask, times=self.times)


class _SimulatedTorn(OnStore):
    """The next parts are torn as they are written, and nobody notices before they are needed. Mutable."""

    def __init__(self, run: CoordinatedRun, subtask: int | None, *, times: int) -> None:
        super().__init__(run, subtask)
        self._times = times
        self._torn: list[int] = []

    def written(self, part: Part) -> bool:
        """See `StoreTrouble`."""
        if not self.is_mine(part.subtask) or len(self._torn) == self._times:
            return True
        self._torn.append(part.checkpoint.number)
        return False

    def evidence(self) -> Evidence:
        """Which checkpoints were torn, once all were that should be."""
        return {"torn": list(self._torn)} if len(self._torn) == self._times else {}


class _SimulatedMissing:
    """The newest parts of completed checkpoints are removed. Mutable."""

    settles_ms = 0
    stalls = False

    def __init__(self, run: CoordinatedRun, subtask: int, *, times: int) -> None:
        self._run = run
        self._subtask = subtask
        self._times = times
        self._removed: list[int] = []
        self._is_over = False

    def begins(self) -> None:
        """Those that there are; else as soon as there are."""
        if self._is_over:
            return
        parts = self._run.coordinator.restorable(self._subtask)[: self._times]
        for part in parts:
            self._run.store.breaks(part, "missing")
            self._removed.append(part.checkpoint.number)
        if not parts:
            self._run.hub.at(self._run.hub.now_ms + _LOOK_MS, self.begins)

    def ends(self) -> None:
        """What is gone is gone."""
        self._is_over = True

    def evidence(self) -> Evidence:
        """Which checkpoints lost their part."""
        return {"removed": list(self._removed)} if self._removed else {}
