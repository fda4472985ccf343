"""Phases: a hook fires at its phase and hit, counted over the subtask's whole life, and once in it."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from harness.faults.parts.parts import Upstream
from harness.faults.parts.triggers import NOT_RECORDED, PHASES, Phase
from harness.history.event import Call, End, Ended, Event, In, Out, Owm, Res, Snap, Start, Wm
from harness.history.journal import Journal
from harness.history.merge import read_leftovers
from harness.history.notes import AttemptNote, Dies, Reached
from harness.history.recorder import Recorder, attempt_file
from harness.history.tests.lines import line
from harness.scenario.moments import Awaited
from harness.sut.neighbours import UpstreamOperator
from harness.sut.phases import EarlierAttempts, PhaseHook, PhaseHooks, past_of, read_past
from harness.sut.positions import HeldUpstream, Replay
from reference_impl.elements import Watermark
from tools.cases import each


class Died(BaseException):
    """In place of the signal, which ends a process, too, whatever it catches."""


class Life:
    """Subtask 1's attempts, one after the other, in one folder."""

    def __init__(self, folder: Path, *kills: tuple[str, str, int]) -> None:
        self._folder = folder
        self._kills = kills
        self._attempts = 0

    def attempt(self, *phases: str) -> int:
        """Go through `phases` as an attempt does; how many were survived."""
        self._attempts += 1
        past = read_past(self._folder, subtask=1, attempt=self._attempts)
        path = attempt_file(self._folder, subtask=1, attempt=self._attempts)
        with Recorder(path) as recorder:
            journal = Journal(recorder, subtask=1, attempt=self._attempts)
            hooks = PhaseHooks([_kill(journal, *kill) for kill in self._kills], past=past, journal=journal)
            for survived, phase in enumerate(phases):
                try:
                    _go_through(phase, journal, hooks)
                except Died:
                    return survived
        return len(phases)


def _kill(journal: Journal, fault: str, phase: str, hit: int) -> PhaseHook:
    def act() -> None:
        journal.note(Dies(fault=fault, phase=phase, hit=hit, how="sigkill"))
        raise Died

    at = Phase.model_validate({"phase": phase, "hit": hit})
    return PhaseHook(waits=Awaited(fault=fault, when=at, subtask=None), act=act)


def _go_through(phase: str, journal: Journal, hooks: PhaseHooks) -> None:
    """With the line before or after it, where it has one, as the attempt has it."""
    match phase:
        case "snap.end":
            journal.event(Snap, c=1, pos=1, elements=[])
        case "call":
            journal.called(id=1, attempt=1)
        case "accept":
            journal.event(Wm, pos=1, w=1)
        case "wm":
            journal.event(Owm, w=1)
        case "drain":
            journal.event(End)
    hooks.reach(phase)
    if phase == "commit.post":
        journal.committed(1)


SOME = each("phase", ["snap.end", "commit.post", "call", "accept", "wm", "snap.mid", "commit.pre", "notify"])


@SOME
def test_a_hook_fires_at_its_hit(tmp_path: Path, phase: str) -> None:
    assert Life(tmp_path, ("kill", phase, 3)).attempt(*[phase] * 9) == 2


@SOME
def test_a_hook_fires_once_in_a_subtasks_life(tmp_path: Path, phase: str) -> None:
    life = Life(tmp_path, ("kill", phase, 3))

    assert [life.attempt(*[phase] * 9) for _ in range(3)] == [2, 9, 9]


@SOME
def test_hits_are_counted_over_earlier_attempts(tmp_path: Path, phase: str) -> None:
    life = Life(tmp_path, ("one", phase, 2), ("two", phase, 5))

    assert [life.attempt(*[phase] * 9) for _ in range(3)] == [1, 2, 9]


@SOME
def test_an_attempt_that_ended_otherwise_counts_too(tmp_path: Path, phase: str) -> None:
    life = Life(tmp_path, ("kill", phase, 4))

    assert [life.attempt(phase, phase), life.attempt(*[phase] * 9)] == [2, 1]


def test_other_phases_are_not_counted(tmp_path: Path) -> None:
    life = Life(tmp_path, ("kill", "snap.end", 2))

    assert life.attempt("call", "call", "snap.end", "commit.post", "snap.end") == 4


def test_a_phase_without_an_event_is_noted_only_where_a_hook_waits_for_it(tmp_path: Path) -> None:
    Life(tmp_path, ("kill", "snap.mid", 9)).attempt("snap.mid", "commit.pre", "snap.mid")

    reached = [one.phase for one in read_leftovers(tmp_path).lines if isinstance(one, Reached)]
    assert reached == ["snap.mid", "snap.mid"]


def test_every_phase_is_counted_by_an_event_or_by_a_note(tmp_path: Path) -> None:
    """Else a hook at a later hit would wait for ever once an attempt has died."""
    kinds: tuple[type[Event], ...] = (Start, In, Wm, Call, Res, Out, Owm, Snap, End, Ended)

    shown = past_of(line(kind) for kind in kinds).hits

    assert sorted({*shown, *NOT_RECORDED}) == sorted(PHASES)


def test_an_attempt_that_left_no_file_or_a_torn_line_is_no_obstacle(tmp_path: Path) -> None:
    """Attempt 1 died before it wrote; attempt 2 while it wrote."""
    torn = b'{"i":0,"t":1,"k":"snap","s":1,"a":2,"c":1,"pos":1,"elements":[]}\n{"i":1,"t":2,"k":"sna'
    attempt_file(tmp_path, subtask=1, attempt=2).write_bytes(torn)

    assert read_past(tmp_path, subtask=1, attempt=3).hits == {"snap.end": 1}


def test_the_end_is_written_down_before_it_comes(tmp_path: Path) -> None:
    Life(tmp_path, ("kill", "commit.post", 2)).attempt("commit.post", "commit.post")

    (note,) = (one for one in read_leftovers(tmp_path).lines if isinstance(one, Dies))
    assert (note.fault, note.phase, note.hit, note.how) == ("kill", "commit.post", 2, "sigkill")
    assert (note.s, note.a) == (1, 1)


class _Heard:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def reach(self, phase: str) -> None:
        self.phases.append(phase)

    def note(self, note: AttemptNote) -> None:
        self.phases.append(str(note))


def test_where_no_hook_waits_nothing_is_counted_or_written() -> None:
    journal = _Heard()
    hooks = PhaseHooks([], past=EarlierAttempts(), journal=journal)

    for phase in PHASES:
        hooks.reach(phase)

    assert journal.phases == []


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_replay_tells_when_half_of_it_and_when_all_of_it_was_taken(count: int) -> None:
    heard = _Heard()
    elements = [Watermark(timestamp=number, position=number) for number in range(count)]

    for element in Replay(elements, heard):
        assert isinstance(element, Watermark)
        heard.reach(str(element.timestamp))

    half = [str(number) for number in range(count // 2)]
    rest = [str(number) for number in range(count // 2, count)]
    assert heard.phases == [*half, "restore.mid", *rest, "restore.end"]


def test_counting_what_the_operator_in_front_held_is_no_replay() -> None:
    heard = _Heard()
    held = [HeldUpstream(element=Watermark(timestamp=number, position=number)) for number in (1, 2)]
    in_front = UpstreamOperator(Upstream(capacity=2), reader=Mock(), loop=Mock(), copy_value=None)

    assert in_front.held(Replay([Watermark(timestamp=0, position=0), *held], heard)) == 2
    assert heard.phases == []
