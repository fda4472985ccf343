"""Explains anomalies of what the database holds: V9 and V13 (rows), V12 (commits), V18 (checkpoint gaps).

The order of effects is the database's own, `seq`. What was completed, and when, is read off the coordinator's
and the sink's own events.
"""

from __future__ import annotations

from harness.explanation.contradiction import Contradiction
from harness.explanation.events import Json
from harness.history.values import shown
from harness.verdict import Explanation

__all__ = [
    "checkpoint_gap",
    "commit_order",
    "committed_twice",
    "double_effect",
    "early_commit",
    "never_committed",
    "no_effect",
    "phantom_effect",
    "unknown_epoch",
    "wrong_effect",
    "zombie_commit",
    "zombie_effect",
]

_TOLD = 4


def double_effect(x: Contradiction) -> Explanation:
    """V9: two rows."""
    rows = x.witnesses("effect")
    _calls(x)
    for row in rows[:_TOLD]:
        x.then(f"{x.let(row)} was committed as number {row['seq']}, written by attempt {row['token']}.")
    return x.however("the database shows each effect once")


def phantom_effect(x: Contradiction) -> Explanation:
    """V9: a row of nothing."""
    row = x.witness("effect")
    taken = [e for e in x.dossier.lineage("id", x.anomaly.id).events if e["k"] == "in"]
    if taken:
        x.then(f"Record {shown(x.anomaly.id)} was accepted: {x.let(taken[0])}.")
    elif x.knows_all("id", x.anomaly.id):
        x.then(f"No subtask ever took record {shown(x.anomaly.id)} in.")
    if row is not None:
        x.then(f"Yet there is {x.let(row)}; {x.anomaly.say}.")
    return x.however("a row stands for an output that is expected of an accepted record")


def wrong_effect(x: Contradiction) -> Explanation:
    """V9: a row of another value."""
    row = x.witness("effect")
    _outcomes(x)
    if row is not None and "v" in row:
        x.then(f"{x.let(row)} says {shown(row['v'])}; {x.anomaly.say}.")
    return x.however("a row that carries a value carries the expected one")


def no_effect(x: Contradiction) -> Explanation:
    """V9: a missing row."""
    _outcomes(x)
    if x.knows_all("id", x.anomaly.id) and not x.story(x.anomaly.id, "effect"):
        x.then(f"The database's log has no row of record {shown(x.anomaly.id)}.")
    ended = [event for glimpse in x.dossier.skeleton.finish() if (event := x.event(glimpse)) is not None]
    if ended:
        x.then(f"The run finished normally: {x.let_all(ended[:_TOLD])}.")
    return x.however(f"{x.anomaly.say}, and after a normal finish every expected effect is there")


def zombie_effect(x: Contradiction) -> Explanation:
    """V13: a row of a superseded attempt."""
    newer, older = _by_attempt(x, "effect", "token")
    if newer is not None and older is not None:
        _superseded(x, newer["token"])
        x.then(
            f"{x.let(newer)} precedes {x.let(older)}, for the database committed number {newer['seq']}"
            f" before {older['seq']}."
        )
        return x.however(
            f"nothing of attempt {older['token']} may follow an effect of attempt {newer['token']}"
        )
    return x.however("nothing of a superseded attempt takes effect")


def zombie_commit(x: Contradiction) -> Explanation:
    """V13: a commit of a superseded attempt."""
    newer, older = _by_attempt(x, "commit", "a")
    if newer is not None and older is not None:
        _superseded(x, newer["a"])
        x.then(f"{x.let(newer)} comes before {x.let(older)}.")
        return x.however(f"nothing of attempt {older['a']} may follow a commit of attempt {newer['a']}")
    return x.however("nothing of a superseded attempt becomes visible")


def _by_attempt(x: Contradiction, kind: str, field: str) -> tuple[Json | None, Json | None]:
    rows = sorted((row for row in x.witnesses(kind) if field in row), key=lambda row: int(row[field]))
    return (rows[-1], rows[0]) if len(rows) > 1 else (None, None)


def _superseded(x: Contradiction, newer: int) -> None:
    start = next((start for start in x.dossier.skeleton.starts(x.s) if start.a == newer), None)
    if (begun := x.event(start)) is not None and start is not None:
        origin = "from the beginning" if start.from_ is None else f"from checkpoint {start.from_}"
        x.then(f"Attempt {newer} superseded the earlier ones at {x.let(begun)}, {origin}.")


def _calls(x: Contradiction) -> None:
    calls = x.story(x.anomaly.id, "call")
    if len(calls) > 1:
        x.then(f"Record {shown(x.anomaly.id)} was called {len(calls)} times: {x.let_all(calls[:_TOLD])}.")


