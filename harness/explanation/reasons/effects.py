"""Why a row of the database cannot be: V9, and V13, which asks who wrote and who committed last.

Invariant: the order of effects is the database's own, `seq`.
"""

from __future__ import annotations

from harness.explanation.contradiction import Contradiction
from harness.explanation.event_lines import Json
from harness.history.values import shown
from harness.verdict import Explanation

__all__ = ["double_effect", "no_effect", "phantom_effect", "wrong_effect", "zombie_commit", "zombie_effect"]

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
