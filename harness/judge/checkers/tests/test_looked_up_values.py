"""V8 with `by_key` and `versions`: results belong to their key, and answers to a version that was current."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    ended,
    event,
    found,
    history,
    left,
    start,
    took,
    verdict,
)
from harness.system.choices import Choices
from tools.cases import each


def change(phase: str, ver: int, **key: Any) -> Json:
    return event("change", phase=phase, ver=ver, **key)


def asked(record: str, pos: int, **key: Any) -> Json:
    taken = took(record, pos, **key)
    del taken["expect"]
    return taken


def overlapping(seed: int) -> list[Json]:
    """Records of one key, called and answered in any order, while changes begin and end."""
    choices = Choices(seed, "results of one key")
    count = choices.between(2, 6)
    told = [start(), *(asked(f"r{pos}", pos, key="k") for pos in range(count))]
    waiting, running = list(range(count)), list[int]()
    ver, changing = 0, False
    while waiting or running:
        match choices.index(14):
            case 0 if not changing:
                ver, changing = ver + 1, True
                told.append(change("begin", ver, **({"key": "k"} if choices.index(2) else {})))
                key = {name: told[-1][name] for name in ("key",) if name in told[-1]}
            case 1 if changing:
                changing = False
                told.append(change("end", ver, **key))
            case 2 | 3 | 4 | 5 | 6 | 7 if waiting:
                running.append(waiting.pop(0))
                told.append(called(f"r{running[-1]}"))
            case _ if running and choices.index(2):
                record = running.pop(choices.index(len(running)))
                value = choices.index(4) == 0
                values = [value] * choices.between(1, 2)
                told += [answered(f"r{record}", v=values)]
                told += [left(f"r{record}", j=j, v=v) for j, v in enumerate(values)]
            case _:
                pass
    return history(told, ended() if choices.index(2) else [], by_key=True)


def differ(lines: list[Json], *, counted: bool) -> list[str]:
    """Literally: the records that differ from one with an earlier outcome, by outcome."""
    events = lines[1:]
    calls = {e["id"]: e["n"] for e in events if e["k"] == "call"}
    outcomes = {e["id"]: e["n"] for e in events if e["k"] == "res"}
    outs = {r: {e["j"]: e["v"] for e in events if e["k"] == "out" and e["id"] == r} for r in outcomes}
    begins = {e["ver"]: e["n"] for e in events if e["k"] == "change" and e["phase"] == "begin"}
    ends = {e["ver"]: e["n"] for e in events if e["k"] == "change" and e["phase"] == "end"}
    spans = [(begin, ends.get(ver, lines[-1]["n"])) for ver, begin in begins.items()]
    records = sorted(outcomes, key=lambda record: outcomes[record])
    convicted = []
    for one, other in combinations(records, 2):
        first, last = min(calls[one], calls[other]), outcomes[other]
        same = all(outs[one][j] == outs[other][j] for j in outs[one].keys() & outs[other].keys())
        alike = same and (not counted or len(outs[one]) == len(outs[other]))
        if not alike and not any(begin < last and end > first for begin, end in spans):
            convicted.append(other)
    return sorted(convicted, key=lambda record: outcomes[record])


@each("seed", range(60))
def test_it_finds_the_record_that_comparing_all_pairs_finds_trust6(seed: int) -> None:
    lines = overlapping(seed)

    found_ = [anomaly.id for anomaly in verdict("V8", lines).anomalies]

    assert found_ == differ(lines, counted=lines[-1]["k"] == "ended")[:1]


def test_comparing_all_pairs_finds_some_and_not_all_trust6() -> None:
    convicted = [bool(differ(overlapping(seed), counted=True)) for seed in range(60)]

    assert 10 < sum(convicted) < 50


def test_an_inconsistent_key_is_told_once_trust6() -> None:
    parts = [
        [asked(r, pos, key=[1]), called(r), answered(r, v=[r]), left(r, v=r)] for pos, r in enumerate("abc")
    ]

    (anomaly,) = verdict("V8", history(start(), *parts, ended(), by_key=True)).anomalies

    assert (anomaly.id, anomaly.events) == ("b", (4, 5, 8, 9))
    assert anomaly.say.startswith(
        'of key [1] output 0 of record "a" is "a", but output 0 of record "b" is "b"'
    )


def test_records_without_a_key_and_without_a_call_are_not_compared_trust6() -> None:
    parts = [[asked(r, pos), called(r), answered(r, v=[r]), left(r, v=r)] for pos, r in enumerate("ab")]
    uncalled = [[asked(r, pos, key=1), answered(r, v=[r]), left(r, v=r)] for pos, r in enumerate("ab")]

    assert found("V8", history(start(), *parts, ended(), by_key=True)) == []
    assert found("V8", history(start(), *uncalled, ended(), by_key=True)) == []


def versions(ver: int, *told: Json, **res: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Record a of key k is called (event 5) after version 1 was written (3, 4), and answered from `ver`."""
    first = [
        start(),
        took("a", 0, key="k"),
        change("begin", 1, key="k"),
        change("end", 1, key="k"),
        called("a"),
    ]
    return found("V8", history(first, answered("a", ver=ver, **res), left("a"), *told, versions=True))


def test_a_stale_answer_cites_change_call_and_answer_trust6() -> None:
    assert versions(0) == [("stale", (4, 5, 6))]
    assert versions(1) == []


def test_a_future_answer_cites_the_change_that_came_too_late_trust6() -> None:
    assert versions(2) == [("future", (5, 6))]
    assert versions(2, change("begin", 2)) == [("future", (5, 6, 8))]


def test_an_answer_without_its_call_or_of_another_try_is_not_judged_trust6() -> None:
    assert versions(0, **{"try": 2}) == []


def test_each_record_and_attempt_is_told_once_trust6() -> None:
    assert versions(0, answered("a", ver=0)) == [("stale", (4, 5, 6))]