def _outcomes(x: Contradiction) -> None:
    if (taken := x.taken(x.anomaly.id)) is not None:
        x.then(f"Record {shown(x.anomaly.id)} was accepted: {x.let(taken)}.")
    outcomes = [e for e in x.story(x.anomaly.id, "res", "dead") if e["k"] == "dead" or e.get("final") is True]
    if outcomes:
        x.then(f"Its outcome came: {x.let_all(outcomes[:_TOLD])}.")


_TOLD_OF_EPOCHS = 3


def committed_twice(x: Contradiction) -> Explanation:
    """V12: a second commit."""
    commits = x.witnesses("commit")
    if len(commits) > 1:
        x.then(f"{x.let(commits[0])} made epoch {commits[0]['c']} of subtask {x.s} visible.")
        x.then(f"{x.let(commits[-1])} did so again.")
    return x.however("an epoch becomes visible once")


def commit_order(x: Contradiction) -> Explanation:
    """V12: a lower number after a higher one."""
    commits = x.witnesses("commit")
    if len(commits) > 1:
        x.then(f"{x.let(commits[0])} comes before {x.let(commits[-1])}.")
        x.then(f"Yet {commits[-1]['c']} is lower than {commits[0]['c']}.")
    return x.however("the epochs of a subtask are committed in the order of their numbers")


def unknown_epoch(x: Contradiction) -> Explanation:
    """V12: of a snap that nobody took."""
    commit = x.witness("commit")
    if commit is not None:
        snaps = x.dossier.skeleton.snaps.get((x.s, commit["c"]), [])
        named = [s for s in snaps if "a" not in commit or s.a == commit["a"]]
        who = f"Attempt {commit['a']}, which {x.let(commit)} names," if "a" in commit else f"Subtask {x.s}"
        if named:
            x.then(f"{who} took a snap of checkpoint {commit['c']} only at event {named[0].n}, later.")
        elif snaps:
            x.then(f"{who} never took a snap of checkpoint {commit['c']}; attempt {snaps[0].a} did.")
        else:
            x.then(f"{who} never took a snap of checkpoint {commit['c']}.")
    return x.however("a commit shows an epoch that a snap had closed before")


def early_commit(x: Contradiction) -> Explanation:
    """V12: before its checkpoint was completed."""
    snap, commit = x.witness("snap"), x.witness("commit")
    if snap is not None and commit is not None:
        x.then(f"{x.let(commit)} shows what attempt {snap['a']} had emitted before {x.let(snap)}.")
        done = next((e for e in x.dossier.skeleton.checkpoints.get(snap["c"], ()) if e.k == "done"), None)
        later = "was never completed" if done is None else f"was completed only later, at event {done.n}"
        if done is None or done.n > commit["n"]:
            x.then(f"Checkpoint {snap['c']} {later}.")
        x.then(f"Nor had a later checkpoint that attempt {snap['a']} snapped been completed.")
    return x.however("a two-phase sink commits an epoch after its checkpoint, or a later one, is completed")


def never_committed(x: Contradiction) -> Explanation:
    """V12: an epoch that nobody ever sees."""
    snap, emission = x.witness("snap"), x.witness("out", "owm")
    if snap is not None:
        if emission is not None:
            x.then(f"{x.let(emission)} belongs to the epoch that {x.let(snap)} closes.")
        x.then(f"{x.let(snap)} stands in the chain of attempts that made the final state.")
        _commits_of(x, snap)
    ended = [event for glimpse in x.dossier.skeleton.finish() if (event := x.event(glimpse)) is not None]
    if ended:
        x.then(f"The run finished normally: {x.let_all(ended[:_TOLD_OF_EPOCHS])}.")
    return x.however("after a normal finish every epoch that holds something is committed")


def _commits_of(x: Contradiction, snap: Json) -> None:
    found = x.dossier.skeleton.checkpoints.get(snap["c"], ())
    commits = [event for event in found if event.k == "commit" and event.s == x.s]
    if commits:
        early = commits[0].n < snap["n"]
        how = "came before the snap" if early else "shows what another attempt snapped"
        x.then(f"A commit of that number (event {commits[0].n}) {how}.")
    else:
        x.then(f"No event commits epoch {snap['c']} of subtask {x.s}.")


def checkpoint_gap(x: Contradiction) -> Explanation:
    """V18."""
    if len(x.cited) > 1:
        first, last = x.cited[0], x.cited[-1]
        x.then(f"From {x.let(first)} to {x.let(last)} passed {(last['t'] - first['t']) / 1000:.3f} ms.")
        whose = "" if x.s is None else f" of subtask {x.s}"
        x.then(f"In between no checkpoint{whose} was completed that had not been before.")
    return x.however(f"a checkpoint is completed at least every {x.bound('checkpoint_gap')} ms")
