"""V11 restore equivalence: an attempt restores the elements and the position of a completed snapshot.

Answers to Flink's restore of operator state. Invariant: an attempt restores exactly what an earlier attempt of
its subtask stored, in a checkpoint that was completed and not retired; or its subtask's share of a rescale, which
`redistribution` judges. With the header's `keeps` none starts from nothing while there is such a checkpoint, and none
of the newest ones is retired. O(n).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET

from harness.history.event import End, Id, In, Rescale, Snap, Start, W, Wm
from harness.history.values import listed
from harness.history.verdict import Anomaly, joined, let, sentence
from harness.judge.checkers.attempt_state import equal_replays
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Element, Mark, RecordOf, element_name, elements_of, several
from harness.judge.checkers.invariant import Findings, Invariant, convict


class RestoreEquivalence(Invariant):
    """Checks V11 for each attempt that starts from a checkpoint."""

    name = "V11"
    vacuous = "no attempt starts from a checkpoint"

    def not_claimed(self, case: IndexedHistory) -> str:
        restarts = any(True for view in case.views for _ in _restarts(view))
        kept = (one for found in (_retired_early(case), *map(_started_over, case.views)) for one in found)
        return "" if restarts or case.rescalings or next(kept, None) else self.vacuous

    def examine(self, view: SubtaskView) -> Findings:
        """Each attempt that starts from a checkpoint that it must not use, or restores something else."""
        restarts = list(_restarts(view))
        anomalies = tuple(
            anomaly
            for attempt, start, c in restarts
            if view.case.rescalings.inherits(view, attempt) is None
            for anomaly in _Restart(view, attempt, start, c).anomalies()
        )
        anomalies += tuple(_started_over(view))
        return Findings(anomalies=anomalies, observed=len(restarts), exposed=bool(restarts))

    def across(self, case: IndexedHistory) -> Findings:
        """Whether the subtasks that a rescale begins get together what those that it ends had stored."""
        rescales = case.trace.rescales
        anomalies = list(_retired_early(case))
        pending: list[str] = []
        for rescale in rescales:
            one = _Redistribution(case, rescale)
            anomalies += [*one.unfit_cuts(), *one.restarts(), *one.elements(), *one.partitions()]
            left = list(one.left_behind())
            if one.all_restored:
                anomalies += left
            else:
                pending += [anomaly.say for anomaly in left]
        return Findings(
            anomalies=tuple(anomalies), pending=tuple(pending), observed=len(rescales), exposed=bool(rescales)
        )


def _started_over(view: SubtaskView) -> Iterator[Anomaly]:
    """With `keeps`: each attempt that reads from the beginning, though a checkpoint could be restored."""
    if view.case.header.keeps is None:
        return
    for attempt in view.subtask.attempts.values():
        start, read = attempt.start, next((e for e in attempt.events if isinstance(e, In | Wm | End)), None)
        if start is None or start.from_ is not None or read is None:
            continue
        for c in sorted(view.checkpoints.distinct, reverse=True):
            cut = view.checkpoints.cut_before(c, start.n, below=attempt.a)
            if cut is None or not view.checkpoints.restorable(c, start.n):
                continue
            say = f"attempt {attempt.a} of subtask {view.s} starts from nothing, though checkpoint {c} was completed"
            then = (
                f"{let(cut.snap.n)} is a snap of checkpoint {c}.",
                f"Checkpoint {c} was completed, and not retired, before {let(start.n)}.",
                f"{let(start.n)} starts from nothing, and {let(read.n)} reads on from there.",
            )
            rule = "an attempt starts from nothing only where no completed checkpoint is left"
            yield convict("started-over", view.s, {start.n, cut.snap.n, read.n}, say, then, rule, c=c)
            break


def _retired_early(case: IndexedHistory) -> Iterator[Anomaly]:
    """With `keeps`: each `retire` of one of so many newest completed checkpoints."""
    for retire in case.trace.retires if case.header.keeps else ():
        for view in case.views:
            done = sorted(c for c in view.checkpoints.distinct if view.checkpoints.completed_by(c, retire.n))
            kept = [c for c in done[-(case.header.keeps or 1) :] if c <= retire.c]
            if not any(view.checkpoints.restorable(c, retire.n) for c in kept):
                continue
            say = f"checkpoint {kept[-1]} is retired, one of the {case.header.keeps} newest completed ones"
            newest = f"The newest completed checkpoint by then was {done[-1]}."
            then = (f"{let(retire.n)} retires all checkpoints up to {retire.c}.", newest)
            rule = f"the {case.header.keeps} newest completed checkpoints stay in use for restores"
            yield convict("retired-early", None, (retire.n,), say, then, rule, c=retire.c)
            break


def _restarts(view: SubtaskView) -> Iterator[tuple[AttemptTrace, Start, int]]:
    for attempt in view.subtask.attempts.values():
        start = attempt.start
        if start is not None and start.from_ is not None:
            yield attempt, start, start.from_


class _Restart:
    """One attempt that starts from checkpoint `c`."""

    def __init__(self, view: SubtaskView, attempt: AttemptTrace, start: Start, c: int) -> None:
        self._view = view
        self._attempt = attempt
        self._start = start
        self._c = c
        self._named = f"attempt {attempt.a} of subtask {view.s} starts from checkpoint {c}"

    def anomalies(self) -> Iterator[Anomaly]:
        checkpoints, c, n = self._view.checkpoints, self._c, self._start.n
        cut = checkpoints.cut_restored(self._attempt)
        rule = (
            "an attempt starts from a completed checkpoint that is not retired and has a snap of its subtask"
        )
        if cut is None:
            say = "of which no earlier attempt of that subtask has a snap"
            earlier = f"No earlier attempt of subtask {self._view.s}"
            then = [f"{earlier} took a snap of checkpoint {c} before {let(n)}."]
            yield self._anomaly("bad-restore", say, then=then, rule=rule)
        elif not checkpoints.completed_by(c, n):
            then = [
                f"{let(cut.snap.n)} is the snap of checkpoint {c} that {let(n)} starts from.",
                f"Checkpoint {c} was not completed before {let(n)}.",
            ]
            yield self._anomaly("bad-restore", "which was not completed", cut.snap.n, then=then, rule=rule)
        elif (retired := checkpoints.retired_by(c, n)) is not None:
            then = [f"{let(retired)} comes before {let(n)}: checkpoint {c} was retired."]
            yield self._anomaly("bad-restore", "which was retired", retired, then=then, rule=rule)
        if cut is not None:
            yield from self._elements(cut.snap)
            yield from self._position(cut.snap)

    def _elements(self, snap: Snap) -> Iterator[Anomaly]:
        restore = self._attempt.restore
        if restore is None:
            return
        stored, replayed = list(elements_of(snap.elements)), list(elements_of(restore.elements))
        ordered = self._view.case.header.operator.mode == "ordered"
        if not equal_replays(stored, replayed, ordered=ordered):
            # The message names the elements that differ; if the sets are equal, it is the order.
            lacks = [tuple(e)[-1] for e in stored if e not in set(replayed)]
            adds = [tuple(e)[-1] for e in replayed if e not in set(stored)]
            differs = [f"without {listed(lacks)}"] * bool(lacks) + [
                f"with {listed(adds)} in addition"
            ] * bool(adds)
            say = f"and replays what was stored {' and '.join(differs) or 'in another order'}"
            then = [
                f"{let(snap.n)} stores {several(stored)}.",
                f"{let(restore.n)} replays {several(replayed)}.",
                sentence(f"{self._named}, {say}"),
            ]
            order = "in that order" if ordered else "in any order between watermarks"
            rule = f"a restore replays what its snap stores, {order}"
            yield self._anomaly("restore-differs", say, snap.n, restore.n, then=then, rule=rule)

    def _position(self, snap: Snap) -> Iterator[Anomaly]:
        first = next((e for e in self._attempt.events if isinstance(e, In | Wm)), None)
        then = [f"{let(snap.n)} says to read the source from position {snap.pos}."]
        rule = "after a restore the source is read from the position of the snap"
        if self._start.pos != snap.pos:
            say = f"with its source at position {self._start.pos}, but the snap stands at {snap.pos}"
            begins = f"begins with its source at position {self._start.pos}"
            then.append(f"{let(self._start.n)} {begins}.")
            yield self._anomaly("wrong-position", say, snap.n, then=then, rule=rule)
        elif first is not None and first.pos != snap.pos:
            say = f"and reads position {first.pos} first, but the snap stands at {snap.pos}"
            read = f"The first element that its attempt reads is {let(first.n)}"
            then.append(f"{read}, at position {first.pos}.")
            yield self._anomaly("wrong-position", say, snap.n, first.n, then=then, rule=rule)

    def _anomaly(self, kind: str, say: str, *witnesses: int, then: list[str], rule: str) -> Anomaly:
        say = f"{self._named}, {say}"
        return convict(kind, self._view.s, {self._start.n, *witnesses}, say, then, rule, c=self._c)


_RULES = {
    "bad-restore": "each subtask that a rescale ends has a snap of a completed checkpoint that is not retired",
    "restore-differs": "what one subtask had stored keeps its order in each share, and a share stays the same",
    "wrong-position": "a subtask reads on behind what it inherits, and each partition where it was cut",
    "left-behind": "each element that was in flight at a rescale reaches one of the subtasks that follow",
    "restored-twice": "each element that was in flight at a rescale reaches one subtask alone",
    "not-stored": "the subtasks that follow a rescale inherit what was stored, and nothing else",
    "shared-partition": "each partition of the source is read by one subtask",
}


class _Redistribution:
    """One rescale."""

    def __init__(self, case: IndexedHistory, rescale: Rescale) -> None:
        by_s = {view.s: view for view in case.views}
        self._case = case
        self._rescale = rescale
        self._ordered = case.header.operator.mode == "ordered"
        self._named = f"the rescale of event {rescale.n}, at checkpoint {rescale.c},"
        self._running = list(case.rescalings.running(rescale))
        self._cuts = {view.s: case.rescalings.cut(view) for view in self._running}
        self._stored = {
            s: list(elements_of(cut.snap.elements)) for s, cut in self._cuts.items() if cut is not None
        }
        """For each old subtask what its snap holds."""
        self._new = [view for s in rescale.to if (view := by_s.get(s)) is not None]
        shares = ((view, case.rescalings.share(view)) for view in self._new)
        self._shares = {view.s: share for view, share in shares if share is not None}
        self.all_restored = len(self._shares) == len(rescale.to)

    def unfit_cuts(self) -> Iterator[Anomaly]:
        """Each subtask that was running and whose snap may not be restored."""
        c, n = self._rescale.c, self._rescale.n
        for view in self._running:
            cut = self._cuts[view.s]
            if cut is None:
                yield self._anomaly(
                    "bad-restore", view.s, f"{self._named} finds no snap of it by subtask {view.s}"
                )
            elif not view.checkpoints.completed_by(c, n):
                say = (
                    f"{self._named} takes the snap of subtask {view.s}, and the checkpoint was not completed"
                )
                yield self._anomaly("bad-restore", view.s, say, cut.snap.n)
            elif (retired := view.checkpoints.retired_by(c, n)) is not None:
                say = f"{self._named} takes the snap of subtask {view.s}, and the checkpoint was retired"
                yield self._anomaly("bad-restore", view.s, say, retired)

    def restarts(self) -> Iterator[Anomaly]:
        """Each attempt that starts from the rescale, with another share than the first one or at another position."""
        for view in self._new:
            share = self._shares.get(view.s)
            for attempt in view.subtask.attempts.values():
                if share is None or self._case.rescalings.inherits(view, attempt) is None:
                    continue
                assert attempt.start is not None  # it inherits
                named = f"attempt {attempt.a} of subtask {view.s} starts from {self._named}"
                restore = attempt.restore
                if restore is not None and not equal_replays(
                    share, list(elements_of(restore.elements)), ordered=self._ordered
                ):
                    say = f"{named} and restores another share than the attempt before it"
                    yield self._anomaly("restore-differs", view.s, say, attempt.start.n, restore.n)
                first = next((e for e in attempt.events if isinstance(e, In | Wm)), None)
                if attempt.start.pos != len(share):
                    say = f"{named} with its source at position {attempt.start.pos}, behind {len(share)} elements"
                    yield self._anomaly("wrong-position", view.s, say, attempt.start.n)
                elif first is not None and first.pos != len(share):
                    say = f"{named} and reads position {first.pos} first, behind {len(share)} elements"
                    yield self._anomaly("wrong-position", view.s, say, attempt.start.n, first.n)

    def elements(self) -> Iterator[Anomaly]:
        """What is in the shares and should not be, or not so often, or not in that order."""
        stored = Counter(map(_named, self._all(self._stored)))
        seen: Counter[_Name] = Counter()
        for s, share in self._shares.items():
            for element in share:
                named = element_name(element)
                seen[_named(element)] += 1
                if not stored[_named(element)]:
                    say = f"{named} is in the share of subtask {s}, and no subtask had stored it"
                    yield self._of_element(element, s, say, kind="not-stored")
                elif seen[_named(element)] > stored[_named(element)]:
                    say = f"{named} is in the share of subtask {s}, and in another place of the shares too"
                    yield self._of_element(element, s, say, kind="restored-twice")
            yield from self._disorder(s, share)

    def left_behind(self) -> Iterator[Anomaly]:
        """What was stored and is in no share."""
        given = Counter(map(_named, self._all(self._shares)))
        for s, elements in self._stored.items():
            for element in elements:
                if given[_named(element)]:
                    given[_named(element)] -= 1
                else:
                    say = f"{element_name(element)}, which subtask {s} had stored, is in the share of no subtask"
                    yield self._of_element(element, s, say, kind="left-behind")

    def _all(self, lists: Mapping[int, Sequence[Element]]) -> Iterator[Element]:
        return (element for elements in lists.values() for element in elements)

    def _disorder(self, s: int, share: Sequence[Element]) -> Iterator[Anomaly]:
        """The first element that stands ahead of one that its old subtask had stored before it."""
        places = self._places()
        furthest: dict[int, float] = {}
        for element in share:
            place = places.get(element if isinstance(element, RecordOf) else element.w)
            if place is None:
                continue
            old, rank = place
            # In unordered mode the records between two watermarks have one rank, and a watermark its own.
            if rank < furthest.get(old, -math.inf):
                where = f"in the share of subtask {s} behind what followed it in subtask {old}"
                say = f"{element_name(element)} stands {where}"
                yield self._anomaly("restore-differs", s, say)
                return
            furthest[old] = rank

    def _places(self) -> dict[RecordOf | W, tuple[int, int]]:
        """Of each stored element its subtask and its rank there; of a watermark only if no other has its value."""
        values = Counter(e.w for e in self._all(self._stored) if isinstance(e, Mark))
        places: dict[RecordOf | W, tuple[int, int]] = {}
        for s, elements in self._stored.items():
            rank = 0
            for element in elements:
                is_mark = isinstance(element, Mark)
                rank += self._ordered or is_mark
                if not isinstance(element, Mark):
                    places[element] = s, rank
                elif values[element.w] == 1:
                    places[element.w] = s, rank
                rank += not self._ordered and is_mark
        return places

    def partitions(self) -> Iterator[Anomaly]:
        """Each partition of the source that is not read on where it was cut, or by two subtasks."""
        due = self._due()
        reader: dict[int, In] = {}
        for view in self._new:
            for part, taken in _read(view).items():
                first = taken[0]
                assert first.at is not UNSET  # `_read` leaves out what has none
                if part in reader:
                    say = f"partition {part} is read by subtask {reader[part].s} and by subtask {view.s}"
                    yield self._anomaly("shared-partition", view.s, say, reader[part].n, first.n)
                reader.setdefault(part, first)
                if first.at != due.get(part, 0):
                    say = (
                        f"subtask {view.s} reads partition {part} from place {first.at} on, and it was cut at place"
                        f" {due.get(part, 0)}"
                    )
                    yield self._anomaly("wrong-position", view.s, say, first.n)
                    continue
                skipped = next((e for e, place in zip(taken, range(first.at, first.at + len(taken)), strict=True)
                                if e.at != place), None)  # fmt: skip
                if skipped is not None:
                    say = f"subtask {view.s} does not read partition {part} place by place: {skipped.at} is out of turn"
                    yield self._anomaly("wrong-position", view.s, say, skipped.n)

    def _due(self) -> dict[int, int]:
        """For each partition the place behind the last one that a subtask had read ahead of its cut."""
        due: dict[int, int] = {}
        for view in self._case.views:
            ended = self._case.rescalings.ended.get(view.s)
            if ended is None or ended.n > self._rescale.n:
                continue
            cut = self._case.rescalings.cut(view)
            until = math.inf if cut is None else cut.snap.pos
            for part, taken in _read(view).items():
                before = [e.at + 1 for e in taken if e.pos < until and e.at is not UNSET]
                due[part] = max([due.get(part, 0), *before])
        return due

    def _of_element(self, element: Element, s: int, say: str, *, kind: str) -> Anomaly:
        known = element.id if isinstance(element, RecordOf) else None
        w = element.w if isinstance(element, Mark) else None
        return replace(self._anomaly(kind, s, f"{say} ({self._named[:-1]})"), id=known, w=w)

    def _anomaly(self, kind: str, s: int, say: str, *witnesses: int) -> Anomaly:
        rescale = self._rescale
        events = tuple(sorted({rescale.n, *witnesses}))
        took_over = f"{let(rescale.n)} ends {_subtasks(rescale.of)} and begins {_subtasks(rescale.to)}."
        then = [took_over, sentence(say)]
        rule = _RULES[kind]
        return convict(kind, s, events, say, then, rule, c=rescale.c)


def _subtasks(numbers: Sequence[int]) -> str:
    return f"subtask{'s' * (len(numbers) > 1)} {joined(list(map(str, numbers)))}"


def _read(view: SubtaskView) -> dict[int, list[In]]:
    """For each partition that the subtask reads its records, by position."""
    found: dict[int, dict[int, In]] = {}
    for attempt in view.subtask.attempts.values():
        for event in attempt.events:
            if isinstance(event, In) and event.part is not UNSET and event.at is not UNSET:
                found.setdefault(event.part, {}).setdefault(event.pos, event)
    return {part: [taken[pos] for pos in sorted(taken)] for part, taken in found.items()}


_Name = Id | tuple[str, W]
"""What an element is counted by: positions differ before and after a rescale."""


def _named(element: Element) -> _Name:
    return ("w", element.w) if isinstance(element, Mark) else element.id
