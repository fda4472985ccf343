"""Judges one history in shares by processes of this machine: each reads the file and keeps its own subtasks.

Each process passes the lines of the others' subtasks over unread, follows its own as the screen does, and reports the
time of each event that it read, so that this process can tell that no line was passed over by all and that times never
fall. Invariant: as in `fold`, the judgement is that of the whole; whatever is not ordinary is judged whole. Memory of
a process: that of the screen, or the events of the subtasks that it examines exactly.
"""

from __future__ import annotations

import multiprocessing
import signal
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.history.event import Ack, Event
from harness.history.fast_files import open_fast
from harness.history.fast_read import NotOrdinary, Stretch
from harness.history.header import Header
from harness.history.strict_json import integers_of_any_length
from harness.history.text import is_columnar
from harness.history.verdict import Judgement
from harness.judge.checkers.acquittal import claims_beyond_the_screen
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.judge import Malformed, Progress, judge_file, uncollected
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.shares.around import OF_SHARES, TOLD_TO_ALL, Around
from harness.judge.checkers.shares.fold import judge_shares
from harness.judge.checkers.shares.found import ShareFound, examine_share
from harness.judge.checkers.shares.seen import Course, ShareSeen
from harness.system.errors import WorldError

__all__ = ["judge_on_processes"]

LEAST_BYTES: Final = 64 << 20
"""A smaller text is judged by one process, which takes less time than to start several."""
_LEAST_OF_COLUMNS: Final = LEAST_BYTES >> 3
"""The same for columns, which hold an event in about an eighth of the bytes."""
_BLOCK: Final = 1 << 16
"""Lines of which the times are reported at a time."""
_UNREAD: Final = -1
"""The time of a line that a process passed over."""


def judge_on_processes(
    path: Path,
    *,
    jobs: int,
    checkers: Sequence[Invariant] = CHECKERS,
    progress: Progress | None = None,
    least_bytes: int | None = None,
) -> Judgement | Malformed:
    """Judge a history file as `judge_file` does, with up to `jobs` processes, each for some of its subtasks."""
    if least_bytes is None:
        least_bytes = _LEAST_OF_COLUMNS if is_columnar(path) else LEAST_BYTES
    small = path.is_file() and path.stat().st_size < least_bytes
    header = None if small or jobs == 1 else open_fast(path).header
    if header is None or claims_beyond_the_screen(header):
        return judge_file(path, checkers=checkers, progress=progress)
    with integers_of_any_length():
        shares = _ProcessShares(path, header, jobs, progress)
        try:
            return judge_shares(shares, partial(_whole, path), checkers=checkers)
        finally:
            shares.end()


def _whole(path: Path, checkers: Sequence[Invariant]) -> Judgement | Malformed:
    return judge_file(path, checkers=checkers)


class _NotShared(Exception):
    """Shares cannot judge the history."""


