"""The difference of two runs: where they part, side by side with what follows, and what they measure.

Answers to a debugger of replicas: the first event that differs says more than all that follow from it. Runs are
compared stream by stream (a subtask each, and the rest of the run), because how subtasks interleave is no doing of the
operator's; of two runs at level sim with one seed whose streams are the same, the order between them is compared too,
and then the times. Of real runs, whose order is the machine's, contents count before order. Numbers (`n`), mails and
nonces are no difference of events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from statistics import median
from typing import Any, Final

from harness.history.values import brief
from harness.history.verdict import Judgement
from harness.system.json_types import Json

_FREE: Final = frozenset({"n", "t", "mail", "nonce"})
"""Fields that are no difference of two events."""
_FREE_OF_THE_MACHINE: Final = _FREE | {"seq", "evidence", "elements", "pos", "c"}
"""Beside these, what the machine's order decides where runs are not simulated."""
_NAMES: Final = ("id", "try", "j", "c", "pos", "w", "f", "phase", "table", "ver", "seq")
"""Fields that name an event of its kind; with the same name and other fields it is the same event, changed."""
_BEFORE, _AFTER, _LOOKED_AT = 3, 12, 60
_PERCENT = 100
_US_IN_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One side's run: its events as JSON, and their judgement."""

    name: str
    events: Sequence[Json]
    judgement: Judgement
    in_one_order: bool
    """Whether the order of all its events means something: at level sim."""
    seed: int | None = None


class PartingKind(StrEnum):
    """How two runs part, by name."""

    MOVED = "moved"
    CHANGED = "changed"
    ONLY_LEFT = "only left"
    ONLY_RIGHT = "only right"
    TIMES = "other times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first difference of two runs."""

    kind: PartingKind
    event: str
    """The kind of the event (`snap`)."""
    say: str
    stream: str
    """`subtask 0`, `the rest of the run`, `all events`."""
    left_n: int | None
    right_n: int | None
    rows: tuple[tuple[str, str, bool], ...]
    """Left, right, and whether they are the same: what precedes, the difference, and what follows."""

    @property
    def name(self) -> str:
        """`snap moved`."""
        return f"{self.event} {self.kind}"

    def as_json(self) -> Json:
        rows = [{"left": left, "right": right, "same": same} for left, right, same in self.rows]
        return {
            "name": self.name,
            "say": self.say,
            "stream": self.stream,
            "left_n": self.left_n,
            "right_n": self.right_n,
            "rows": rows,
        }


def parting_of(left: ComparedRun, right: ComparedRun) -> Parting | None:
    """The first difference, None if there is none."""
    both = (_streams(left.events), _streams(right.events))
    pairs = {name: (both[0].get(name, []), both[1].get(name, [])) for name in sorted({*both[0], *both[1]})}
    if not (left.in_one_order and right.in_one_order):
        told = [parting for name, (one, other) in pairs.items() if (parting := _changed_in(one, other, name))]
        if told:
            return min(told, key=lambda parting: parting.left_n or 0)
    found = [parting for name, (one, other) in pairs.items() if (parting := parting_in(one, other, name))]
    if found:
        return min(found, key=lambda parting: (parting.left_n is None, parting.left_n or 0))
    if not (left.in_one_order and right.in_one_order and left.seed == right.seed):
        return None
    return parting_in(left.events, right.events, "all events") or _timing(left, right)


def _streams(events: Iterable[Json]) -> dict[str, list[Json]]:
    streams: dict[str, list[Json]] = {}
    for event in events:
        of_attempt = "s" in event and "a" in event and event["k"] not in {"commit", "ack"}
        streams.setdefault(f"subtask {event['s']}" if of_attempt else "the rest of the run", []).append(event)
    return streams


def _what(event: Json) -> str:
    """The event without what is no difference."""
    return _exactly({name: value for name, value in event.items() if name not in _FREE})


def _named(event: Json, *, without: str = "") -> tuple[object, ...]:
    names = [_exactly(event.get(name)) for name in _NAMES if name != without]
    return (event["k"], event.get("s"), event.get("a"), *names)


def _exactly(value: object) -> str:
    """Equal for equal JSON only."""
    return json.dumps(value, sort_keys=True)


