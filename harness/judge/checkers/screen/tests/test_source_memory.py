"""What comes again is compared with what came first; what was let go is not taken on trust."""

from __future__ import annotations

import pytest

from harness.history.event import Id, Wm
from harness.judge.checkers.screen.attempt import SourceMemory
from harness.judge.checkers.screen.totals import Irregular


def taken(*marks: Wm) -> SourceMemory:
    ids: list[Id] = []
    memory = SourceMemory(ids.append)
    for mark in marks:
        memory.keep(mark)
        memory.high += 1
    return memory


def mark(pos: int, w: int = 5) -> Wm:
    return Wm(n=pos, t=0, s=0, a=1, pos=pos, w=w)


def test_what_came_before_may_come_again() -> None:
    memory = taken(mark(0), mark(1, 6))

    memory.again(mark(1, 6))

    assert memory.high == 2


def test_another_element_at_its_position_is_irregular() -> None:
    with pytest.raises(Irregular):
        taken(mark(0), mark(1, 6)).again(mark(1))


def test_what_was_let_go_is_irregular_even_if_its_neighbour_looks_like_it() -> None:
    memory = taken(mark(0), mark(1))

    memory.let_go(1)

    with pytest.raises(Irregular):
        memory.again(mark(0))
