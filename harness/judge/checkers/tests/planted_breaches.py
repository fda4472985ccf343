"""More corruptions of `planted_defects`: of claims, watermarks, snaps, commits, calls, times and threads.

With those, each class of the page has a corruption that it is meant for.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from harness.judge.checkers.tests.planted_defects import Json, one, places, plants
from harness.system.choices import Choices

__all__ = ["JUMP_US"]

JUMP_US = 10_000_000
PLAIN: dict[str, Any] = {"calm": True, "plain": True}


def without(lines: list[Json], place: int) -> list[Json]:
    return lines[:place] + lines[place + 1 :]


def moved(lines: list[Json], place: int, to: int) -> list[Json]:
    """The event at `place`, brought to where `to` stands now."""
    rest = without(lines, place)
    to -= to > place
    return [*rest[:to], lines[place], *rest[to:]]


def later(lines: list[Json], place: int) -> list[Json]:
    """From `place` on, everything comes that much later."""
    return [*lines[:place], *({**event, "t": event["t"] + JUMP_US} for event in lines[place:])]


def bounded(lines: list[Json], **bounds: int) -> list[Json]:
    return [{**lines[0], "bounds": {**lines[0]["bounds"], **bounds}}, *lines[1:]]


def completed(lines: list[Json], *, stored: bool = False) -> list[int]:
    """Snaps of completed checkpoints, with something stored if that is asked for."""
    done = {event["c"] for event in lines[1:] if event["k"] == "done"}
    return [
        i for i in places(lines, "snap") if lines[i]["c"] in done and (lines[i]["elements"] or not stored)
    ]


@plants("V3", "key-reordered", mode="ordered", sink="rollback", **PLAIN)
def two_results_of_one_key_change_places(lines: list[Json], choices: Choices) -> list[Json] | None:
    outs = [i for i in places(lines, "out") if lines[i]["s"] == 0]
    if (pair := one(list(pairwise(outs)), choices)) is None:
        return None
    lines = [{**event, "key": "k"} if event.get("k") == "in" else event for event in lines]
    lines[pair[0]], lines[pair[1]] = lines[pair[1]], lines[pair[0]]
    return lines


@plants("V6", "watermark-lost", sink="rollback", **PLAIN)
def a_watermark_vanishes(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "owm"), choices)
    return None if place is None else without(lines, place)


@plants("V6", "held", sink="rollback", **PLAIN)
def a_watermark_leaves_late(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "owm"), choices)
    return None if place is None else bounded(later(lines, place), watermark_hold=5000)


@plants("V7", "phantom-watermark", sink="rollback", **PLAIN)
def a_watermark_from_nowhere_leaves(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    if place is None:
        return None
    of = {name: lines[place][name] for name in ("s", "a", "t")}
    return [*lines[:place], {"k": "owm", "w": 12345, **of}, *lines[place:]]


@plants("V7", "repeated-watermark", sink="rollback", **PLAIN)
def a_watermark_leaves_twice(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "owm"), choices)
    return None if place is None else [*lines[:place], lines[place], *lines[place:]]


@plants("V7", "after-end", sink="rollback", **PLAIN)
def a_result_leaves_after_the_final_watermark(lines: list[Json], choices: Choices) -> list[Json] | None:
    end = one([i for i in places(lines, "owm") if lines[i]["w"] == "end"], choices)
    outs = [i for i in places(lines, "out") if end is not None and lines[i]["s"] == lines[end]["s"]]
    return None if end is None or not outs else moved(lines, outs[-1], end + 1)


@plants("V9", "phantom-effect", effects="records", **PLAIN)
def a_row_of_no_record_is_written(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "effect"), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "id": "ghost"}
    return lines


@plants("V9", "wrong-effect", effects="outputs", **PLAIN)
def a_row_is_altered(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "effect"), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "v": ["altered"]}
    return lines


@plants("V10", "already-out", sink="rollback", **PLAIN)
def a_snap_stores_what_has_left(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(completed(lines), choices)
    gone = [e for e in lines[1:place] if e["k"] == "out" and e["s"] == lines[place]["s"]] if place else []
    if not place or not gone:
        return None
    lines[place] = {**lines[place], "elements": [{"id": gone[0]["id"]}, *lines[place]["elements"]]}
    return lines


@plants("V10", "torn", calm=True, sink="rollback")
def a_snap_splits_the_outputs_of_a_record(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(completed(lines), choices)
    before = range(1, place or 1)
    seconds = [
        i for i in before
        if lines[i]["k"] == "out" and lines[i]["j"] == 1 and place and lines[i]["s"] == lines[place]["s"]
    ]  # fmt: skip
    return None if place is None or not seconds else moved(lines, one(seconds, choices), place + 1)


@plants("V10", "both-sides", sink="rollback", **PLAIN)
def a_snap_stores_what_it_will_read_again(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(completed(lines, stored=True), choices)
    if place is None:
        return None
    stored = lines[place]["elements"][-1]
    own = [e for e in lines[1:place] if e["k"] in {"in", "wm"} and e["s"] == lines[place]["s"]]
    pos = next(
        e["pos"]
        for e in own
        if (e.get("id") == stored["id"] if "id" in stored else e["pos"] == stored["pos"])
    )
    lines[place] = {**lines[place], "pos": pos}
    return lines


@plants("V10", "foreign", sink="rollback", **PLAIN)
def a_snap_stores_what_never_came_in(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(completed(lines), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "elements": [*lines[place]["elements"], {"id": "ghost"}]}
    return lines


@plants("V10", "twice", sink="rollback", **PLAIN)
def a_snap_stores_an_element_twice(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(completed(lines, stored=True), choices)
    if place is None:
        return None
    elements = lines[place]["elements"]
    lines[place] = {**lines[place], "elements": [*elements, one(elements, choices)]}
    return lines


@plants("V12", "committed-twice", sink="two-phase", **PLAIN)
def a_commit_is_repeated(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "commit"), choices)
    return None if place is None else [*lines[:place], lines[place], *lines[place:]]


@plants("V12", "commit-order", sink="two-phase", **PLAIN)
def two_commits_change_places(lines: list[Json], choices: Choices) -> list[Json] | None:
    commits = [i for i in places(lines, "commit") if lines[i]["s"] == 0]
    if (pair := one(list(pairwise(commits)), choices)) is None:
        return None
    lines[pair[0]], lines[pair[1]] = lines[pair[1]], lines[pair[0]]
    return lines


@plants("V12", "unknown-epoch", sink="two-phase", **PLAIN)
def a_commit_names_an_epoch_that_nobody_snapped(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "commit"), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "c": 9999}
    return lines


@plants("V12", "early-commit", sink="two-phase", **PLAIN)
def a_commit_comes_on_the_snap(lines: list[Json], choices: Choices) -> list[Json] | None:
    done = {lines[i]["c"]: i for i in places(lines, "done")}
    place = one([i for i in places(lines, "commit") if lines[i]["c"] in done], choices)
    return None if place is None else moved(lines, place, done[lines[place]["c"]])


@plants("V12", "never-committed", sink="two-phase", **PLAIN)
def a_commit_never_comes(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one([i for i in places(lines, "commit") if _fills(lines, lines[i])], choices)
    return None if place is None else without(lines, place)


def _fills(lines: list[Json], commit: Json) -> bool:
    """Whether anything left in its epoch."""
    own = [e for e in lines[1:] if e.get("s") == commit["s"] and e["k"] in {"snap", "out", "owm"}]
    snap = next(i for i, e in enumerate(own) if e["k"] == "snap" and e["c"] == commit["c"])
    return snap > 0 and own[snap - 1]["k"] != "snap"


@plants("V13", "zombie-commit", sink="two-phase", **PLAIN)
def a_commit_names_an_attempt_yet_to_come(lines: list[Json], choices: Choices) -> list[Json] | None:
    commits = [i for i in places(lines, "commit") if lines[i]["s"] == 0]
    if len(commits) < 2:
        return None
    place = commits[choices.index(len(commits) - 1)]
    lines[place] = {**lines[place], "a": lines[place]["a"] + 50}
    return lines
