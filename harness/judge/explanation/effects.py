"""Explains anomalies of the database: V9 and V13 (rows), V12 (commits), V18 (checkpoint gaps).

Effects are ordered by the database's commit order, `seq`.
"""

from __future__ import annotations

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json

_EVENTS_MAX = 4


def double_effect(x: Contradiction) -> Explanation:
    """V9: several rows of one effect."""
    record, calls = x.anomaly.id, x.story(x.anomaly.id, "call")
    if len(calls) > 1:
        x.then(f"Record {shown(record)} was called {len(calls)} times: {x.let_all(calls[:_EVENTS_MAX])}.")
    for row in x.witnesses("effect")[:_EVENTS_MAX]:
        x.then(f"{x.let(row)} was committed as number {row['seq']}, written by attempt {row['token']}.")
    return x.however("the audit log holds each effect once")


def phantom_effect(x: Contradiction) -> Explanation:
    """V9: a row without an accepted record or expected output."""
    row = x.witness("effect")
    taken = [e for e in x.gathered.lineage("id", x.anomaly.id).events if e["k"] == "in"]
    if taken:
        x.then(f"Record {shown(x.anomaly.id)} was accepted: {x.let(taken[0])}.")
    elif x.knows_all("id", x.anomaly.id):
        x.then(f"No subtask ever took record {shown(x.anomaly.id)} in.")
    if row is not None:
        x.then(f"But the audit log holds {x.let(row)}; {x.anomaly.say}.")
    return x.however("every row belongs to an expected output of an accepted record")


def wrong_effect(x: Contradiction) -> Explanation:
    """V9: a row with a wrong value."""
    row = x.witness("effect")
    _outcomes(x)
    if row is not None and "v" in row:
        x.then(f"{x.let(row)} has the value {shown(row['v'])}; {x.anomaly.say}.")
    return x.however("the value in a row is the expected one")


def no_effect(x: Contradiction) -> Explanation:
    """V9: a missing row."""
    _outcomes(x)
    if x.knows_all("id", x.anomaly.id) and not x.story(x.anomaly.id, "effect"):
        x.then(f"The audit log has no row of record {shown(x.anomaly.id)}.")
    x.then_finished(_EVENTS_MAX)
    return x.however(f"{x.anomaly.say}, and after a normal finish every expected effect has one")


def zombie_effect(x: Contradiction) -> Explanation:
    """V13: a superseded attempt writes a row."""
    newer, older = _by_attempt(x, "effect", "token")
    if newer is not None and older is not None:
        _superseded(x, newer["token"])
        x.then(
            f"{x.let(newer)} precedes {x.let(older)}: the database committed number {newer['seq']}"
            f" before {older['seq']}."
        )
        return x.however(
            f"attempt {older['token']} may write no row after attempt {newer['token']} has written one"
        )
    return x.however("a superseded attempt writes no row")


def zombie_commit(x: Contradiction) -> Explanation:
    """V13: a superseded attempt commits."""
    newer, older = _by_attempt(x, "commit", "a")
    if newer is not None and older is not None:
        _superseded(x, newer["a"])
        x.then(f"{x.let(newer)} comes before {x.let(older)}.")
        return x.however(f"attempt {older['a']} may commit nothing after attempt {newer['a']} has committed")
    return x.however("a superseded attempt commits nothing")


def _by_attempt(x: Contradiction, kind: str, field: str) -> tuple[Json | None, Json | None]:
    rows = sorted((row for row in x.witnesses(kind) if field in row), key=lambda row: int(row[field]))
    return (rows[-1], rows[0]) if len(rows) > 1 else (None, None)


def _superseded(x: Contradiction, newer: int) -> None:
    start = next((start for start in x.gathered.skeleton.starts(x.s) if start.a == newer), None)
    if (begun := x.event(start)) is not None and start is not None:
        origin = "from the beginning" if start.from_ is None else f"from checkpoint {start.from_}"
        x.then(f"Attempt {newer} superseded the earlier ones at {x.let(begun)}, {origin}.")


def _outcomes(x: Contradiction) -> None:
    if (taken := x.taken(x.anomaly.id)) is not None:
        x.then(f"Record {shown(x.anomaly.id)} was accepted: {x.let(taken)}.")
    outcomes = [e for e in x.story(x.anomaly.id, "res", "dead") if e["k"] == "dead" or e.get("final") is True]
    if outcomes:
        x.then(f"Its outcome came: {x.let_all(outcomes[:_EVENTS_MAX])}.")


