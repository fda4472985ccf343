"""Where two histories part: named, in the right stream, and side by side with what follows."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explore.difference import ComparedRun, measured, parting_of, spread, verdicts_of
from harness.history.event_fields import claims_of, well_formed
from harness.history.header import Header, parse_header
from harness.judge.checkers.judge import judge

Json = dict[str, Any]
OPERATOR = {"mode": "ordered", "capacity": 4, "timeout_ms": 0}


def run_of(told: list[Json], *, in_one_order: bool = True) -> ComparedRun:
    events = [{"n": n, "t": 10 * n, **event} for n, event in enumerate(told, 1)]
    header = parse_header({"history": 1, "operator": OPERATOR})
    assert isinstance(header, Header)
    parsed = [well_formed(event, claims_of(header)).event for event in events]
    judged = judge(header, [event for event in parsed if event is not None])
    return ComparedRun(name="x", events=events, judgement=judged, in_one_order=in_one_order, seed=1)


def record(number: int, s: int = 0) -> list[Json]:
    own = {"s": s, "a": 1, "id": 10 * s + number}
    return [
        {"k": "in", "pos": number, **own},
        {"k": "call", "try": 1, **own},
        {"k": "res", "try": 1, "r": "ok", "final": True, "v": ["v"], **own},
        {"k": "out", "j": 0, "v": "v", **own},
    ]


def start(s: int = 0) -> Json:
    return {"k": "start", "s": s, "a": 1, "from": None, "pos": 0}


TWO = [start(), *record(0), *record(1)]
OTHER = [start(1), *record(0, 1)]


def test_a_run_and_itself_do_not_part() -> None:
    assert parting_of(run_of(TWO), run_of(TWO)) is None


@pytest.mark.parametrize("in_one_order", [True, False])
def test_values_that_differ_only_far_behind_their_beginning_are_other_contents(*, in_one_order: bool) -> None:
    left, right = ([*TWO[:4], {**TWO[4], "v": 99 * "x" + end}, *TWO[5:]] for end in "ab")

    parting = parting_of(run_of(left, in_one_order=in_one_order), run_of(right, in_one_order=in_one_order))

    assert parting is not None
    assert parting.name == "out changed"
    assert "other contents: v: " in parting.say
    assert parting.say.endswith("which go on differently")


@pytest.mark.parametrize(
    ("right", "name"),
    [
        ([*TWO[:4], {**TWO[4], "v": "other"}, *TWO[5:]], "out changed"),
        ([*TWO[:4], *TWO[5:]], "out only left"),
        ([*TWO[:5], {**TWO[4], "j": 1}, *TWO[5:]], "out only right"),
        ([*TWO[:4], *TWO[5:8], TWO[4], TWO[8]], "out moved"),
        (TWO[:-1], "out only left"),
    ],
)
def test_the_first_difference_has_a_name(right: list[Json], name: str) -> None:
    parting = parting_of(run_of(TWO), run_of(right))

    assert parting is not None
    assert parting.name == name
    assert parting.stream == "subtask 0"
    assert not all(same for _, _, same in parting.rows)


def test_another_interleaving_of_subtasks_is_a_difference_at_level_sim_only() -> None:
    one, other = [*TWO, *OTHER], [*OTHER, *TWO]

    simulated = parting_of(run_of(one), run_of(other))

    assert simulated is not None
    assert simulated.stream == "all events"
    assert parting_of(run_of(one, in_one_order=False), run_of(other, in_one_order=False)) is None


def test_the_same_events_at_other_times_are_told_as_that() -> None:
    late = run_of(TWO)
    moved = ComparedRun(
        name="late",
        events=[{**event, "t": event["t"] + 5 * (event["n"] > 4)} for event in late.events],
        judgement=late.judgement,
        in_one_order=True,
        seed=1,
    )

    parting = parting_of(late, moved)

    assert parting is not None
    assert parting.name == "out other times"
    assert parting.left_n == 5


def test_counts_latencies_and_verdicts_are_told_with_their_spread() -> None:
    runs = [run_of(TWO), run_of(TWO[:5])]

    found = measured(runs)

    assert found["events out"] == (1.0, 1.5, 2.0)
    assert found["latency of results, 50 %, ms"] == (0.03, 0.03, 0.03)
    assert sum(verdicts_of(runs)["verdict"].values()) == 2
    assert spread([]) is None


def test_of_real_runs_contents_count_before_the_machines_order() -> None:
    other = [*TWO[:1], *TWO[5:9], *TWO[1:4], {**TWO[4], "thread": "emitter"}]

    parting = parting_of(run_of(TWO, in_one_order=False), run_of(other, in_one_order=False))

    assert parting is not None
    assert parting.name == "out changed"
    assert parting.say.endswith('thread: absent and "emitter"')
    assert (parting.left_n, parting.right_n) == (5, 9)
