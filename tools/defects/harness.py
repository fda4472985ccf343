"""Defects of the harness itself: faults without effect, a recorder that loses events, a judge that skips some.

Answers to a verdict of pass that means nothing (M30). Invariant: faults without effect make a run vacuous. No invariant
can convict the other two, because the history, or its reader, is what is wrong: the numbers of the events and the
canaries (`harness.judge.canaries`) do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.history.event import Event
from harness.history.header import Header
from harness.history.verdict import Judgement
from harness.judge.canaries.canary import Judge
from harness.sut.defects.defect import SIM_ONLY, Defect
from harness.sut.defects.twelve import FAULTS_DO_NOTHING
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.where import network_is_disturbed

_ONE_IN = 1000


@made_once
def dropping(recorder: Kind) -> Kind:
    """`recorder`, which loses one line in a thousand, chosen by the line's number."""

    class LeakyRecorder(recorder):  # type: ignore[misc]  # a class made of a class
        def _write(self, number: int, line: Any) -> None:
            if (number * 2_654_435_761 >> 11) % _ONE_IN:  # spread over all numbers, without a random draw
                super()._write(number, line)

    return LeakyRecorder


def skipping_last_attempt(judge: Judge) -> Judge:
    """`judge`, without the events of each subtask's last attempt."""

    def judge_the_others(header: Header, events: Iterable[Event]) -> Judgement:
        listed = list(events)
        last: dict[Any, int] = {}
        for event in listed:
            attempt = getattr(event, "a", None)
            if isinstance(attempt, int):
                subtask = getattr(event, "s", None)
                last[subtask] = max(attempt, last.get(subtask, 0))
        return judge(header, [event for event in listed if not _is_of(event, last)])

    return judge_the_others


def _is_of(event: Event, last: dict[Any, int]) -> bool:
    attempt = getattr(event, "a", None)
    return isinstance(attempt, int) and last.get(getattr(event, "s", None)) == attempt


OF_THE_HARNESS = (
    Defect(
        number=30,
        name="proxy-bypassed",
        about="the lookups go past the proxy, so network faults act on nobody (a defect of the harness)",
        mirrors="etcd#17775",
        convicted_by=("V23",),
        variant=Variant(bypasses_proxy=True),
        where="something disturbs the network",
        applies=network_is_disturbed,
        scenario="latency-spike-ordered",
    ),
    FAULTS_DO_NOTHING,
    Defect(
        number=30,
        name="recorder-drops",
        about="the recorder loses one event in a thousand (a defect of the harness)",
        mirrors="a history with holes in it, which looks whole",
        convicted_by=("recording",),
        variant=Variant(recorder=dropping),
        levels=SIM_ONLY,
    ),
    Defect(
        number=30,
        name="judge-skips-last-attempt",
        about="the judge does not look at each subtask's last attempt (a defect of the harness)",
        mirrors="a check that stops too early",
        convicted_by=("canary",),
        variant=Variant(judge=skipping_last_attempt),
        levels=SIM_ONLY,
    ),
)
