"""Canaries of checkpoints: what is stored (V10), restored (V11), made visible (V12, V13) and how often (V18)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.judge.canaries.canary import AUDIT_TABLE, Canary
from harness.judge.canaries.of_the_stream import ANSWERED, ONE, OVER, TWO

__all__ = ["OF_CHECKPOINTS", "ZOMBIE"]

_TWO_PHASE = {"sink": "two-phase"}
_STORED = 'snap c=1 pos=1 elements=[{"id":1}]\n'
_EMPTY = "snap c=1 pos=0 elements=[]\n"
_RESTARTED = """kill
start a=2 from=1 pos=1
restore a=2 c=1 elements=[{"id":1}]
"""
_OVER_2 = "end a=2\nended a=2\n"
_AGAIN = """call a=2 id=1 try=1
res a=2 id=1 try=1 r="ok" final=true v=["v"]
out a=2 id=1 j=0 v="v"
"""
_MANY = """
start from=null pos=0
in pos=0 id=1 expect=["v","w"]
call id=1 try=1
"""
_SECOND = 'res id=2 try=1 r="ok" final=true v=["v"]\nout id=2 j=0 v="v"\n'

_RESCALED = ONE + _STORED + "done c=1\nrescale c=1 of=[0] to=[1]\n"
_OVER_IN_1 = "end s=1\nended s=1\n"
_AGAIN_IN_1 = """call s=1 id=1 try=1
res s=1 id=1 try=1 r="ok" final=true v=["v"]
out s=1 id=1 j=0 v="v"
"""

ZOMBIE = (
    ONE
    + _STORED
    + "done c=1\n"
    + _RESTARTED
    + _AGAIN
    + _OVER_2
    + 'effect id=1 j=0 v="v" token=2\neffect id=1 j=0 v="v" token=1\n'
)
"""A superseded attempt whose effect comes after that of its successor."""

OF_CHECKPOINTS: Sequence[Canary] = (
    Canary(
        invariant="V10",
        kind="missing",
        events=ONE + "snap c=1 pos=1 elements=[]\ndone c=1\n" + ANSWERED + OVER,
    ),
    Canary(invariant="V10", kind="already-out", events=ONE + ANSWERED + _STORED + "done c=1\n" + OVER),
    Canary(
        invariant="V10",
        kind="torn",
        events=_MANY
        + 'res id=1 try=1 r="ok" final=true v=["v","w"]\nout id=1 j=0 v="v"\n'
        + _STORED
        + 'done c=1\nout id=1 j=1 v="w"\n'
        + OVER,
    ),
    Canary(
        invariant="V10",
        kind="both-sides",
        events=ONE + _STORED.replace("pos=1", "pos=0") + "done c=1\n" + ANSWERED + OVER,
    ),
    Canary(
        invariant="V10",
        kind="foreign",
        events=ONE + 'snap c=1 pos=1 elements=[{"id":1},{"id":9}]\ndone c=1\n' + ANSWERED + OVER,
    ),
    Canary(
        invariant="V10",
        kind="twice",
        events=ONE + 'snap c=1 pos=1 elements=[{"id":1},{"id":1}]\ndone c=1\n' + ANSWERED + OVER,
    ),
    Canary(
        invariant="V10",
        kind="misordered",
        events=TWO + 'snap c=1 pos=2 elements=[{"id":2},{"id":1}]\ndone c=1\n' + ANSWERED + _SECOND + OVER,
    ),
    Canary(
        invariant="V10",
        kind="skipped",
        events=ONE + 'snap c=1 pos=3 elements=[{"id":1}]\ndone c=1\n' + ANSWERED + OVER,
    ),
    Canary(invariant="V10", kind="incomplete", events=ONE + "done c=1\n" + ANSWERED + OVER),
    Canary(
        invariant="V10", kind="two-ends", events=ONE + _STORED + "done c=1\nabort c=1\n" + ANSWERED + OVER
    ),
    Canary(
        invariant="V10",
        kind="stale-ack",
        events="start from=null pos=0\n"
        + _EMPTY
        + "ack c=1\nkill\nstart a=2 from=null pos=0\nsnap a=2 c=1 pos=0 elements=[]\ndone c=1\n"
        + _OVER_2,
    ),
    Canary(
        invariant="V11",
        kind="bad-restore",
        events=ONE + _STORED + _RESTARTED + _AGAIN + _OVER_2,
    ),
    Canary(
        invariant="V11",
        kind="restore-differs",
        events=ONE + _STORED + "done c=1\n" + _RESTARTED.replace('{"id":1}', "") + _OVER_2,
    ),
    Canary(
        invariant="V11",
        kind="wrong-position",
        events=ONE + _STORED + "done c=1\n" + _RESTARTED.replace("pos=1", "pos=2") + _AGAIN + _OVER_2,
    ),
    Canary(
        invariant="V11",
        kind="left-behind",
        events=_RESCALED + "start s=1 from=1 pos=0\nrestore s=1 c=1 elements=[]\n" + _OVER_IN_1,
    ),
    Canary(
        invariant="V11",
        kind="restored-twice",
        events=_RESCALED
        + 'start s=1 from=1 pos=2\nrestore s=1 c=1 elements=[{"id":1},{"id":1}]\n'
        + _AGAIN_IN_1
        + _OVER_IN_1,
    ),
    Canary(
        invariant="V11",
        kind="not-stored",
        events=_RESCALED
        + 'start s=1 from=1 pos=2\nrestore s=1 c=1 elements=[{"id":1},{"id":9}]\n'
        + _AGAIN_IN_1
        + _OVER_IN_1,
    ),
    Canary(
        invariant="V11",
        kind="shared-partition",
        events=_RESCALED.replace("to=[1]", "to=[1,2]")
        + 'start s=1 from=1 pos=1\nrestore s=1 c=1 elements=[{"id":1}]\n'
        + _AGAIN_IN_1
        + "start s=2 from=1 pos=0\nrestore s=2 c=1 elements=[]\n"
        + "in s=1 pos=1 id=2 part=0 at_place=0 expect=[]\nin s=2 pos=0 id=3 part=0 at_place=0 expect=[]\n"
        + _OVER_IN_1
        + "end s=2\nended s=2\n",
    ),
    Canary(
        invariant="V12",
        kind="committed-twice",
        claims=_TWO_PHASE,
        events=ONE
        + ANSWERED
        + "snap c=1 pos=1 elements=[]\ndone c=1\ncommit c=1 a=1\ncommit c=1 a=1\n"
        + OVER,
    ),
    Canary(
        invariant="V12",
        kind="commit-order",
        claims=_TWO_PHASE,
        events="start from=null pos=0\n"
        + _EMPTY
        + "snap c=2 pos=0 elements=[]\ndone c=1\ndone c=2\ncommit c=2 a=1\ncommit c=1 a=1\n"
        + OVER,
    ),
    Canary(
        invariant="V12",
        kind="unknown-epoch",
        claims=_TWO_PHASE,
        events="start from=null pos=0\n" + _EMPTY + "done c=1\ncommit c=7 a=1\n" + OVER,
    ),
    Canary(
        invariant="V12",
        kind="early-commit",
        claims=_TWO_PHASE,
        events=ONE + ANSWERED + "snap c=1 pos=1 elements=[]\ncommit c=1 a=1\ndone c=1\n" + OVER,
    ),
    Canary(
        invariant="V12",
        kind="never-committed",
        claims=_TWO_PHASE,
        events=ONE + ANSWERED + "snap c=1 pos=1 elements=[]\ndone c=1\n" + OVER,
    ),
    Canary(
        invariant="V13",
        kind="zombie-commit",
        claims=_TWO_PHASE,
        events="""
start from=null pos=0
snap c=1 pos=0 elements=[]
done c=1
start a=2 from=null pos=0
snap a=2 c=2 pos=0 elements=[]
done c=2
commit c=2 a=2
commit c=1 a=1
"""
        + _OVER_2,
    ),
    Canary(
        invariant="V13",
        kind="zombie-effect",
        claims={"effects": "outputs", "tables": AUDIT_TABLE},
        events=ZOMBIE,
    ),
    Canary(
        invariant="V18",
        kind="checkpoint-gap",
        claims={"bounds": {"checkpoint_gap": 10}},
        events="start from=null pos=0\nend at=100\nended",
    ),
)
