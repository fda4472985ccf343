"""Explains anomalies of results: V8, but for its tables.

The fate of a result follows from events: which attempt emitted it, which snap the next attempt restored, which
epochs were committed.
"""

from __future__ import annotations

from itertools import islice

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json

_EVENTS_MAX = 3


def phantom(x: Contradiction) -> Explanation:
    """V8: a result of a record that the subtask never took in."""
    out = x.witness("out")
    if out is not None:
        others = [e for e in x.gathered.lineage("id", out["id"]).events if e["k"] == "in"]
        for other in others[:1]:
            x.then(f"Record {shown(out['id'])} was taken in by subtask {other['s']} ({x.let(other)}).")
        x.then(f"Subtask {out['s']}, which emitted {x.let(out)}, never took record {shown(out['id'])} in.")
    return x.however("every visible result belongs to a record that its subtask took in")


def duplicate(x: Contradiction) -> Explanation:
    """V8: an output is visible twice."""
    outs = x.witnesses("out")
    commits = x.witnesses("commit")
    if (taken := x.taken(x.anomaly.id)) is not None:
        x.then(f"Record {shown(x.anomaly.id)} was accepted once: {x.let(taken)}.")
    if len(outs) > 1:
        x.then(f"{x.let_all(outs)} are both output {outs[0]['j']} of it.")
        _restores_between(x, outs[0], outs[-1])
    if len(outs) == 1 and len(commits) > 1:
        x.then(f"{x.let(outs[0])} was made visible by {x.let_all(commits)}.")
    elif commits:
        x.then(f"Both were made visible by {x.let_all(commits)}.")
    elif x.sink == "append":
        x.then("The sink keeps everything that was emitted (append), so both are visible.")
    elif x.sink == "rollback":
        x.then("Both are in the chain of attempts that led to the final state, so neither was rolled back.")
    return x.however("every expected output is visible once")


def wrong_value(x: Contradiction) -> Explanation:
    """V8: an output with a wrong value, number or timestamp."""
    out = x.witness("out")
    taken = x.taken(x.anomaly.id)
    if out is not None:
        if taken is not None and "expect" in taken:
            x.then(f"{x.let(taken)} gives the expected outputs of the record: {shown(taken['expect'])}.")
        own = [e for e in x.story(out["id"], "res", "dead") if e["a"] == out["a"]]
        outcome = next((e for e in own if e["k"] == "dead" or e.get("final") is True), None)
        if outcome is not None:
            x.then(f"In attempt {out['a']} its outcome was {x.let(outcome)}.")
        x.then(f"But {x.let(out)} is visible; {x.anomaly.say}.")
    return x.however("every visible output is one of its record's expected outputs, numbered without a gap")


def lost(x: Contradiction) -> Explanation:
    """V8: an expected output is missing."""
    record = x.anomaly.id
    if (taken := x.taken(record)) is not None:
        x.then(f"Record {shown(record)} was accepted: {x.let(taken)}.")
    outcomes = [e for e in x.story(record, "res", "dead") if e["k"] == "dead" or e.get("final") is True]
    if outcomes:
        x.then(f"Its outcome came: {x.let_all(outcomes[:_EVENTS_MAX])}.")
    elif x.knows_all("id", record):
        x.then("No outcome of it ever came.")
    outs = x.story(record, "out")
    if not outs and x.knows_all("id", record):
        x.then("No output of it ever left.")
    for out in outs[:_EVENTS_MAX]:
        x.then(f"{x.let(out)} left{_fate(x, out)}.")
    _restored_without(x)
    x.then_finished(_EVENTS_MAX)
    return x.however(f"{x.anomaly.say}, and after a normal finish every expected output is visible")


