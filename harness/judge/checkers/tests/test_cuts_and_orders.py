"""However a history is cut and merged, and however its subtasks are interleaved, the verdict is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from harness.history.event import AttemptEvent, Event
from harness.history.header import Header
from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.judge import judge, judge_trace
from harness.judge.checkers.tests.dressed_histories import dressed_history
from harness.judge.checkers.tests.small_histories import text
from harness.judge.checkers.tests.wild_histories import wild_history
from harness.system.choices import Choices
from tools.cases import each

Json = dict[str, Any]
SEEDS = range(8)
PIECES_MAX = 6
OF_ONE_SUBTASK = {"start", "restore", "in", "wm", "call", "res", "out", "owm", "snap", "dead", "failed", "end",
                  "ended", "close", "kill"}  # fmt: skip


def read(lines: list[Json]) -> tuple[Header, list[Event]]:
    reader = open_text(text(lines))
    events = list(reader.events())
    assert reader.header is not None
    assert reader.breaches == []
    return reader.header, events


@each("seed", SEEDS)
@each("history", [wild_history, dressed_history], ids=["wild", "legal"])
def test_however_a_history_is_cut_in_time_and_by_subtask_the_judgement_is_the_same(
    history: Any, seed: int
) -> None:
    """Each stretch of time is cut again into the events of each subtask and those of none."""
    header, events = read(history(seed))
    choices = Choices(seed, "where it is cut")

    trace = Trace(header)
    for stretch in _stretches(events, choices):
        for piece in _by_subtask(stretch, choices):
            trace.merge(Trace(header).extend(piece))

    assert judge_trace(trace) == judge(header, events)


def _stretches(events: list[Event], choices: Choices) -> Iterator[list[Event]]:
    cuts = sorted(choices.index(len(events) + 1) for _ in range(choices.between(1, PIECES_MAX)))
    for since, until in zip([0, *cuts], [*cuts, len(events)], strict=True):
        yield events[since:until]


def _by_subtask(stretch: list[Event], choices: Choices) -> Iterator[list[Event]]:
    pieces: dict[int | None, list[Event]] = {}
    for event in stretch:
        pieces.setdefault(event.s if isinstance(event, AttemptEvent) else None, []).append(event)
    waiting = list(pieces.values())
    while waiting:
        yield waiting.pop(choices.index(len(waiting)))


@each("seed", SEEDS)
def test_however_subtasks_are_interleaved_between_what_binds_them_the_verdict_is_the_same(seed: int) -> None:
    """Events of one moment, between two that belong to no subtask, may come in any order that each subtask keeps.

    But for what the page itself ties to the order between subtasks: which of two calls had a nonce first, and
    which element was there first when the wait was given up.
    """
    lines = _of_few_moments(_without_shared_nonces(wild_history(seed)))
    shuffled, numbers = _interleaved(lines, Choices(seed, "how they are interleaved"))

    assert _told(judge(*read(shuffled)), {}) == _told(judge(*read(lines)), numbers)


def _without_shared_nonces(lines: list[Json]) -> list[Json]:
    return [{k: v for k, v in e.items() if k != "nonce" or e["s"] == 0} for e in lines]


def _of_few_moments(lines: list[Json]) -> list[Json]:
    t, told = 0, [lines[0]]
    for event in lines[1:]:
        if event["k"] not in OF_ONE_SUBTASK:
            t += 700
        told.append({**event, "t": t})
    return told


def _interleaved(lines: list[Json], choices: Choices) -> tuple[list[Json], dict[int, int]]:
    """The lines in another order, and each event's old number with its new one."""
    order: list[Json] = []
    block: list[Json] = []
    for event in [*lines[1:], None]:
        if event is not None and event["k"] in OF_ONE_SUBTASK:
            block.append(event)
            continue
        while block:
            s = block[choices.index(len(block))]["s"]
            block.remove(first := next(e for e in block if e["s"] == s))
            order.append(first)
        order += [event] if event is not None else []
    numbers = {event["n"]: n for n, event in enumerate(order, start=1)}
    return [lines[0], *({**event, "n": numbers[event["n"]]} for event in order)], numbers


def _told(judgement: Judgement, numbers: dict[int, int]) -> Any:
    """What is said of each invariant, witnesses and all, by the new numbers."""
    return [
        (v.invariant, v.outcome, Counter(_named(v.invariant, a, numbers) for a in v.anomalies))
        for v in judgement.invariants
    ]


def _named(invariant: str, anomaly: Any, numbers: dict[int, int]) -> Any:
    if invariant in {"V16", "V18"}:
        return anomaly.kind
    witnesses = tuple(sorted(numbers.get(n, n) for n in anomaly.events))
    return (anomaly.kind, anomaly.s, anomaly.id, anomaly.w, anomaly.c, witnesses)
