"""Canaries of the tables: their rows against the outputs (V8), the effects (V9) and the dead letters (V20)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from harness.history.verdict import Outcome
from harness.judge.canaries.canary import AUDIT_TABLE, OUTPUT_TABLES, TABLES, Canary
from harness.judge.canaries.of_the_stream import ANSWERED, ONE, OVER, TWO

__all__ = ["DOUBLED", "HONEST_ROWS", "OF_TABLES", "WRITTEN", "WRITTEN_LETTERS", "WRITTEN_RECORDS"]

_DATABASE = {"effects": "outputs", "tables": TABLES}
_TABLE = {"effects": "outputs", "tables": OUTPUT_TABLES}
_AUDIT = {"effects": "outputs", "tables": AUDIT_TABLE}
_RAN = ONE + ANSWERED + OVER
_BOTH = TWO + ANSWERED + 'res id=2 try=1 r="ok" final=true v=["v"]\nout id=2 j=0 v="v"\n' + OVER
_EFFECT = 'effect id=1 j=0 v="v"\n'
_ROW = 'row table="output" id=1 j=0 v="v"\n'
_STRANGER = 'row table="output" id=9 j=0 v="v"\n'
_ALTERED = _ROW.replace('v="v"', 'v="w"')
_LETTER = 'row table="dead_letter" id=1 error="refused"\n'
_DIED = ONE + 'res id=1 try=1 r="fail" final=true error="refused"\ndead id=1\n' + OVER

HONEST_ROWS = _RAN + _EFFECT + _ROW
DOUBLED = _RAN + 2 * _EFFECT
"""One output, whose effect is there twice."""

OF_TABLES: Sequence[Canary] = (
    Canary(invariant="V8", kind="row-missing", claims=_DATABASE, events=_RAN + _EFFECT),
    Canary(invariant="V8", kind="row-doubled", claims=_DATABASE, events=_RAN + _EFFECT + 2 * _ROW),
    Canary(invariant="V8", kind="row-foreign", claims=_DATABASE, events=_RAN + _EFFECT + _ROW + _STRANGER),
    Canary(
        invariant="V8",
        kind="row-foreign",
        about="without a value",
        claims=_DATABASE,
        events=_RAN + _EFFECT + _ROW + _STRANGER.replace('v="v"', "v=null"),
    ),
    Canary(invariant="V8", kind="row-altered", claims=_DATABASE, events=_RAN + _EFFECT + _ALTERED),
    Canary(
        invariant="V8",
        kind="row-disordered",
        claims=_DATABASE,
        events=_BOTH + _EFFECT + _EFFECT.replace("id=1", "id=2") + _ROW.replace("id=1", "id=2") + _ROW,
    ),
    Canary(
        invariant="V8",
        about="table not read",
        outcome=Outcome.UNKNOWN,
        claims=_DATABASE,
        events=_RAN + _EFFECT,
        unread=("output",),
    ),
    Canary(invariant="V9", kind="no-effect", claims=_AUDIT, events=_RAN),
    Canary(invariant="V9", kind="double-effect", claims=_AUDIT, events=DOUBLED),
    Canary(
        invariant="V9",
        kind="phantom-effect",
        claims=_AUDIT,
        events=_RAN + _EFFECT + _EFFECT.replace("id=1", "id=9"),
    ),
    Canary(
        invariant="V9", kind="wrong-effect", claims=_AUDIT, events=_RAN + _EFFECT.replace('v="v"', 'v="w"')
    ),
    Canary(invariant="V9", kind="row-deleted", claims=_DATABASE, events=_RAN + _EFFECT),
    Canary(invariant="V9", kind="row-doubled", claims=_DATABASE, events=_RAN + _EFFECT + 2 * _ROW),
    Canary(invariant="V9", kind="row-foreign", claims=_DATABASE, events=_RAN + _EFFECT + _ROW + _STRANGER),
    Canary(invariant="V9", kind="row-altered", claims=_DATABASE, events=_RAN + _EFFECT + _ALTERED),
    Canary(invariant="V9", kind="row-missing", claims=_TABLE, events=_RAN),
    Canary(
        invariant="V9",
        about="audit not read",
        outcome=Outcome.UNKNOWN,
        claims=_DATABASE,
        events=_RAN + _ROW,
        unread=("audit",),
    ),
    Canary(invariant="V20", kind="row-missing", claims=_DATABASE, events=_DIED),
    Canary(invariant="V20", kind="row-doubled", claims=_DATABASE, events=_DIED + 2 * _LETTER),
    Canary(invariant="V20", kind="row-foreign", claims=_DATABASE, events=_RAN + _EFFECT + _ROW + _LETTER),
    Canary(
        invariant="V20",
        kind="row-altered",
        claims=_DATABASE,
        events=_DIED + _LETTER.replace("refused", "lost"),
    ),
)

WRITTEN_RECORDS: Mapping[int, str | None] = {1: "v", 2: "v", 3: None}
"""The records of `WRITTEN` that have an output, with its value."""
WRITTEN_LETTERS: Mapping[int, str] = {4: "refused"}
"""Those that are dead letters, with their errors."""
WRITTEN = Canary(
    invariant="",
    about="epoch in a database",
    outcome=Outcome.PASS,
    claims={"sink": "atomic", **_DATABASE},
    events="start from=null pos=0\n"
    + "".join(
        f"in pos={id_ - 1} id={id_} expect=[{json.dumps(value)}]\ncall id={id_} try=1\n"
        for id_, value in (*WRITTEN_RECORDS.items(), *dict.fromkeys(WRITTEN_LETTERS, "v").items())
    )
    + "".join(
        f'res id={id_} try=1 r="ok" final=true v=[{json.dumps(value)}]\nout id={id_} j=0 v={json.dumps(value)}\n'
        for id_, value in WRITTEN_RECORDS.items()
    )
    + "".join(
        f'res id={id_} try=1 r="fail" final=true error="{error}"\ndead id={id_}\n'
        for id_, error in WRITTEN_LETTERS.items()
    )
    + "snap c=1 pos=4 elements=[]\ncommit c=1 a=1\nend\nended\nclose\n",
)
"""A run whose rows one epoch of our sink writes into a real database; they are not told here."""
