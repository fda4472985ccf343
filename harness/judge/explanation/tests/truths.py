"""Whether what an explanation says is so: each form of its sentences, checked against all events by brute force."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from harness.history.verdict import Anomaly, Explanation

Json = dict[str, Any]
LET = re.compile(r"(?P<name>e\d+) = .+ \(event (?P<n>-?\d+), at .+\)", re.DOTALL)
FAULT = re.compile(r"z\d+ = fault .+ \((events -?\d+ to -?\d+|from event -?\d+, not ended).*\)", re.DOTALL)
NAME = re.compile(r"\be\d+\b")
LET_MAX = 16

Claim = Callable[[Json, Anomaly, list[Json], dict[str, Json]], bool]
"""Of the words found, the anomaly, all events and those that *Let* names: whether the sentence is so."""


def untruths(anomaly: Anomaly, explanation: Explanation, events: list[Json]) -> list[str]:
    """All that is wrong with an explanation of an anomaly of the history that holds `events`."""
    by_number = {event["n"]: event for event in events}
    found = [match for line in explanation.let if (match := LET.fullmatch(line))]
    faults = [line for line in explanation.let if FAULT.fullmatch(line)]
    named = {match["name"]: by_number.get(int(match["n"]), {}) for match in found}
    problems = []
    if len(found) + len(faults) != len(explanation.let):
        problems.append(f"not every line of Let is an event or a fault: {explanation.let}")
    if not all(named.values()):
        problems.append(f"an event that does not exist: {explanation.let}")
    if len(named) < LET_MAX and not set(anomaly.events) <= {event["n"] for event in named.values() if event}:
        problems.append(f"a witness is not named: {anomaly.events} in {explanation.let}")
    if sum(line.startswith("However, ") for line in explanation.then) != 1:
        problems.append(f"not one contradiction: {explanation.then}")
    last = explanation.then[-1]
    if not (last.startswith("However, ") and last.endswith(": a contradiction.")):
        problems.append(f"the contradiction is not last: {explanation.then}")
    return problems or list(_untrue(anomaly, explanation, events, named))


def _untrue(
    anomaly: Anomaly, explanation: Explanation, events: list[Json], named: dict[str, Json]
) -> Iterator[str]:
    for line in explanation.then:
        if missing := set(NAME.findall(line)) - named.keys():
            yield f"{missing} is not defined: {line}"
            continue
        for pattern, claim in CLAIMS:
            for match in pattern.finditer(line):
                if not claim(match.groupdict(), anomaly, events, named):
                    yield f"not so: {line} ({explanation.let})"


def _of(events: list[Json], anomaly: Anomaly, *kinds: str) -> list[Json]:
    """The events of these kinds of the anomaly's subtask."""
    return [event for event in events if event["k"] in kinds and event.get("s") == anomaly.s]


def _before(events: list[Json], one: Json) -> list[Json]:
    """Those of the same attempt before an event."""
    return [event for event in events if event.get("a") == one["a"] and event["n"] < one["n"]]


def _holds(elements: list[Json], anomaly: Anomaly) -> bool:
    name, value = ("w", anomaly.w) if anomaly.id is None else ("id", anomaly.id)
    return any(element.get(name) == value for element in elements)


def _is_outcome(event: Json) -> bool:
    return event["k"] == "dead" or event.get("final") is True


def _ordered(words: Json, _anomaly: Anomaly, _events: list[Json], named: dict[str, Json]) -> bool:
    return bool((named[words["a"]]["n"] < named[words["b"]]["n"]) == (words["how"] == "before"))


def _committed(words: Json, anomaly: Anomaly, events: list[Json], _named: dict[str, Json]) -> bool:
    return not any(event["c"] == int(words["c"]) for event in _of(events, anomaly, "commit"))