def parting_in(left: Sequence[Json], right: Sequence[Json], stream: str) -> Parting | None:
    """The first difference of two lists of events; messages call them `stream`."""
    at = next(
        (i for i, pair in enumerate(zip(left, right, strict=False)) if _what(pair[0]) != _what(pair[1])), None
    )
    if at is None:
        at = min(len(left), len(right))
        if len(left) == len(right):
            return None
    one, other = left[at] if at < len(left) else None, right[at] if at < len(right) else None
    kind, say = _said(one, other, left[at:], right[at:])
    event = one if one is not None and kind is not PartingKind.ONLY_RIGHT else other
    assert event is not None, "one of two sequences that differ has an event here"
    return Parting(
        kind=kind,
        event=event["k"],
        say=say,
        stream=stream,
        left_n=None if one is None else one["n"],
        right_n=None if other is None else other["n"],
        rows=tuple(_rows(left, right, at, at)),
    )


def _changed_in(left: Sequence[Json], right: Sequence[Json], stream: str) -> Parting | None:
    """The first event that both sides have, wherever, and that has other contents: more than the machine's order."""
    places: dict[tuple[Any, ...], int] = {}
    for place, event in enumerate(right):
        places.setdefault(_named(event, without="seq"), place)
    for at, one in enumerate(left):
        place = places.get(_named(one, without="seq"), -1)
        fields = _differing(one, right[place], free=_FREE_OF_THE_MACHINE) if place >= 0 else []
        if fields:
            return Parting(
                kind=PartingKind.CHANGED,
                event=one["k"],
                say=_changed(one, right[place], fields),
                stream=stream,
                left_n=one["n"],
                right_n=right[place]["n"],
                rows=tuple(_rows(left, right, at, place)),
            )
    return None


def _differing(one: Json, other: Json, *, free: frozenset[str] = _FREE) -> list[str]:
    return [name for name in {**one, **other} if name not in free and not _agree(one, other, name)]


def _agree(one: Json, other: Json, name: str) -> bool:
    return (name in one) == (name in other) and _exactly(one.get(name)) == _exactly(other.get(name))


def _changed(one: Json, other: Json, fields: Sequence[str]) -> str:
    return f"{_title(one)} has other contents: {'; '.join(_both(one, other, name) for name in fields)}"


def _both(one: Json, other: Json, name: str) -> str:
    left, right = _value(one, name), _value(other, name)
    return f"{name}: {left} and {right}" if left != right else f"{name}: {left}, which go on differently"


def _said(
    one: Json | None, other: Json | None, left: Sequence[Json], right: Sequence[Json]
) -> tuple[PartingKind, str]:
    if one is None or other is None:
        kind, event = (PartingKind.ONLY_RIGHT, other) if one is None else (PartingKind.ONLY_LEFT, one)
        assert event is not None
        return kind, f"{_shown(event)} comes after the other side's last event"
    if _named(one) == _named(other):
        return PartingKind.CHANGED, _changed(one, other, _differing(one, other))
    later = next((i for i, event in enumerate(right) if _named(event) == _named(one)), None)
    sooner = next((i for i, event in enumerate(left) if _named(event) == _named(other)), None)
    if later is None:
        return PartingKind.ONLY_LEFT, f"{_title(one)} is missing on the right, which has {_title(other)} here"
    if sooner is None:
        return PartingKind.ONLY_RIGHT, f"{_title(other)} is missing on the left, which has {_title(one)} here"
    return (
        PartingKind.MOVED,
        f"{_title(one)} comes {later} events later on the right, which has {_title(other)} here",
    )


def _value(event: Json, name: str) -> str:
    return brief(event[name]) if name in event else "absent"


def _timing(left: ComparedRun, right: ComparedRun) -> Parting | None:
    """The first event that comes at another time, in two runs with the same events."""
    pairs = zip(left.events, right.events, strict=True)
    at = next((i for i, (one, other) in enumerate(pairs) if one["t"] != other["t"]), None)
    if at is None:
        return None
    one, other = left.events[at], right.events[at]
    return Parting(
        kind=PartingKind.TIMES,
        event=one["k"],
        say=f"the events are the same; {_title(one)} comes at {_ms(one)} and {_ms(other)}",
        stream="all events",
        left_n=one["n"],
        right_n=other["n"],
        rows=tuple(_rows(left.events, right.events, at, at)),
    )