class _ProcessShares:
    """The `Shares` of a history file. Mutable: its processes live from `around` to `see`."""

    def __init__(self, path: Path, header: Header, jobs: int, progress: Progress | None) -> None:
        self._path = path
        self._header = header
        self._jobs = jobs
        self._progress = progress
        self._workers: list[_ShareProcess] = []

    def around(self) -> Around | None:
        """See `Shares`: the only pass over the whole file, in which every process follows its subtasks."""
        try:
            self._workers = [
                _ShareProcess(partial(_follow, self._path, self._header, number, self._jobs))
                for number in range(self._jobs)
            ]
            self._check_times()
            passes: list[_Passed] = [worker.next() for worker in self._workers]
            return self._told(passes)
        except _NotShared:
            return None

    def _check_times(self) -> None:
        """Require that each line was read by a process, and that times never fall."""
        last_t = 0
        size = self._path.stat().st_size if self._path.is_file() else 0
        while any(blocks := [worker.next() for worker in self._workers]):
            done, times = blocks[0]
            for _, others in blocks[1:]:
                times = array("q", map(max, times, others))
            if times[0] < last_t or min(times) < 0 or any(later < t for t, later in pairwise(times)):
                raise _NotShared
            last_t = times[-1]
            if self._progress is not None and size:
                self._progress(done, size)

    def _told(self, passes: Sequence[_Passed]) -> Around:
        bases = {passed.base for passed in passes if passed.base is not None}
        if len(bases) != 1:
            raise _NotShared
        last = max((passed.last for passed in passes if passed.last is not None), key=lambda event: event.n)
        return Around(header=self._header, told=passes[0].told, last=last, events=passes[0].lines)

    def see(self, around: Around) -> list[ShareSeen]:
        """See `Shares`."""
        for worker in self._workers:
            worker.connection.send(around)
        return sorted((seen for worker in self._workers for seen in worker.next()), key=lambda seen: seen.s)

    def examine(
        self, around: Around, names: Mapping[int, Collection[str]], *, finished: bool
    ) -> list[ShareFound]:
        """See `Shares`."""
        shares = [dict(list(names.items())[number :: self._jobs]) for number in range(self._jobs)]
        self.end()
        self._workers = [
            _ShareProcess(partial(_examine, self._path, around, few, finished)) for few in shares if few
        ]
        return sorted((found for worker in self._workers for found in worker.next()), key=lambda each: each.s)

    def end(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()
        self._workers = []


class _ShareProcess:
    """A process, forked so that its digests of texts equal those of the others, and what it sends."""

    def __init__(self, work: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(work, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def next(self) -> Any:
        """What it sends next; raises `_NotShared` if it gives up."""
        try:
            sent = self.connection.recv()
        except EOFError as ended:
            message = "a process that checked some subtasks of a history was killed"
            raise WorldError(message, fix="use fewer --jobs if memory was short") from ended
        if isinstance(sent, _NotShared):
            raise sent
        return sent

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self._process.close()
        self.connection.close()


# ------------------------------------------------------------------------------------------ in the processes


def _run(work: Callable[[Connection], None], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with uncollected(), integers_of_any_length():
            work(connection)
    except (NotOrdinary, _NotShared):
        connection.send(_NotShared())
    connection.close()


class _Passed(NamedTuple):
    """What a process knows after its pass."""

    base: int | None
    """What the number of each event exceeds the place of its line by; None: it has read no event."""
    last: Event | None
    told: Sequence[Event]
    lines: int


def _follow(path: Path, header: Header, number: int, jobs: int, connection: Connection) -> None:
    """One pass over the file; then the summaries of the own subtasks."""
    passing = _Pass(header, number, jobs)
    history = open_fast(path)
    times = array("q")
    for stretch in history.stretches(passing.others):
        times.extend(passing.take(stretch))
        while len(times) >= _BLOCK:
            connection.send((history.done, times[:_BLOCK]))
            times = times[_BLOCK:]
    if times:
        connection.send((history.done, times))
    connection.send(None)
    connection.send(passing.passed())
    around = connection.recv()
    connection.send([course.end(around) for course in passing.courses.values()])


class _Pass:
    """One process on its way through the file. Mutable."""

    def __init__(self, header: Header, number: int, jobs: int) -> None:
        self._header = header
        self._number = number
        self._jobs = jobs
        self.courses: dict[int, Course] = {}
        self.others: dict[int, None] = {}
        """The subtasks of other processes, whose events are passed over."""
        self._told: list[Event] = []
        self._base: int | None = None
        self._last: Event | None = None
        self._lines = 0

    def take(self, stretch: Stretch) -> array[int]:
        """Follow the own events; returns the time of each line."""
        events, places, before = stretch.events, stretch.places, self._lines
        times = array("q", [_UNREAD]) * stretch.lines
        self._lines += stretch.lines
        if not events:
            return times
        if self._base is None:
            self._base = events[0].n - places[0] - before
        before += self._base
        if [event.n - before for event in events] != list(places):
            raise _NotShared
        self._last = events[-1]
        own = self._of_one(events)
        if own is not None:
            own.take(events)
            taken: Sequence[Event] = events
        else:
            taken = self._sorted(events)
        before -= self._base or 0
        for event in taken:
            times[event.n - self._base - before] = event.t
        return times

    def _of_one(self, events: Sequence[Any]) -> Course | None:
        """The subtask that has all of these events; None: they have to be sorted."""
        if len(subtasks := {event.s for event in events if type(event) in _OWN}) != 1:
            return None
        alike = _OWN.issuperset(map(type, events))
        return self.courses.get(subtasks.pop()) if alike else None

    def _sorted(self, events: Sequence[Any]) -> list[Event]:
        """Give each course its events and those that all are told; returns the events that are not another's."""
        taken = []
        shares: dict[int, list[Event]] = {s: [] for s in self.courses}
        for event in events:
            kind = type(event)
            if kind in _TOLD:
                self._told.append(event)
                for s, own in shares.items():
                    if kind is not Ack or event.s == s:
                        own.append(event)
            elif kind not in _OWN:
                raise _NotShared
            elif event.s in shares:
                shares[event.s].append(event)
            elif event.s % self._jobs == self._number:
                shares[event.s] = [*self._begun(event.s), event]
            else:
                self.others[event.s] = None
                continue
            taken.append(event)
        for s, own in shares.items():
            if own:
                self.courses[s].take(own)
        return taken

    def _begun(self, s: int) -> list[Event]:
        """A subtask is met for the first time; returns what it was told before."""
        self.courses[s] = Course(self._header, s)
        return [event for event in self._told if not isinstance(event, Ack) or event.s == s]

    def passed(self) -> _Passed:
        """What it knows at the end."""
        told = () if self._number else self._told
        return _Passed(base=self._base, last=self._last, told=told, lines=self._lines)


def _examine(
    path: Path,
    around: Around,
    names: Mapping[int, Collection[str]],
    finished: bool,  # noqa: FBT001 - positional in a partial
    connection: Connection,
) -> None:
    """Judge some subtasks exactly, each by itself."""
    shares: dict[int, list[Event]] = {s: [] for s in names}
    others: dict[int, None] = {}
    for stretch in open_fast(path).stretches(others):
        events: Sequence[Any] = stretch.events
        for event in events:
            if type(event) in _OWN:
                if (own := shares.get(event.s)) is None:
                    others[event.s] = None
                else:
                    own.append(event)
    connection.send(
        [
            examine_share(s, around, [events], names=names[s], finished=finished)
            for s, events in shares.items()
        ]
    )


def _every(kinds: Iterable[type]) -> Iterator[type]:
    """These kinds of event, and those that derive from them."""
    for kind in kinds:
        yield kind
        yield from _every(kind.__subclasses__())


_TOLD: Final = frozenset(_every(TOLD_TO_ALL))
_OWN: Final = frozenset(_every(OF_SHARES))