def _no_outcome(_words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    outcomes = _before(_of(events, anomaly, "res", "dead"), named[_words["b"]])
    return not any(_is_outcome(event) and event["id"] == anomaly.id for event in outcomes)


def _nothing_left(words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    outs = _before(_of(events, anomaly, "out"), named[words["b"]])
    return not any(event["id"] == anomaly.id for event in outs)


def _no_watermark_left(words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    owms = _before(_of(events, anomaly, "owm"), named[words["b"]])
    return not any(event["w"] == anomaly.w for event in owms)


def _lists(words: Json, anomaly: Anomaly, _events: list[Json], named: dict[str, Json]) -> bool:
    listed = words["how"] == "lists"
    held = _holds(named[words["a"]]["elements"], anomaly)
    return held if listed else (not held or anomaly.id is None)


def _no_snap(words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    snaps = _of(events, anomaly, "snap")
    return not any(s["c"] == int(words["c"]) and s["n"] < named[words["b"]]["n"] for s in snaps)


def _never_out(_words: Json, anomaly: Anomaly, events: list[Json], _named: dict[str, Json]) -> bool:
    return not any(event["id"] == anomaly.id for event in _of(events, anomaly, "out"))


def _never_outcome(_words: Json, anomaly: Anomaly, events: list[Json], _named: dict[str, Json]) -> bool:
    found = _of(events, anomaly, "res", "dead")
    return not any(event["id"] == anomaly.id and _is_outcome(event) for event in found)


def _finished(_words: Json, _anomaly: Anomaly, events: list[Json], _named: dict[str, Json]) -> bool:
    last: dict[int, int] = {}
    for event in events:
        if "a" in event and event["k"] not in {"commit", "ack"}:
            last[event["s"]] = max(last.get(event["s"], 0), event["a"])
    ended = {(event["s"], event["a"]) for event in events if event["k"] == "ended"}
    rescaled = {s for event in events if event["k"] == "rescale" for s in event["of"]}
    return ended >= {(s, a) for s, a in last.items() if s not in rescaled}


def _no_row(_words: Json, anomaly: Anomaly, events: list[Json], _named: dict[str, Json]) -> bool:
    rows = [e for e in events if e["k"] == "row" and (e["table"], e["id"]) == (anomaly.table, anomaly.id)]
    return not any(anomaly.j is None or row["j"] == anomaly.j for row in rows)


def _row_count(words: Json, anomaly: Anomaly, events: list[Json], _named: dict[str, Json]) -> bool:
    return any(
        e["k"] == "read" and e["table"] == anomaly.table and e["rows"] == int(words["rows"]) for e in events
    )


def _behind(words: Json, anomaly: Anomaly, _events: list[Json], named: dict[str, Json]) -> bool:
    start, snap = named[words["a"]], named[words["b"]]
    return start["from"] == snap["c"] and not _holds(snap["elements"], anomaly)


def _not_taken(_words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    act = next(event for event in named.values() if event["n"] == anomaly.events[0])
    earlier = _before(_of(events, anomaly, "in", "restore"), act)
    return not any(e.get("id") == anomaly.id or _holds(e.get("elements", []), anomaly) for e in earlier)


def _followed(words: Json, _anomaly: Anomaly, _events: list[Json], named: dict[str, Json]) -> bool:
    one, other = named[words["a"]], named[words["b"]]
    waited_ms = f"{(other['t'] - one['t']) / 1000:.3f}"
    return bool(one["n"] < other["n"] and waited_ms == words["ms"])


def _nothing_followed(words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    outcome = next(event for event in named.values() if event["k"] == "res")
    own = [e for e in _of(events, anomaly, "call", "res", "dead") if e["a"] == int(words["number"])]
    later = [e for e in own if e["id"] == anomaly.id and e["n"] > outcome["n"]]
    return not any(e["k"] == "call" or _is_outcome(e) for e in later)


def _times_called(words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    calls = _before(_of(events, anomaly, "call"), named[words["b"]])
    return len([call for call in calls if call["id"] == anomaly.id]) == int(words["number"])


def _nothing_can(words: Json, anomaly: Anomaly, events: list[Json], named: dict[str, Json]) -> bool:
    """No fault that is on at the event can cause its kind."""
    on: dict[str, list[Json]] = {}
    for event in events:
        if event["k"] == "fault" and event["n"] < named[words["b"]]["n"]:
            named_alike = on.setdefault(event["f"], [])
            named_alike.append(event) if event["phase"] == "begin" else named_alike.pop(0)
    active = [fault for faults in on.values() for fault in faults if fault.get("s", anomaly.s) == anomaly.s]
    return not any(words["kind"] in fault.get("can", []) for fault in active)


CLAIMS: list[tuple[re.Pattern[str], Claim]] = [
    (re.compile(r"\b(?P<a>e\d+) comes (?P<how>before|after) (?P<b>e\d+)\b"), _ordered),
    (re.compile(r"\b(?P<a>e\d+) is visible (?P<how>before|after) (?P<b>e\d+)\.$"), _ordered),
    (re.compile(r"\b(?P<a>e\d+) stands at position (?P<p>-?\d+), before the cut of (?P<b>e\d+)"),
     lambda words, _a, _e, named: named[words["a"]]["pos"] < named[words["b"]]["pos"]),
    (re.compile(r"position (?P<p>-?\d+) comes before (?P<q>-?\d+)\b"),
     lambda words, _a, _e, _n: int(words["p"]) < int(words["q"])),
    (re.compile(r"(^No event commits epoch |in epoch )(?P<c>\d+)(?= of subtask|, which no event commits)"), _committed),
    (re.compile(r"^No outcome of record .+ had come.* when (?P<b>e\d+) left attempt"), _no_outcome),
    (re.compile(r"^By (?P<b>e\d+) no output of it had left attempt"), _nothing_left),
    (re.compile(r"^By (?P<b>e\d+) no such watermark had left attempt"), _no_watermark_left),
    (re.compile(r"^(?P<a>e\d+) (?P<how>lists|does not list) it"), _lists),
    (re.compile(r"took no snap of checkpoint (?P<c>\d+) before (?P<b>e\d+)"), _no_snap),
    (re.compile(r"^No output of it ever left"), _never_out),
    (re.compile(r"^No outcome of it ever came"), _never_outcome),
    (re.compile(r"^The run finished normally"), _finished),
    (re.compile(r"^(?P<a>e\d+) restored (?P<b>e\d+), whose cut is beyond the record"), _behind),
    (re.compile(r"^Table .+ holds no row of it\.$"), _no_row),
    (re.compile(r"^Table .+ was read to its end, e\d+, after (?P<rows>\d+) rows\.$"), _row_count),
    (re.compile(r"had neither taken in nor restored record"), _not_taken),
    (re.compile(r"^(?P<b>e\d+) followed (?P<a>e\d+), (?P<ms>[\d.]+) ms after it"), _followed),
    (re.compile(r"of it followed in attempt (?P<number>\d+)"), _nothing_followed),
    (re.compile(r"^Calls of the record in its attempt before (?P<b>e\d+): (?P<number>\d+)"), _times_called),
    (re.compile(r"^(?P<a>e\d+) names no cause"), lambda words, _a, _e, named: "by" not in named[words["a"]]),
    (re.compile(r"^No fault that was on at (?P<b>e\d+) can cause a `(?P<kind>\w+)`"), _nothing_can),
]  # fmt: skip
