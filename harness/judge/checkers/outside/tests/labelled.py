"""A labelled history: a claim, a small history in the lines of the canaries, and what both judges must say of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.history.values import identity
from harness.history.verdict import Judgement
from harness.judge.canaries.outside_canary import OutsideCanary
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.checkers.outside.tests.naive_outside import opinions_on, verdict_on

__all__ = ["Labelled", "each", "refuse_difference", "told"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One history; `says` holds words such as `V8 fail duplicate:1`, `V16 pass`, `overall vacuous`."""

    claim: str
    events: str
    says: Sequence[str]
    claims: Mapping[str, Any] = field(default_factory=dict)
    sink: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)

    def canary(self) -> OutsideCanary:
        return OutsideCanary(
            invariant="", events=self.events, claims=self.claims, sink=self.sink, header=self.header
        )


def each(cases: Sequence[Labelled]) -> pytest.MarkDecorator:
    """Runs a test on each of the histories, under its claim."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.claim.replace(" ", "_"))


def told(judgement: Judgement) -> dict[str, str]:
    """`V8` -> `fail duplicate:1 lost:2`; `overall` -> the verdict."""
    found = {"overall": str(judgement.outcome)}
    for verdict in judgement.invariants:
        anomalies = sorted(_named(anomaly.as_json()) for anomaly in verdict.anomalies)
        found[verdict.invariant] = " ".join([str(verdict.outcome), *anomalies])
    return found


def _named(anomaly: Json) -> str:
    names = [
        json.dumps(anomaly[name], separators=(",", ":"))
        for name in ("id", "j", "tx", "start")
        if name in anomaly
    ]
    return f"{anomaly['class']}:{'/'.join(names)}"


def refuse_difference(case: Labelled) -> None:
    """Fails if either judge says something else than the label."""
    canary = case.canary()
    judgement = judge_outside(*canary.history())
    found = told(judgement)
    wanted = {line.split()[0]: line.partition(" ")[2] for line in case.says}
    assert {name: found[name] for name in wanted} == wanted
    lines = canary.lines()
    opinions = opinions_on(lines)
    judged = {
        v.invariant: (str(v.outcome), len(v.anomalies))
        for v in judgement.invariants
        if v.outcome != "not-claimed"
    }
    assert judged == {name: (outcome, anomalies.total()) for name, (outcome, anomalies) in opinions.items()}
    assert str(judgement.outcome) == verdict_on(lines, opinions)
    assert {
        (v.invariant, a.kind, identity(a.as_json().get("id")), a.j)
        for v in judgement.invariants
        for a in v.anomalies
    } == {(name, one[0], one[1], one[2]) for name, (_, anomalies) in opinions.items() for one in anomalies}