def _rows(
    left: Sequence[Json], right: Sequence[Json], at: int, place: int
) -> Iterator[tuple[str, str, bool]]:
    """Around the difference, which is at `at` on the left and at `place` on the right."""
    before = min(_BEFORE, at, place)
    for one, other in zip(left[at - before : at], right[place - before : place], strict=True):
        yield _shown(one), _shown(other), _what(one) == _what(other)
    ours, theirs = left[at : at + _LOOKED_AT], right[place : place + _LOOKED_AT]
    matcher = SequenceMatcher(None, [_what(e) for e in ours], [_what(e) for e in theirs], autojunk=False)
    rows: list[tuple[str, str, bool]] = []
    for tag, begin, end, other_begin, other_end in matcher.get_opcodes():
        for i in range(max(end - begin, other_end - other_begin)):
            here = _shown(ours[begin + i]) if begin + i < end else ""
            there = _shown(theirs[other_begin + i]) if other_begin + i < other_end else ""
            rows.append((here, there, tag == "equal"))
    yield from rows[:_AFTER]


def _title(event: Json) -> str:
    """Such as `snap 3 of subtask 0`."""
    named = next(
        (f" {brief(event[name])}" for name in ("id", "c", "w", "f", "table", "pos") if name in event), ""
    )
    return f"`{event['k']}`{named}" + (f" of subtask {event['s']}" if "s" in event else "")


def _ms(event: Json) -> str:
    return f"{event['t'] / _US_IN_MS:.3f} ms"


def _shown(event: Json) -> str:
    fields = " ".join(
        f"{name}={brief(value, limit=30)}" for name, value in event.items() if name not in {*_FREE, "k"}
    )
    return f"{event['n']:>5} {_ms(event):>12} {event['k']:<8} {fields}"


# ---------------------------------------------------------------------------------------------- measures


def spread(values: Sequence[float]) -> tuple[float, float, float] | None:
    """The least, the median and the greatest; None without a value."""
    return (min(values), float(median(values)), max(values)) if values else None


def measured(runs: Sequence[ComparedRun]) -> dict[str, tuple[float, float, float] | None]:
    """Counts, latency and recovery of one side: each with its spread over the runs."""
    counts = [Counter(f"events {event['k']}" for event in run.events) for run in runs]
    found: dict[str, list[float]] = {
        name: [float(count[name]) for count in counts] for name in sorted({n for c in counts for n in c})
    }
    for run in runs:
        for name, value in (*_latencies(run), *_recovery(run)):
            found.setdefault(name, []).append(value)
    return {name: spread(values) for name, values in found.items()}


def _latencies(run: ComparedRun) -> Iterator[tuple[str, float]]:
    """The times from the first `in` of a record to its first `out`, and from a call to its answer."""
    taken: dict[Any, int] = {}
    left: dict[Any, int] = {}
    asked: dict[Any, int] = {}
    calls: list[float] = []
    for event in run.events:
        if event["k"] == "in":
            taken.setdefault(event["id"], event["t"])
        elif event["k"] == "out" and event["id"] in taken:
            left.setdefault(event["id"], event["t"] - taken[event["id"]])
        elif event["k"] in {"call", "res"}:
            call = tuple(event[name] for name in ("s", "a", "id", "try"))
            if event["k"] == "call":
                asked[call] = event["t"]
            elif call in asked:
                calls.append(event["t"] - asked.pop(call))
    for what, lags in (("latency of results", sorted(left.values())), ("latency of calls", sorted(calls))):
        for percent in (50, 99) if lags else ():
            place = min(len(lags) - 1, len(lags) * percent // _PERCENT)
            yield f"{what}, {percent} %, ms", lags[place] / _US_IN_MS


def _recovery(run: ComparedRun) -> Iterator[tuple[str, float]]:
    """The longest of the run's faults and kills."""
    costs = run.judgement.recovery.costs if run.judgement.recovery else ()
    for name in ("detect_us", "first_output_us", "steady_us"):
        known = [value for cost in costs if (value := getattr(cost, name)) is not None]
        if known:
            yield f"recovery, {name.removesuffix('_us').replace('_', ' ')}, ms", max(known) / _US_IN_MS


def verdicts_of(runs: Sequence[ComparedRun]) -> dict[str, dict[str, int]]:
    """How often each invariant, and the whole (`verdict`), had each outcome."""
    found: dict[str, Counter[str]] = {}
    for run in runs:
        found.setdefault("verdict", Counter())[str(run.judgement.outcome)] += 1
        for verdict in run.judgement.invariants:
            kinds = sorted({anomaly.kind for anomaly in verdict.anomalies})
            told = f"{verdict.outcome} ({', '.join(kinds)})" if kinds else str(verdict.outcome)
            found.setdefault(verdict.invariant, Counter())[told] += 1
    return {name: dict(sorted(counts.items())) for name, counts in found.items()}
