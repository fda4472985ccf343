"""Strangers in the source: what it gives after a restore, and how it ends.

Answers to sources that cannot replay. Invariant: each wraps a subtask's source; an attempt that begins at position 0
gets the reference's elements, except at the end.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from msgspec.structs import replace

from harness.database.epoch import Takeover
from harness.scenario.model import Scenario
from harness.sut.defects.defect import both, has_watermarks
from harness.sut.variant import Kind, Variant, made_once
from reference_impl.elements import EndOfInput, Record, Watermark
from tools.defects.kinds import Stranger
from tools.defects.where import is_restored

_BACK_MS: Final = 1_000


class _Source:
    """`source`, for subclasses that change what it gives. Mutable: knows where this attempt began."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._began: int | None = None
        self.barrier_before = source.barrier_before
        self.due_ms = source.due_ms

    def read(self, position: int) -> Any:
        if self._began is None:
            self._began = position
        element = self._source.read(position)
        return self.altered(element, position) if self._began else element

    def altered(self, element: Any, position: int) -> Any:
        """What is given for `element` by an attempt that was restored."""
        del position
        return element


class _OtherRecords(_Source):
    """Reads the newest version of its file: the fifth record of each five has another key than before."""

    def altered(self, element: Any, position: int) -> Any:
        if type(element) is Record and not position % 5:
            return replace(element, value=replace(element.value, key=max(0, element.value.key - 1)))
        return element


class _SkipsFirst(_Source):
    """Seeks one element too far, and notices with the next one."""

    def altered(self, element: Any, position: int) -> Any:
        if position != self._began:
            return element
        following = self._source.read(position + 1)
        if type(element) is Record and type(following) is Record:
            return replace(following, position=position)
        return element


class _LosesTime(_Source):
    """Gives replayed records no event time."""

    def altered(self, element: Any, position: int) -> Any:
        del position
        return replace(element, timestamp=None) if type(element) is Record else element


class _FallsBack(_Source):
    """Begins its watermarks anew: the first one after a restore is a second lower than it was."""

    _is_past = False

    def altered(self, element: Any, position: int) -> Any:
        del position
        if type(element) is not Watermark or self._is_past:
            return element
        self._is_past = True
        return replace(element, timestamp=element.timestamp - _BACK_MS)


class _EndsEarly(_Source):
    """Takes the last record for the end, if the one before it was read in the same fetch."""

    def read(self, position: int) -> Any:
        element = super().read(position)
        is_last = type(element) is Record and isinstance(self._source.read(position + 1), EndOfInput)
        return EndOfInput() if is_last and position else element


class _EveryThirdLeftOut(_Source):
    """Has no barrier where the number can be divided by three."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.barrier_before = self._barrier_before

    def _barrier_before(self, position: int) -> Any:
        barrier = self._source.barrier_before(position)
        return barrier if barrier is None or barrier.checkpoint_id % 3 else None


class _BarriersOfTheFirst(_Source):
    """Has barriers for an attempt that began at position 0 alone."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.barrier_before = lambda position: None if self._began else source.barrier_before(position)


@made_once
def _resuming_ahead(sink: Kind) -> Kind:
    """`sink`, which restores a position three elements behind the stored one."""

    class AheadSink(sink):  # type: ignore[misc]  # a class made of a class
        def take_over(self, **how: Any) -> Takeover:
            taken: Takeover = super().take_over(**how)
            if taken.saved is None:
                return taken
            return dataclasses.replace(
                taken, saved=dataclasses.replace(taken.saved, position=taken.saved.position + 3)
            )

    return AheadSink


_REPLAY = "a replay gives the elements that were read before"
_RESTORED = "an attempt is killed, or superseded"


def _plain(scenario: Scenario) -> bool:
    return scenario.task is None and not scenario.workload.reuses_objects


def _has_barriers(scenario: Scenario) -> bool:
    return scenario.workload.checkpoint_every is not None


def _replayed(scenario: Scenario) -> bool:
    return is_restored(scenario) and _plain(scenario)


OF_SOURCES = (
    Stranger(
        name="replays-other-keys",
        about="after a restore one record in five asks for another key than before",
        component="source",
        breaks=_REPLAY,
        variant=Variant(source=_OtherRecords),
        where=_RESTORED,
        applies=_replayed,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="resumes-one-too-far",
        about="after a restore the first record is the one behind it, which then comes again",
        component="source",
        breaks=_REPLAY,
        variant=Variant(source=_SkipsFirst),
        where=_RESTORED,
        applies=_replayed,
        convicted_by=("V8", "V9", "V15"),
    ),
    Stranger(
        name="resumes-at-another-position",
        about="a restored position is three elements further than the stored one",
        component="source",
        breaks=_REPLAY,
        variant=Variant(sink=_resuming_ahead),
        where=_RESTORED,
        applies=is_restored,
        convicted_by=("V11", "V10"),
        scenario="chained-operators",
    ),
    Stranger(
        name="replays-without-time",
        about="records that are read after a restore have no event time",
        component="source",
        breaks=_REPLAY,
        variant=Variant(source=_LosesTime),
        where=_RESTORED,
        applies=_replayed,
        convicted_by=("V8",),
    ),
    Stranger(
        name="watermark-falls-at-restore",
        about="the first watermark after a restore is a second lower than it was",
        component="source",
        breaks=_REPLAY,
        variant=Variant(source=_FallsBack),
        where=f"there are watermarks; {_RESTORED}",
        applies=lambda scenario: _replayed(scenario) and has_watermarks(scenario),
        convicted_by=("V6",),
    ),
    Stranger(
        name="every-third-barrier-left-out",
        about="every third checkpoint is not taken",
        component="source",
        breaks="an attempt takes each checkpoint whose barrier it reads",
        variant=Variant(source=_EveryThirdLeftOut),
        where="barriers at fixed positions",
        applies=_has_barriers,
        convicted_by=("V18",),
        scenario="kill-after-commit",
    ),
    Stranger(
        name="no-barriers-after-restart",
        about="an attempt that was restored takes no checkpoint but its last",
        component="source",
        breaks="an attempt takes each checkpoint whose barrier it reads",
        variant=Variant(source=_BarriersOfTheFirst),
        where=f"barriers at fixed positions; {_RESTORED}",
        applies=both(_has_barriers, _replayed),
        convicted_by=("V18",),
        scenario="two-newest-torn",
    ),
    Stranger(
        name="source-ends-early",
        about="the last record, if nothing follows it, is never read",
        component="source",
        breaks="every record of the input is read",
        variant=Variant(source=_EndsEarly),
        where="there is no watermark behind the last record",
        applies=_plain,
        convicted_by=("V23",),
    ),
)
