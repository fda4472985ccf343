"""Corruptions of `planted_defects` that form 1.1 shows: in tables, acknowledgements, causes, keys and versions."""

from __future__ import annotations

from harness.judge.checkers.tests.planted_breaches import PLAIN, completed
from harness.judge.checkers.tests.planted_defects import Json, one, places, plants
from harness.system.choices import Choices

__all__ = ["with_table"]

LATE_MS = 10_000


def with_table(lines: list[Json], holds: str, rows: list[Json], **claimed: object) -> list[Json]:
    """One more table, read last."""
    header = {**lines[0], "tables": {"t": {"holds": [holds], **claimed}}}
    told = [{"k": "row", "table": "t", **row} for row in rows]
    return [header, *lines[1:], *told, {"k": "read", "table": "t", "rows": len(rows)}]


def fields(events: list[Json], *names: str) -> list[Json]:
    return [{name: event[name] for name in names if name in event} for event in events]


def outputs(lines: list[Json]) -> list[Json]:
    return fields([lines[i] for i in places(lines, "out")], "id", "j", "v")


def effects(lines: list[Json]) -> list[Json]:
    return fields([lines[i] for i in places(lines, "effect")], "id")


def letters(lines: list[Json]) -> list[Json]:
    """With the error of the failure behind, which the model puts right before."""
    rows: list[Json] = []
    for i in places(lines, "dead"):
        before = lines[i - 1]
        behind = before if before["k"] == "res" and before["id"] == lines[i]["id"] else {}
        rows.append({"id": lines[i]["id"], **fields([behind], "error")[0]})
    return rows


ROWS = {
    "V8": ("outputs", outputs, {"sink": "rollback", **PLAIN}),
    "V9": ("effects", effects, {"effects": "records", **PLAIN}),
    "V20": ("dead", letters, {"sink": "rollback", "calm": True}),
}
"""Of each invariant: what its tables hold, their rows, and what the model is fixed to."""


def corrupted_rows(invariant: str, kind: str, rows: list[Json], choices: Choices) -> list[Json]:
    name = "error" if invariant == "V20" else "v"
    telling = [i for i, row in enumerate(rows) if name in row] or [0]
    place = telling[choices.index(len(telling))]
    match kind:
        case "row-missing" | "row-deleted":
            return rows[:place] + rows[place + 1 :]
        case "row-doubled":
            return [*rows, rows[place]]
        case "row-foreign":
            return [*rows, {**rows[place], "id": "ghost"}]
        case _:
            return [*rows[:place], {**rows[place], name: "altered"}, *rows[place + 1 :]]


def plant_rows(invariant: str, kind: str) -> None:
    holds, kept, fixed = ROWS[invariant]

    def planting(lines: list[Json], choices: Choices) -> list[Json] | None:
        if kind in {"row-missing", "row-altered"} and invariant == "V9":
            # Without an audit the rows are held against what is expected.
            lines = [e for e in lines if e.get("k") != "effect"]
            taken = [lines[i] for i in places(lines, "in")]
            rows = [{"id": e["id"], "v": e["expect"]} for e in taken]
        else:
            rows = kept(lines)
        if not rows or (kind == "row-altered" and not any("v" in row or "error" in row for row in rows)):
            return None
        return with_table(lines, holds, corrupted_rows(invariant, kind, rows, choices))

    planting.__name__ = f"{kind} of {holds}"
    plants(invariant, kind, **fixed)(planting)


for _kind in ("row-missing", "row-doubled", "row-foreign", "row-altered"):
    for _invariant in ROWS:
        plant_rows(_invariant, _kind)
plant_rows("V9", "row-deleted")


@plants("V8", "row-disordered", sink="rollback", **PLAIN)
def two_rows_change_places(lines: list[Json], choices: Choices) -> list[Json] | None:
    rows = [{**row, "seq": seq} for seq, row in enumerate(outputs(lines))]
    own = [i for i, out in enumerate(places(lines, "out")) if lines[out]["s"] == 0]
    if len(own) < 2:
        return None
    at = choices.index(len(own) - 1)
    one_, other = rows[own[at]], rows[own[at + 1]]
    one_["seq"], other["seq"] = other["seq"], one_["seq"]
    return with_table(lines, "outputs", rows, ordered=True)


@plants("V8", "inconsistent", sink="rollback", **PLAIN)
def two_records_of_one_key_have_different_results(lines: list[Json], _: Choices) -> list[Json] | None:
    lines = [{**event, "key": "k"} if event.get("k") == "in" else event for event in lines]
    return [{**lines[0], "by_key": True}, *lines[1:]] if len(places(lines, "in")) > 1 else None