def _fate(x: Contradiction, out: Json) -> str:
    """Why an emission is not visible, if events tell."""
    skeleton = x.gathered.skeleton
    if x.sink in {"atomic", "two-phase"}:
        snap = skeleton.snap_after(x.s, out["a"], out["n"])
        if snap is None:
            return f", and belongs to no epoch: no snap of attempt {out['a']} follows it"
        commits = [e for e in skeleton.checkpoints.get(snap.c, ()) if e.k == "commit" and e.s == x.s]
        return "" if commits else f", in epoch {snap.c}, which no event commits"
    successor = next((start for start in skeleton.starts(x.s) if start.a > out["a"]), None)
    begun = x.event(successor)
    if successor is None or begun is None or x.sink == "append":
        return ""
    if begun["n"] < out["n"]:
        return f" after {x.let(begun)} had superseded its attempt"
    snap = skeleton.restored_snap(successor)
    return f", and {x.let(begun)} went back to an earlier state" if snap is None or snap.n < out["n"] else ""


def _restored_without(x: Contradiction) -> None:
    """Say which restarts restored a snap beyond the record's position that does not hold the record."""
    record, taken = x.anomaly.id, x.taken(x.anomaly.id)
    for start in x.gathered.skeleton.starts(x.s):
        snap = x.event(x.gathered.skeleton.restored_snap(start))
        begun = x.event(start)
        if snap is None or begun is None or taken is None or begun["n"] < taken["n"]:
            continue
        holds = any(element.get("id") == record for element in snap["elements"])
        if taken["pos"] < snap["pos"] and not holds:
            x.then(
                f"{x.let(begun)} restored {x.let(snap)}, whose cut is beyond the record"
                f" (position {taken['pos']} comes before {snap['pos']}) and which does not hold it."
            )


def _restores_between(x: Contradiction, first: Json, last: Json) -> None:
    for start in x.gathered.skeleton.starts(x.s):
        snap, begun = x.event(x.gathered.skeleton.restored_snap(start)), x.event(start)
        if begun is None or not first["n"] < begun["n"] < last["n"]:
            continue
        if snap is None:
            x.then(f"Between them, {x.let(begun)} started without restoring a snap.")
        else:
            holds = any(element.get("id") == first["id"] for element in snap["elements"])
            word = "holds" if holds else "does not hold"
            x.then(f"Between them, {x.let(begun)} restored {x.let(snap)}, which {word} the record.")


def inconsistent(x: Contradiction) -> Explanation:
    """V8: two records of one key have different results."""
    answers, outs = x.witnesses("res"), x.witnesses("out")
    taken: list[Json] = []
    for answer in answers:
        entries = (e for e in x.gathered.lineage("id", answer["id"]).events if e["k"] == "in")
        taken += islice(entries, 1)
    if taken:
        x.then(f"One key, {shown(taken[0].get('key'))}: {x.let_all(taken)}.")
    x.then(f"Each is decided by an answer: {x.let_all(answers)}.")
    if len(outs) > 1:
        x.then(f"{x.let(outs[0])} has {shown(outs[0]['v'])}, {x.let(outs[1])} has {shown(outs[1]['v'])}.")
    x.then_said()
    return x.however("the results of one key change only when the looked-up table does")


def stale(x: Contradiction) -> Explanation:
    """V8: an answer was read from a version that a change had replaced before the call."""
    change, call, answer = x.witness("change"), x.witness("call"), x.witness("res")
    if change is not None and call is not None and answer is not None:
        x.then(f"{x.let(change)} comes before {x.let(call)}, so the call could see version {change['ver']}.")
        x.then(f"But {x.let(answer)} was read from version {answer['ver']}.")
    return x.however("an answer is read from the version that the call found, or from a later one")


def future(x: Contradiction) -> Explanation:
    """V8: an answer was read from a version to which no change had begun."""
    change, answer = x.witness("change"), x.witness("res")
    if answer is not None:
        x.then(f"{x.let(answer)} was read from version {answer['ver']}.")
    if answer is not None and change is not None:
        x.then(f"But {x.let(answer)} comes before {x.let(change)}.")
    x.then_said()
    return x.however("an answer is read from a version that exists, or is about to")
