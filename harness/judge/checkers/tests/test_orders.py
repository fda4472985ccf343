"""However the subtasks of a history are interleaved, the verdict is the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.history.event import Event
from harness.history.header import Header
from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge
from harness.judge.checkers.tests.small_histories import text
from harness.judge.checkers.tests.wild_histories import wild_history
from harness.system.choices import Choices
from tools.cases import each

Json = dict[str, Any]
SEEDS = range(8)
OF_ONE_SUBTASK = {"start", "restore", "in", "wm", "call", "res", "out", "owm", "snap", "dead", "failed", "end",
                  "ended", "close", "kill"}  # fmt: skip


def read(lines: list[Json]) -> tuple[Header, list[Event]]:
    reader = open_text(text(lines))
    events = list(reader.events())
    assert reader.header is not None
    assert reader.breaches == []
    return reader.header, events


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