def changed(lines: list[Json], call: int, ver: int) -> list[Json]:
    """A change before the call, and a version in each answer."""
    told = [{"k": "change", "phase": phase, "ver": 2} for phase in ("begin", "end")]
    lines = [{**event, "key": "k"} if event.get("k") == "in" else event for event in lines]
    answered = [{**event, "ver": ver} if event.get("k") == "res" else event for event in lines[1:]]
    return [{**lines[0], "versions": True}, *answered[: call - 1], *told, *answered[call - 1 :]]


@plants("V8", "stale", sink="rollback", **PLAIN)
def an_answer_is_older_than_its_call(lines: list[Json], choices: Choices) -> list[Json] | None:
    call = one(places(lines, "call"), choices)
    return None if call is None else changed(lines, call, 1)


@plants("V8", "future", sink="rollback", **PLAIN)
def an_answer_is_of_a_version_to_come(lines: list[Json], choices: Choices) -> list[Json] | None:
    call = one(places(lines, "call"), choices)
    return None if call is None else changed(lines, call, 3)


@plants("V10", "two-ends", sink="rollback", **PLAIN)
def a_checkpoint_is_given_up_after_its_completion(lines: list[Json], choices: Choices) -> list[Json] | None:
    done = one(places(lines, "done"), choices)
    if done is None:
        return None
    return [*lines[: done + 1], {"k": "abort", "c": lines[done]["c"]}, *lines[done + 1 :]]


@plants("V10", "stale-ack", sink="rollback", **PLAIN)
def a_checkpoint_counts_the_attempt_before(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(completed(lines), choices)
    if place is None:
        return None
    snap = lines[place]
    ack = {"k": "ack", **{name: snap[name] for name in ("s", "a", "c")}}
    again = {"k": "start", "s": snap["s"], "a": snap["a"] + 1, "from": None, "pos": 0}
    return [*lines[: place + 1], ack, again, *lines[place + 1 :]]


@plants("V24", "unexplained-failure", sink="rollback", **PLAIN)
def an_attempt_fails_by_itself(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "res"), choices)
    if place is None:
        return None
    failed = {"k": "failed", **{name: lines[place][name] for name in ("s", "a", "id")}, "error": "boom"}
    return [{**lines[0], "explained": "alone"}, *lines[1 : place + 1], failed, *lines[place + 1 :]]


RETRY = {"backoff": "fixed", "initial_ms": 10, "slack_ms": 5}


def retried(lines: list[Json], place: int, **given: object) -> list[Json]:
    """The call of an answer fails first, and is made again after so many ms (0: never); times are fixed."""
    res = lines[place]
    of = {name: res[name] for name in ("s", "a", "id")}
    wait = int(str(given.get("wait_ms", 10)))
    first = {"k": "res", **of, "try": 1, "r": given.get("r", "fail"), "final": False, "t": res["t"]}
    later = [{**event, "t": event["t"] + wait * 1000} for event in lines[place + 1 :]]
    again = [{"k": "call", **of, "try": 2}, {**res, "try": 2}]
    told = [{**event, "t": res["t"] + wait * 1000} for event in again]
    operator = {**lines[0]["operator"], "timeout_ms": 0, "retry": RETRY}
    header = {**lines[0], "operator": operator}
    told = told if given.get("made", True) else [{**told[1], "try": 1}]
    calm = [e for e in [*lines[1:place], first, *told, *later] if e["k"] != "fault"]
    return [header, *calm]


@plants("V15", "retry-early", sink="rollback", **PLAIN)
def a_retry_does_not_wait(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "res"), choices)
    return None if place is None else retried(lines, place, wait_ms=1)


@plants("V15", "retry-late", sink="rollback", **PLAIN)
def a_retry_waits_too_long(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "res"), choices)
    return None if place is None else retried(lines, place, wait_ms=LATE_MS)


@plants("V15", "retry-missing", sink="rollback", **PLAIN)
def a_retry_is_never_made(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "res"), choices)
    return None if place is None else retried(lines, place, wait_ms=LATE_MS, made=False)


@plants("V15", "retried-anyway", sink="rollback", **PLAIN)
def an_unclear_outcome_is_retried(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "res"), choices)
    return None if place is None else retried(lines, place, r="unknown")


@plants("V15", "gave-up-early", sink="rollback", **PLAIN)
def a_record_fails_for_good_at_its_first_try(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "res"), choices)
    if place is None or any(e["k"] == "end" for e in lines[1:place]):
        return None
    lines[place] = {**lines[place], "r": "fail"}
    operator = {**lines[0]["operator"], "timeout_ms": 0, "retry": RETRY}
    return [{**lines[0], "operator": operator}, *lines[1:]]
