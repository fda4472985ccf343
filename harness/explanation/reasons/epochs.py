"""Why a commit cannot be, or cannot be missing: V12; and V18, how long no checkpoint was completed.

Invariant: what was completed, and when, is read off the coordinator's and the sink's own events.
"""

from __future__ import annotations

from harness.explanation.contradiction import Contradiction
from harness.explanation.event_lines import Json
from harness.verdict import Explanation

__all__ = [
    "checkpoint_gap",
    "commit_order",
    "committed_twice",
    "early_commit",
    "never_committed",
    "unknown_epoch",
]

_TOLD = 3


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
        x.then(f"The run finished normally: {x.let_all(ended[:_TOLD])}.")
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
