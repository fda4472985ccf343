"""Small histories for tests: events with what matters, the rest filled in, in the order in which they are told.

`ms` of an event is its time; without one it comes 10 microseconds after the one before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.history.read import open_text
from harness.history.verdict import InvariantVerdict, Judgement
from harness.judge.checkers.judge import judge_reader

Json = dict[str, Any]
Part = Json | list[Any]
OF_RUN = {"done", "abort", "retire", "fault", "giveup", "row", "read", "change"}
OPERATOR = {"mode": "ordered", "capacity": 8, "timeout_ms": 0}


def event(k: str, **fields: Any) -> Json:
    """One event; of attempt 1 of subtask 0 unless told otherwise."""
    of = {} if k in OF_RUN else {"s": 0} if k in {"commit", "effect"} else {"s": 0, "a": 1}
    return {"k": k, **of, **fields}


def start(origin: int | None = None, pos: int = 0, **fields: Any) -> Json:
    return event("start", **{"from": origin, "pos": pos, **fields})


def took(id_: Any, pos: int, **fields: Any) -> Json:
    return event("in", **{"pos": pos, "id": id_, "expect": ["v"], **fields})


def called(id_: Any, *, nonce: Any = (), **fields: Any) -> Json:
    given = {} if nonce == () else {"nonce": nonce}
    return event("call", id=id_, **{"try": 1, **given, **fields})


def answered(id_: Any, *, nonce: Any = (), **fields: Any) -> Json:
    given = {} if nonce == () else {"nonce": nonce}
    return event("res", id=id_, **{"try": 1, "r": "ok", "final": True, "v": ["v"], **given, **fields})


def left(id_: Any, **fields: Any) -> Json:
    return event("out", id=id_, **{"j": 0, "v": "v", **fields})


def settled(id_: Any, **fields: Any) -> list[Json]:
    """The record is called, answered and leaves."""
    return [called(id_, **fields), answered(id_, **fields), left(id_, **fields)]


def wm(w: Any, pos: int, **fields: Any) -> Json:
    return event("wm", w=w, pos=pos, **fields)


def owm(w: Any, **fields: Any) -> Json:
    return event("owm", w=w, **fields)


def snap(c: int, pos: int, *elements: Json, **fields: Any) -> Json:
    return event("snap", c=c, pos=pos, elements=list(elements), **fields)


def done(c: int, **fields: Any) -> Json:
    return event("done", c=c, **fields)


def commit(c: int, **fields: Any) -> Json:
    return event("commit", c=c, **fields)


def row(table: str, id_: Any, **fields: Any) -> Json:
    return event("row", table=table, id=id_, **fields)


def read(table: str, rows: int) -> Json:
    return event("read", table=table, rows=rows)


def restart(c: int, pos: int, *elements: Json, a: int = 2, **fields: Any) -> list[Json]:
    """The attempt before is dead, and another goes on from a checkpoint."""
    of = {"a": a, **fields}
    return [
        event("kill", **{**of, "a": a - 1}),
        start(c, pos, **of),
        event("restore", c=c, elements=list(elements), **of),
    ]


def ended(**fields: Any) -> list[Json]:
    return [event("end", **fields), event("ended", **fields)]


def stall(phase: str, **fields: Any) -> Json:
    told = {"stalls": True} if phase == "begin" else {"evidence": {"held": 1}}
    return event("fault", **{"f": "pause", "phase": phase, **told, **fields})


def history(*parts: Part, **header: Any) -> list[Json]:
    """Header and events, numbered."""
    operator = OPERATOR | header.pop("operator", {})
    lines: list[Json] = [{"history": 1, "operator": operator, **header}]
    t = -10
    for n, told in enumerate(_flat(list(parts)), start=1):
        told = dict(told)  # noqa: PLW2901  (an event may be told twice)
        t = round(told.pop("ms") * 1000) if "ms" in told else t + 10
        lines.append({"n": n, "t": t, **told})
    return lines


def _flat(parts: list[Any]) -> Iterator[Json]:
    for part in parts:
        if isinstance(part, list):
            yield from _flat(part)
        else:
            yield part


def text(lines: list[Json]) -> bytes:
    """The lines of its file."""
    return "\n".join(map(json.dumps, lines)).encode()


def verdict(invariant: str, lines: list[Json]) -> InvariantVerdict:
    """What the judge says of a well-formed history."""
    judgement = judge_reader(open_text(text(lines)))
    assert isinstance(judgement, Judgement), judgement
    return next(v for v in judgement.invariants if v.invariant == invariant)


def found(invariant: str, lines: list[Json]) -> list[tuple[str, tuple[int, ...]]]:
    """Class and witnesses of each anomaly."""
    return [(anomaly.kind, anomaly.events) for anomaly in verdict(invariant, lines).anomalies]
