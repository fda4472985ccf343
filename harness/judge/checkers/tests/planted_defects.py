"""One corruption at a time, planted into a legal history: each names the invariant that must convict it.

Each takes the lines of a history and the choices, and returns corrupted lines, or None where this history has no
place for it. Written on the JSON alone: it shares no code with the checkers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from harness.system.choices import Choices

Json = dict[str, Any]
Planting = Callable[[list[Json], Choices], list[Json] | None]

PLANTED: dict[str, tuple[str, str, dict[str, Any], Planting]] = {}
"""Name -> (invariant, class, what the model is fixed to, the corruption)."""


def plants(invariant: str, kind: str, **fixed: Any) -> Callable[[Planting], Planting]:
    def register(planting: Planting) -> Planting:
        PLANTED[planting.__name__] = (invariant, kind, fixed, planting)
        return planting

    return register


def renumbered(lines: list[Json]) -> list[Json]:
    """In the order given; an event that was moved back in time comes when the one before it does."""
    t = 0
    numbered = [lines[0]]
    for n, event in enumerate(lines[1:], start=1):
        t = max(t, event.get("t", 0))
        numbered.append({**event, "n": n, "t": t})
    return numbered


def places(lines: list[Json], k: str) -> list[int]:
    return [i for i, event in enumerate(lines) if event.get("k") == k]


def one(among: list[Any], choices: Choices) -> Any:
    return among[choices.index(len(among))] if among else None


@plants("V8", "lost", calm=True, plain=True, sink="rollback")
def a_result_vanishes(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    return None if place is None else lines[:place] + lines[place + 1 :]


@plants("V8", "duplicate", calm=True, sink="rollback")
def a_result_comes_twice(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    return None if place is None else [*lines[:place], lines[place], *lines[place:]]


@plants("V8", "wrong-value", calm=True, sink="rollback")
def a_result_is_altered(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    if place is None:
        return None
    lines[place]["v"] = ["altered"]
    return lines


@plants("V8", "phantom", calm=True, sink="rollback")
def a_result_of_nothing_appears(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    if place is None:
        return None
    ghost = {**lines[place], "id": "ghost"}
    return [*lines[:place], ghost, *lines[place:]]


@plants("V8", "duplicate", calm=True, sink="atomic", plain=True)
def an_epoch_is_committed_twice(lines: list[Json], choices: Choices) -> list[Json] | None:
    filled = [i for i in places(lines, "commit") if _emits(lines, i)]
    place = one(filled, choices)
    return None if place is None else [*lines[: place + 1], lines[place], *lines[place + 1 :]]


def _emits(lines: list[Json], commit: int) -> bool:
    """Whether a result left between the two snaps before this commit."""
    s = lines[commit]["s"]
    own = [e for e in lines[1:commit] if e.get("s") == s]
    snaps = [i for i, e in enumerate(own) if e["k"] == "snap"]
    begin = snaps[-2] if len(snaps) > 1 else 0
    return any(e["k"] == "out" for e in own[begin : snaps[-1]])


@plants("V1", "reordered", mode="ordered", calm=True, plain=True, sink="rollback")
def two_results_change_places(lines: list[Json], choices: Choices) -> list[Json] | None:
    outs = [i for i in places(lines, "out") if lines[i]["s"] == 0]
    pair = one(list(pairwise(outs)), choices)
    if pair is None:
        return None
    first, second = pair
    lines[first], lines[second] = lines[second], lines[first]
    return lines


@plants("V2", "overtook-watermark", mode="unordered", calm=True, plain=True, sink="rollback")
def a_result_leaves_before_its_segment(lines: list[Json], choices: Choices) -> list[Json] | None:
    pairs = []
    for place in places(lines, "out"):
        record = next(e for e in lines if e.get("k") == "in" and e["id"] == lines[place]["id"])
        marks = [
            e for e in lines if e.get("k") == "wm" and e["s"] == record["s"] and e["pos"] < record["pos"]
        ]
        if marks:
            last = max(marks, key=lambda e: e["pos"])
            left = next(i for i, e in enumerate(lines)
                        if e.get("k") == "owm" and e["s"] == record["s"] and e["w"] == last["w"])  # fmt: skip
            pairs.append((place, left))
    pair = one(pairs, choices)
    if pair is None:
        return None
    out, owm = pair
    return [*lines[:owm], lines[out], *lines[owm:out], *lines[out + 1 :]]


@plants("V5", "crossed", calm=True, plain=True, sink="rollback")
def a_watermark_is_forwarded_at_once(lines: list[Json], choices: Choices) -> list[Json] | None:
    pairs = []
    for left in places(lines, "owm"):
        s = lines[left]["s"]
        came = next(i for i, e in enumerate(lines)
                    if e.get("k") == "wm" and e["s"] == s and e["w"] == lines[left]["w"])  # fmt: skip
        between = [e for e in lines[came:left] if e["k"] == "out" and e["s"] == s]
        before = {e["id"] for e in lines[1:came] if e["k"] == "in" and e["s"] == s}
        if any(e["id"] in before for e in between):
            pairs.append((came, left))
    pair = one(pairs, choices)
    if pair is None:
        return None
    came, left = pair
    return [*lines[: came + 1], lines[left], *lines[came + 1 : left], *lines[left + 1 :]]


@plants("V4", "watermark-back", calm=True, plain=True, sink="rollback")
def two_watermarks_change_places(lines: list[Json], choices: Choices) -> list[Json] | None:
    marks = [i for i in places(lines, "owm") if lines[i]["s"] == 0]
    pair = one(list(pairwise(marks)), choices)
    if pair is None:
        return None
    first, second = pair
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def _completed_snaps(lines: list[Json]) -> list[int]:
    done = {e["c"] for e in lines if e.get("k") == "done"}
    return [i for i in places(lines, "snap") if lines[i]["c"] in done]


@plants("V10", "missing", calm=True, plain=True, sink="rollback")
def a_snap_forgets_an_element(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one([i for i in _completed_snaps(lines) if lines[i]["elements"]], choices)
    if place is None:
        return None
    elements = list(lines[place]["elements"])
    elements.pop(choices.index(len(elements)))
    lines[place] = {**lines[place], "elements": elements}
    return lines


@plants("V10", "skipped", calm=True, plain=True, sink="rollback")
def a_snap_stands_one_position_late(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(_completed_snaps(lines), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "pos": lines[place]["pos"] + 1}
    return lines


@plants("V10", "misordered", mode="ordered", calm=True, plain=True, sink="rollback")
def a_snap_is_stored_backwards(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one([i for i in _completed_snaps(lines) if len(lines[i]["elements"]) > 1], choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "elements": lines[place]["elements"][::-1]}
    return lines


@plants("V10", "incomplete", calm=True, sink="rollback")
def a_snap_is_left_out(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(_completed_snaps(lines), choices)
    return None if place is None else lines[:place] + lines[place + 1 :]


@plants("V11", "restore-differs", sink="rollback")
def a_restore_forgets_an_element(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one([i for i in places(lines, "restore") if lines[i]["elements"]], choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "elements": lines[place]["elements"][1:]}
    return lines


@plants("V11", "bad-restore", sink="rollback")
def a_checkpoint_that_was_restored_had_never_been_done(
    lines: list[Json], choices: Choices
) -> list[Json] | None:
    place = one(places(lines, "restore"), choices)
    if place is None:
        return None
    return [e for e in lines if e.get("k") != "done" or e["c"] != lines[place]["c"]]


@plants("V11", "wrong-position", sink="rollback")
def a_restart_begins_one_position_early(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one([i for i in places(lines, "start") if lines[i]["from"] is not None], choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "pos": lines[place]["pos"] - 1}
    return lines


@plants("V9", "double-effect", effects="outputs")
def an_effect_is_applied_twice(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "effect"), choices)
    if place is None:
        return None
    seq = max(lines[i]["seq"] for i in places(lines, "effect")) + 1
    return [*lines, {**lines[place], "seq": seq}]


@plants("V9", "no-effect", effects="records", plain=True)
def an_effect_is_missing(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "effect"), choices)
    return None if place is None else lines[:place] + lines[place + 1 :]


@plants("V13", "zombie-effect", effects="records", plain=True, calm=True)
def an_old_attempt_writes_last(lines: list[Json], choices: Choices) -> list[Json] | None:
    rows = [i for i in places(lines, "effect") if lines[i]["s"] == 0]
    if len(rows) < 2:
        return None
    fresh = max(lines[i]["token"] for i in rows) + 1
    again: Json = {"k": "start", "s": 0, "a": fresh, "from": None, "pos": 0}
    place = rows[choices.index(len(rows) - 1)]
    lines[place] = {**lines[place], "token": fresh}
    return [*lines, again]


def _finals(lines: list[Json]) -> list[int]:
    return [i for i in places(lines, "res") if lines[i]["final"]]


@plants("V15", "two-outcomes", sink="rollback")
def an_outcome_comes_twice(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(_finals(lines), choices)
    return None if place is None else [*lines[: place + 1], lines[place], *lines[place + 1 :]]


@plants("V15", "call-after-final", sink="rollback")
def a_record_is_called_again_after_its_outcome(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(_finals(lines), choices)
    if place is None:
        return None
    res = lines[place]
    again = {"k": "call", "s": res["s"], "a": res["a"], "id": res["id"], "try": res["try"] + 1}
    return [*lines[: place + 1], again, *lines[place + 1 :]]


@plants("V14", "over-capacity", calm=True, plain=True, sink="rollback")
def the_operator_believes_in_more_room_than_it_has(lines: list[Json], choices: Choices) -> list[Json] | None:
    """Two records of a subtask are in flight at once; the capacity is said to be one."""
    calls = [i for i in places(lines, "call") if lines[i]["s"] == 0]
    both = [
        later for first, later in pairwise(calls)
        if not any(e["k"] == "out" and e["id"] == lines[first]["id"] for e in lines[first:later])
    ]  # fmt: skip
    if one(both, choices) is None:
        return None
    lines[0]["operator"]["capacity"] = 1
    return lines


@plants("V20", "swallowed", calm=True, sink="rollback")
def a_dead_letter_is_not_written(lines: list[Json], choices: Choices) -> list[Json] | None:
    failed = {
        (e["s"], e["id"])
        for e in lines[1:]
        if e["k"] == "res" and (e["r"] == "fail" or "error" in e) and e["final"]
    }
    place = one([i for i in places(lines, "dead") if (lines[i]["s"], lines[i]["id"]) in failed], choices)
    return None if place is None else lines[:place] + lines[place + 1 :]


@plants("V21", "interleaved", sink="rollback")
def an_output_leaves_between_those_of_another_record(
    lines: list[Json], choices: Choices
) -> list[Json] | None:
    higher = [i for i in places(lines, "out") if lines[i]["j"] > 0]
    place = one(higher, choices)
    return None if place is None else [*lines[:place], {**lines[place], "id": "another"}, *lines[place:]]


def planted(name: str, lines: list[Json], choices: Choices) -> list[Json] | None:
    """The corrupted history, well-formed again, or None."""
    corrupted = PLANTED[name][3](copy.deepcopy(lines), choices)
    return None if corrupted is None else renumbered(corrupted)
