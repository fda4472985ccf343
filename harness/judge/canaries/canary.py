"""Canaries: for each class of violation a small history that must be convicted, and honest ones that must pass.

Answers to the self-test of a smoke detector. Each is a file below `histories`: `operator` and `jobs` are what the judge
is shown before anything counts, `files` only a history file can show, the rows of `database` a sink of ours writes.
`run.canary` of its header says what must be found: `V8 fail duplicate`, `V8 unknown`, `honest pass`. Invariant: a judge
that finds something else is defective, and none of its verdicts counts. What is wrong in a canary is in its last
attempt, so a judge that skips last attempts fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.history.event import Event
from harness.history.header import Header
from harness.history.read import read_outside, read_whole
from harness.history.verdict import Judgement, Outcome

Judge = Callable[[Header, Iterable[Event]], Judgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One of them, read from its file."""

    path: Path
    header: Mapping[str, Any]
    """As JSON, without `run`."""
    events: Sequence[Mapping[str, Any]]
    """As JSON."""
    invariant: str
    """The invariant that must say it; `honest`: the judgement as a whole must."""
    outcome: Outcome
    kind: str
    """The class of the anomaly; empty: `outcome` alone is compared."""

    @property
    def name(self) -> str:
        """`V8 duplicate by another attempt`."""
        return self.path.stem.replace("_", " ")

    @property
    def unread(self) -> list[str]:
        """Tables of the header that are not read to their end."""
        read = {event["table"] for event in self.events if event["k"] == "read"}
        return [table for table in self.header.get("tables", ()) if table not in read]


@cache
def canaries(folder: Literal["operator", "files", "jobs", "database"]) -> Sequence[Canary]:
    """Those of a folder, from V1 on; the honest ones come last."""
    found = []
    for path in (Path(__file__).parent / "histories" / folder).glob("*.jsonl"):
        header, *events = map(msgspec.json.decode, path.read_bytes().splitlines())
        invariant, outcome, *kind = header.pop("run")["canary"].split()
        found.append(
            Canary(
                path=path,
                header=header,
                events=events,
                invariant=invariant,
                outcome=Outcome(outcome),
                kind="".join(kind),
            )
        )
    return sorted(found, key=lambda one: (one.invariant == "honest", len(one.invariant), one.name))


def is_found(canary: Canary, judgement: Judgement) -> bool:
    """Whether the judgement says of the canary what it must: the class too, not only the invariant."""
    if canary.invariant == "honest":
        return judgement.outcome is canary.outcome
    verdicts = {verdict.invariant: verdict for verdict in judgement.invariants}
    found = verdicts.get(canary.invariant)
    if found is None or found.outcome is not canary.outcome:
        return False
    return judgement.outcome is not Outcome.PASS and (
        not canary.kind or canary.kind in {anomaly.kind for anomaly in found.anomalies}
    )


def overlooked(judge: Callable[[Any, Any], Judgement], shown: Iterable[Canary]) -> tuple[str, ...]:
    """The names of the canaries that the judge does not convict, and of the honest ones that it does not acquit."""
    return tuple(
        canary.name
        for canary in shown
        if not is_found(
            canary, judge(*(read_outside if "view" in canary.header else read_whole)(canary.path))
        )
    )