_ENDS_MAX = 3


def committed_twice(x: Contradiction) -> Explanation:
    """V12: an epoch is committed twice."""
    commits = x.witnesses("commit")
    if len(commits) > 1:
        x.then(f"{x.let(commits[0])} made epoch {commits[0]['c']} of subtask {x.s} visible.")
        x.then(f"{x.let(commits[-1])} did so again.")
    return x.however("an epoch becomes visible once")


def commit_order(x: Contradiction) -> Explanation:
    """V12: an epoch is committed after a higher one."""
    commits = x.witnesses("commit")
    if len(commits) > 1:
        x.then(f"{x.let(commits[0])} comes before {x.let(commits[-1])}.")
        x.then(f"But epoch {commits[-1]['c']} is lower than epoch {commits[0]['c']}.")
    return x.however("the epochs of a subtask are committed in the order of their numbers")


def unknown_epoch(x: Contradiction) -> Explanation:
    """V12: a commit without a snap of its checkpoint."""
    commit = x.witness("commit")
    if commit is not None:
        snaps = x.gathered.skeleton.snaps.get((x.s, commit["c"]), [])
        named = [s for s in snaps if "a" not in commit or s.a == commit["a"]]
        who = f"Attempt {commit['a']}, which {x.let(commit)} names," if "a" in commit else f"Subtask {x.s}"
        if named:
            x.then(f"{who} took a snap of checkpoint {commit['c']} only at event {named[0].n}, later.")
        elif snaps:
            x.then(f"{who} never took a snap of checkpoint {commit['c']}; attempt {snaps[0].a} did.")
        else:
            x.then(f"{who} never took a snap of checkpoint {commit['c']}.")
    return x.however("a commit makes an epoch visible that an earlier snap has closed")


def early_commit(x: Contradiction) -> Explanation:
    """V12: an epoch is committed before its checkpoint is completed."""
    snap, commit = x.witness("snap"), x.witness("commit")
    if snap is not None and commit is not None:
        x.then(f"{x.let(commit)} makes visible what attempt {snap['a']} emitted before {x.let(snap)}.")
        done = next((e for e in x.gathered.skeleton.checkpoints.get(snap["c"], ()) if e.k == "done"), None)
        later = "was never completed" if done is None else f"was completed only later, at event {done.n}"
        if done is None or done.n > commit["n"]:
            x.then(f"Checkpoint {snap['c']} {later}.")
        x.then(f"No later checkpoint of attempt {snap['a']} was completed before the commit either.")
    return x.however("a two-phase sink commits an epoch after its checkpoint, or a later one, is completed")


def never_committed(x: Contradiction) -> Explanation:
    """V12: an epoch with emissions is never committed."""
    snap, emission = x.witness("snap"), x.witness("out", "owm")
    if snap is not None:
        if emission is not None:
            x.then(f"{x.let(emission)} belongs to the epoch that {x.let(snap)} closes.")
        x.then(f"{x.let(snap)} is in the chain of attempts that led to the final state.")
        found = x.gathered.skeleton.checkpoints.get(snap["c"], ())
        commits = [event for event in found if event.k == "commit" and event.s == x.s]
        if commits:
            early = commits[0].n < snap["n"]
            how = "came before the snap" if early else "belongs to the snap of another attempt"
            x.then(f"A commit of that number (event {commits[0].n}) {how}.")
        else:
            x.then(f"No event commits epoch {snap['c']} of subtask {x.s}.")
    x.then_finished(_ENDS_MAX)
    return x.however("after a normal finish every epoch with emissions is committed")


def checkpoint_gap(x: Contradiction) -> Explanation:
    """V18: no checkpoint was completed for too long."""
    if len(x.cited) > 1:
        first, last = x.cited[0], x.cited[-1]
        x.then(f"From {x.let(first)} to {x.let(last)} passed {(last['t'] - first['t']) / 1000:.3f} ms.")
        whose = "" if x.s is None else f" of subtask {x.s}"
        x.then(f"In between no checkpoint{whose} was newly completed.")
    return x.however(f"a checkpoint is completed at least every {x.bound('checkpoint_gap')} ms")
