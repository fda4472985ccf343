"""`store_torn`, `store_newest_missing`: truncate or delete the newest checkpoint files of a subtask.

Answers to a write that was never synced to disk. Evidence: a later restore found that file torn or missing and went
back to an older checkpoint; a file that no restore read shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from harness.faults.model.fault import InsideFault
from harness.faults.model.fields import Subtask, Times
from harness.faults.real.evidence import RecordedFault, acts
from harness.faults.real.sites import AttemptSite
from harness.faults.simulated.acts import Act, Evidence, SimulatedRun
from harness.history.notes import Acted, Line, RestoreFallback

if TYPE_CHECKING:
    from harness.database.store_files import Files

_LOOK_MS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """How many bytes of a file are left, of how many."""

    bytes: int
    of: int


class _OfFiles(InsideFault):
    """Common part: damages the `times` newest checkpoint files of a subtask."""

    abilities = ("store",)

    what: ClassVar[str]
    """The store's word for what a restore then finds."""

    subtask: Subtask
    times: Times = 1

    def damage(self, files: Files, name: str) -> Damage:
        """Damages one file."""
        raise NotImplementedError

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        files = attempt.store.files
        for name in files.names()[-self.times :]:
            done = self.damage(files, name)
            facts = {"file": name, "bytes": done.bytes, "of": done.of}
            attempt.journal.note(Acted(fault=self.id, what=self.what, facts=facts))

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedDamage(run, self)

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """The damaged files that a restore found."""
        damaged = acts(self.id, lines)
        if not damaged:
            return None
        what = {(act.facts["file"], act.what) for act in damaged}
        met = [one for one in lines if isinstance(one, RestoreFallback) and (one.file, one.what) in what]
        began_us = damaged[0].t
        if not met:
            return RecordedFault(began_us=began_us, ended_us=lines[-1].t)
        done = [Damage(bytes=act.facts["bytes"], of=act.facts["of"]) for act in damaged]
        evidence = _evidence(met, subtask=met[0].s, damaged=done)
        return RecordedFault(began_us=began_us, measured_us=met[0].t, ended_us=met[-1].t, evidence=evidence)


class StoreTorn(_OfFiles):
    """Truncates the newest files to half their size."""

    about = (
        "The newest checkpoint file of a subtask (or its newest `times` files) is truncated to half its size."
    )
    must_show = "A restore met that file, found it torn, and went back to an older checkpoint."

    what = "torn"
    can = ("failed",)

    do: Literal["store_torn"]

    def damage(self, files: Files, name: str) -> Damage:
        size = len(files.read(name))
        files.cut(name, size // 2)
        return Damage(bytes=size // 2, of=size)


class StoreNewestMissing(_OfFiles):
    """Deletes the newest files."""

    about = "The newest checkpoint file of a subtask (or its newest `times` files) is deleted."
    must_show = "A restore looked for that file, did not find it, and went back to an older checkpoint."

    what = "missing"
    can = ("failed",)

    do: Literal["store_newest_missing"]

    def damage(self, files: Files, name: str) -> Damage:
        size = len(files.read(name))
        files.remove(name)
        return Damage(bytes=0, of=size)


class _SimulatedDamage:
    """Damages the newest simulated files of a subtask, as soon as there are any. Mutable."""

    settles_ms = 0

    def __init__(self, run: SimulatedRun, fault: _OfFiles) -> None:
        self._run = run
        self._fault = fault
        self._damaged: dict[str, Damage] = {}
        self._is_over = False

    def begins(self) -> None:
        """Damages the present files; looks again later if there are none."""
        files = self._run.files[self._fault.subtask]
        names = files.names()[-self._fault.times :]
        if self._is_over:
            return
        self._damaged = {name: self._fault.damage(files, name) for name in names}
        if not names:
            self._run.hub.at(self._run.hub.now_ms + _LOOK_MS, self.begins)

    def ends(self) -> None:
        """Stops looking; damage is not repaired."""
        self._is_over = True

    def evidence(self) -> Evidence:
        met = [one for one in self._run.tape.passed_over if one.file in self._damaged]
        return (
            _evidence(met, subtask=self._fault.subtask, damaged=list(self._damaged.values())) if met else {}
        )


def _evidence(met: Sequence[RestoreFallback], *, subtask: int, damaged: Sequence[Damage]) -> Evidence:
    return {
        "subtask": subtask,
        "what": met[0].what,
        "checkpoints": sorted({one.c for one in met}),
        "bytes": [one.bytes for one in damaged],
        "of": [one.of for one in damaged],
        "restored": met[-1].to,
    }
