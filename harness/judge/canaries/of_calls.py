"""Canaries of calls and the run: capacity (V14), attempts and retries (V15), progress (V16), V19 to V21, V23, V24."""

from __future__ import annotations

from collections.abc import Sequence

from harness.history.verdict import Outcome
from harness.judge.canaries.canary import Canary
from harness.judge.canaries.of_the_stream import ANSWERED, HONEST, ONE, OVER, TWO, TWO_BACKWARDS

__all__ = ["OF_CALLS"]

_OK = 'res id=1 try=1 r="ok" final=true v=["v"]\n'
_OUT = 'out id=1 j=0 v="v"\n'
_REFUSED = 'res id=1 try=1 r="fail" final=true error="refused"\n'
_TRIED = 'res id=1 try=1 r="fail" final=false error="refused"\n'
_SECOND_TRY = 'call at={} id=1 try=2\nres id=1 try=2 r="ok" final=true v=["v"]\n' + _OUT
_FIXED = {"backoff": "fixed", "initial_ms": 100}
_RETRYING = {"operator": {"max_tries": 3, "retry": _FIXED}}
_TIMED = {"operator": {"timeout_ms": 100}}
_ON_TASK = ONE.replace("try=1", 'try=1 thread="task"')
_SWAPPED = ONE + 'in pos=1 id=2 expect=["v"]\n'

OF_CALLS: Sequence[Canary] = (
    Canary(
        invariant="V14",
        kind="over-capacity",
        claims={"operator": {"capacity": 1}},
        events=TWO + TWO_BACKWARDS,
    ),
    Canary(
        invariant="V14",
        kind="over-admitted",
        claims={"operator": {"capacity": 1}},
        events=_SWAPPED
        + 'in pos=2 id=3 expect=["v"]\n'
        + ANSWERED
        + 'call id=2 try=1\nres id=2 try=1 r="ok" final=true v=["v"]\nout id=2 j=0 v="v"\n'
        + 'call id=3 try=1\nres id=3 try=1 r="ok" final=true v=["v"]\nout id=3 j=0 v="v"\n'
        + OVER,
    ),
    Canary(invariant="V15", kind="two-outcomes", events=ONE + ANSWERED + _OK + OVER),
    Canary(
        invariant="V15",
        kind="call-after-final",
        claims=_RETRYING,
        events=ONE + ANSWERED + "call id=1 try=2\n" + OVER,
    ),
    Canary(
        invariant="V15",
        kind="concurrent-call",
        claims=_RETRYING,
        events=ONE + "call id=1 try=2\n" + ANSWERED + OVER,
    ),
    Canary(
        invariant="V15",
        kind="tries",
        events=ONE + _TRIED + _SECOND_TRY.format(0) + OVER,
    ),
    Canary(
        invariant="V15",
        kind="early-timeout",
        claims=_TIMED,
        events=ONE + 'res at=50 id=1 try=1 r="timeout" final=true v=["v"]\n' + _OUT + OVER,
    ),
    Canary(
        invariant="V15",
        kind="late-timeout",
        claims=_TIMED,
        events=ONE + _OK.replace("res", "res at=500") + _OUT + OVER,
    ),
    Canary(invariant="V15", kind="out-before-outcome", events=ONE + _OUT + _OK + OVER),
    Canary(invariant="V15", kind="unknown-record", events=ONE + ANSWERED + "call id=9 try=1\n" + OVER),
    Canary(
        invariant="V15",
        kind="unknown-call",
        claims=_RETRYING,
        events=ONE + _OK.replace("try=1", "try=2") + _OUT + OVER,
    ),
    Canary(
        invariant="V15",
        kind="retry-missing",
        claims=_RETRYING,
        events=ONE + _TRIED + OVER,
    ),
    Canary(
        invariant="V15",
        kind="retry-early",
        claims=_RETRYING,
        events=ONE + _TRIED + _SECOND_TRY.format(20) + OVER,
    ),
    Canary(
        invariant="V15",
        kind="retry-late",
        claims=_RETRYING,
        events=ONE + _TRIED + _SECOND_TRY.format(900) + OVER,
    ),
    Canary(
        invariant="V15",
        kind="gave-up-early",
        claims=_RETRYING,
        events=ONE + _REFUSED + 'failed id=1 error="refused"\n',
    ),
    Canary(
        invariant="V15",
        kind="retried-anyway",
        claims={"operator": {"max_tries": 3, "retry": {**_FIXED, "on": ["unknown"]}}},
        events=ONE + _TRIED + _SECOND_TRY.format(100) + OVER,
    ),
    Canary(invariant="V16", kind="stuck", events=ONE + 'giveup at=60000 why="quiet"'),
    Canary(
        invariant="V19",
        kind="foreign-response",
        events=ONE.replace("try=1", "try=1 nonce=7") + _OK.replace("try=1", "try=1 nonce=8") + _OUT + OVER,
    ),
    Canary(
        invariant="V19",
        kind="nonce-reused",
        events=TWO.replace("try=1", "try=1 nonce=7")
        + ANSWERED
        + 'res id=2 try=1 r="ok" final=true v=["v"]\nout id=2 j=0 v="v"\n'
        + OVER,
    ),
    Canary(invariant="V20", kind="swallowed", events=ONE + _REFUSED + OVER),
    Canary(
        invariant="V20",
        kind="double-routed",
        events=ONE + _REFUSED + 'dead id=1\nfailed id=1 error="refused"\n',
    ),
    Canary(
        invariant="V21",
        kind="foreign-thread",
        events=_ON_TASK
        + _OK.replace("try=1", 'try=1 thread="task"')
        + _OUT.replace("j=0", 'j=0 thread="client"')
        + OVER,
    ),
    Canary(invariant="V21", kind="outside-life", events=HONEST + _OUT),
    Canary(
        invariant="V21",
        kind="interleaved",
        events=TWO.replace('"v"', '"v","w"', 1)
        + 'res id=1 try=1 r="ok" final=true v=["v","w"]\nres id=2 try=1 r="ok" final=true v=["v"]\n'
        + 'out id=1 j=0 v="v"\nout id=2 j=0 v="v"\nout id=1 j=1 v="w"\n'
        + OVER,
    ),
    Canary(
        invariant="V23",
        about="too few records",
        outcome=Outcome.VACUOUS,
        claims={"expects": {"records": 2}},
        events=HONEST,
    ),
    Canary(
        invariant="V23",
        about="no evidence",
        outcome=Outcome.VACUOUS,
        events=ONE
        + 'fault f="delay" phase="begin"\nfault f="delay" phase="end" evidence={}\n'
        + ANSWERED
        + OVER,
    ),
    Canary(
        invariant="V24",
        kind="unexplained-failure",
        claims={"explained": "alone"},
        events=ONE + ANSWERED + 'failed error="it"\n',
    ),
)
