"""Canaries of the stream: records and watermarks in order (V1 to V7), each result once (V8)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.history.verdict import Outcome
from harness.judge.canaries.canary import Canary

__all__ = ["ANSWERED", "HONEST", "OF_THE_STREAM", "ONE", "OVER", "TWO", "TWO_BACKWARDS"]

HONEST = """
start from=null pos=0
in pos=0 id=1 expect=["v"]
call id=1 try=1
wm pos=1 w=5
res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
owm w=5
end
ended
close
"""
"""One record and a watermark, without a breach."""

TWO = """
start from=null pos=0
in pos=0 id=1 key=1 expect=["v"]
call id=1 try=1
in pos=1 id=2 key=1 expect=["v"]
call id=2 try=1
"""
TWO_BACKWARDS = """res id=2 try=1 r="ok" final=true v=["v"]
out id=2 j=0 v="v"
res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
end
ended
"""
ONE = """
start from=null pos=0
in pos=0 id=1 expect=["v"]
call id=1 try=1
"""
ANSWERED = """res id=1 try=1 r="ok" final=true v=["v"]
out id=1 j=0 v="v"
"""
OVER = """end
ended
"""
_UNORDERED = {"operator": {"mode": "unordered"}}
_VERSIONED = """
start from=null pos=0
in pos=0 id=1 key=1 expect=["v"]
{before}call id=1 try=1
res id=1 try=1 r="ok" final=true v=["v"] ver={ver}
out id=1 j=0 v="v"
"""
_NO_VALUES = ONE.replace(' expect=["v"]', "")

_LONG = "v" * 300
_LARGE = 2**53


def _of_subtask(number: int, events: str) -> str:
    """The same events of another subtask, with other records."""
    lines = events.replace("id=", f"id={number}").strip().splitlines()
    return "".join(f"{line} s={number}\n" for line in lines)


OF_THE_STREAM: Sequence[Canary] = (
    Canary(invariant="V1", kind="reordered", events=TWO + TWO_BACKWARDS),
    Canary(
        invariant="V1",
        kind="reordered",
        about="though not decisive",
        claims={"decisive": ["V8"]},
        events=TWO + TWO_BACKWARDS,
    ),
    Canary(
        invariant="V1",
        kind="reordered",
        about="in the second subtask",
        events="start from=null pos=0\n" + OVER + _of_subtask(1, TWO + TWO_BACKWARDS),
    ),
    Canary(
        invariant="V2",
        kind="overtook-watermark",
        claims=_UNORDERED,
        events="start from=null pos=0\nwm pos=0 w=5\n"
        'in pos=1 id=1 expect=["v"]\ncall id=1 try=1\n' + ANSWERED + "owm w=5\n" + OVER,
    ),
    Canary(
        invariant="V3",
        kind="key-reordered",
        claims={"operator": {"mode": "unordered", "per_key_order": True}},
        events=TWO + TWO_BACKWARDS,
    ),
    Canary(
        invariant="V4",
        kind="watermark-back",
        events="start from=null pos=0\nwm pos=0 w=5\nwm pos=1 w=6\nowm w=6\nowm w=5\n" + OVER,
    ),
    Canary(invariant="V5", kind="crossed", events=ONE + "wm pos=1 w=5\nowm w=5\n" + ANSWERED + OVER),
    Canary(invariant="V6", kind="watermark-lost", events="start from=null pos=0\nwm pos=0 w=5\n" + OVER),
    Canary(
        invariant="V6",
        kind="held",
        claims={"bounds": {"watermark_hold": 10}},
        events="start from=null pos=0\nwm pos=0 w=5\nowm at=50 w=5\n" + OVER,
    ),
    Canary(
        invariant="V7",
        kind="phantom-watermark",
        events="start from=null pos=0\nwm pos=0 w=5\nowm w=5\nowm w=6\n" + OVER,
    ),
    Canary(
        invariant="V7",
        kind="repeated-watermark",
        events="start from=null pos=0\nwm pos=0 w=5\nowm w=5\nowm w=5\n" + OVER,
    ),
    Canary(
        invariant="V7",
        kind="after-end",
        events=ONE + 'wm pos=1 w="end"\nowm w="end"\n' + ANSWERED + OVER,
    ),
    Canary(
        invariant="V8",
        kind="phantom",
        events=ONE + ANSWERED + 'out id=2 j=0 v="v"\n' + OVER,
    ),
    Canary(invariant="V8", kind="duplicate", events=ONE + ANSWERED + 'out id=1 j=0 v="v"\n' + OVER),
    Canary(
        invariant="V8",
        kind="duplicate",
        about="by another attempt",
        claims={"sink": "append"},
        events=ONE
        + 'snap c=1 pos=1 elements=[{"id":1}]\ndone c=1\n'
        + ANSWERED
        + 'kill\nstart a=2 from=1 pos=1\nrestore a=2 c=1 elements=[{"id":1}]\ncall a=2 id=1 try=1\n'
        + ANSWERED.replace("id=1", "a=2 id=1")
        + OVER.replace("end", "end a=2", 1).replace("ended", "ended a=2"),
    ),
    Canary(
        invariant="V8",
        kind="wrong-value",
        events=ONE + ANSWERED.replace('j=0 v="v"', 'j=0 v="w"') + OVER,
    ),
    Canary(
        invariant="V8",
        kind="wrong-value",
        about="at the end of a long one",
        events=ONE.replace('["v"]', f'["{_LONG}v"]')
        + ANSWERED.replace('j=0 v="v"', f'j=0 v="{_LONG}w"')
        + OVER,
    ),
    Canary(
        invariant="V8",
        kind="wrong-value",
        about="by one in a large number",
        events=ONE.replace('["v"]', f"[{_LARGE}]")
        + ANSWERED.replace('j=0 v="v"', f"j=0 v={_LARGE + 1}")
        + OVER,
    ),
    Canary(invariant="V8", about="unfinished", outcome=Outcome.UNKNOWN, events=ONE),
    Canary(invariant="V8", kind="lost", events=ONE + 'res id=1 try=1 r="ok" final=true v=["v"]\n' + OVER),
    Canary(
        invariant="V8",
        kind="inconsistent",
        claims={"by_key": True},
        events=TWO.replace(' expect=["v"]', "")
        + 'res id=1 try=1 r="ok" final=true v=["v"]\nout id=1 j=0 v="v"\n'
        + 'res id=2 try=1 r="ok" final=true v=["w"]\nout id=2 j=0 v="w"\n'
        + OVER,
    ),
    Canary(
        invariant="V8",
        kind="stale",
        claims={"versions": True},
        events=_VERSIONED.format(before='change phase="begin" ver=1\nchange phase="end" ver=1\n', ver=0)
        + OVER,
    ),
    Canary(
        invariant="V8",
        kind="future",
        claims={"versions": True},
        events=_VERSIONED.format(before="", ver=1) + OVER,
    ),
    Canary(
        invariant="V8",
        about="without values",
        outcome=Outcome.VACUOUS,
        claims={"expect_from": "none"},
        events=_NO_VALUES + ANSWERED + OVER,
    ),
)
