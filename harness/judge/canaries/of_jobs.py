"""Canaries of jobs seen from outside: one for each class, and honest ones."""

from __future__ import annotations

from collections.abc import Sequence

from harness.history.verdict import Outcome
from harness.judge.canaries.outside_canary import OutsideCanary

__all__ = ["OF_JOBS"]

_ONE = 'start\noffer id=1 key="k" expect=[["a"]]\n'
_TWO = _ONE + 'offer id=2 key="k" expect=[["b"]]\n'
_A, _B = 'insert id=1 v=["a"]\n', 'insert id=2 v=["b"]\n'
_SEEN_A, _SEEN_B = 'table id=1 v=["a"]\n', 'table id=2 v=["b"]\n'
_DONE = 'exit start=1 code=0\nfinished how="exit"\n'
_READ = "whole reading=1\n"
_END = _DONE + _SEEN_A + _READ
_POISON = "start\noffer id=1 fails=true\n"
_DEAD = {"dead_letters": "dead"}

OF_JOBS: Sequence[OutsideCanary] = (
    OutsideCanary(
        invariant="V1",
        kind="reordered",
        claims={"order": "source"},
        events=_TWO + _B + _A + _DONE + _SEEN_A + _SEEN_B + _READ,
    ),
    OutsideCanary(
        invariant="V3",
        kind="key-reordered",
        claims={"order": "key"},
        events=_TWO + _B + _A + _DONE + _SEEN_A + _SEEN_B + _READ,
    ),
    OutsideCanary(invariant="V8", kind="phantom", events=_ONE + _A + _B + _DONE + _SEEN_A + _SEEN_B + _READ),
    OutsideCanary(
        invariant="V8", kind="duplicate", events=_ONE + _A + _A + _DONE + _SEEN_A + _SEEN_A + _READ
    ),
    OutsideCanary(
        invariant="V8",
        kind="duplicate",
        about="in the table alone",
        sink={"changes": False},
        events=_ONE + _DONE + _SEEN_A + _SEEN_A + _READ,
    ),
    OutsideCanary(
        invariant="V8",
        kind="wrong-value",
        events=_ONE + 'insert id=1 v=["x"]\n' + _DONE + 'table id=1 v=["x"]\n' + _READ,
    ),
    OutsideCanary(invariant="V8", kind="deleted", events=_ONE + _A + 'delete id=1 v=["a"]\n' + _A + _END),
    OutsideCanary(
        invariant="V8",
        kind="deleted",
        about="in the end",
        sink={"write": "replace"},
        events=_ONE + _A + 'delete id=1 v=["a"]\n' + _DONE + _READ,
    ),
    OutsideCanary(invariant="V8", kind="lost", events=_TWO + _A + _DONE + _SEEN_A + _READ),
    OutsideCanary(
        invariant="V8",
        kind="lost",
        about="to the dead letters without a fault",
        header=_DEAD,
        events=_ONE + _DONE + "dead id=1\n" + _READ,
    ),
    OutsideCanary(
        invariant="V8",
        kind="changed-again",
        events=_ONE
        + _A
        + _END
        + "start\n"
        + _A
        + 'table reading=2 id=1 v=["a"]\ntable reading=2 id=1 v=["a"]\nwhole reading=2\n',
    ),
    OutsideCanary(invariant="V8", about="table not read", outcome=Outcome.UNKNOWN, events=_ONE + _A + _DONE),
    OutsideCanary(
        invariant="V8",
        about="log and table disagree",
        outcome=Outcome.UNKNOWN,
        events=_TWO + _A + _DONE + _SEEN_A + _SEEN_B + _READ,
    ),
    OutsideCanary(
        invariant="V8",
        about="not finished",
        outcome=Outcome.UNKNOWN,
        events=_TWO + _A + _SEEN_A + _READ,
    ),
    OutsideCanary(
        invariant="V13",
        kind="zombie-effect",
        events=_TWO
        + "start\n"
        + _A
        + 'insert id=2 v=["b"] start=1\nexit start=2 code=0\nfinished how="exit"\n'
        + _SEEN_A
        + _SEEN_B
        + _READ,
    ),
    OutsideCanary(invariant="V16", kind="stuck", events=_ONE + 'giveup why="silence"\n' + _READ),
    OutsideCanary(
        invariant="V16",
        about="not finished",
        outcome=Outcome.UNKNOWN,
        events=_ONE + _A + 'finished how="exit"\n' + _SEEN_A + _READ,
    ),
    OutsideCanary(invariant="V20", kind="swallowed", events=_POISON + _DONE + _READ),
    OutsideCanary(
        invariant="V20",
        kind="row-foreign",
        header=_DEAD,
        events=_ONE + _A + _DONE + _SEEN_A + "dead id=9\n" + _READ,
    ),
    OutsideCanary(
        invariant="V20",
        kind="row-doubled",
        header=_DEAD,
        events=_POISON + _DONE + "dead id=1\ndead id=1\n" + _READ,
    ),
    OutsideCanary(
        invariant="V20",
        kind="double-routed",
        header=_DEAD,
        events=_ONE + _A + _DONE + _SEEN_A + "dead id=1\n" + _READ,
    ),
    OutsideCanary(
        invariant="V23",
        about="without a bite",
        outcome=Outcome.VACUOUS,
        events=_ONE
        + _A
        + 'fault f="kill" phase="begin"\nfault f="kill" phase="end" evidence={"pid":7}\n'
        + _END,
    ),
    OutsideCanary(
        invariant="V24",
        kind="unexplained-failure",
        claims={"explained": True},
        events=_ONE
        + "exit start=1 code=3\nstart\n"
        + _A
        + 'exit start=2 code=0\nfinished how="exit"\n'
        + _SEEN_A
        + _READ,
    ),
    OutsideCanary(
        invariant="",
        about="job",
        outcome=Outcome.PASS,
        claims={"order": "source", "explained": True},
        events=_TWO
        + _A
        + 'fault f="kill" phase="begin"\nexit start=1 signal=9 by="kill"\n'
        + 'fault f="kill" phase="end" evidence={"pid":7}\n'
        + "start\n"
        + _B
        + 'exit start=2 code=0\nfinished how="exit"\n'
        + _SEEN_A
        + _SEEN_B
        + _READ,
    ),
    OutsideCanary(
        invariant="",
        about="job that writes a row again",
        outcome=Outcome.PASS,
        sink={"write": "upsert"},
        events=_ONE + 'insert id=1 v=["x"]\n' + 'update id=1 v=["a"] was={"id":1,"v":["x"]}\n' + _END,
    ),
)
