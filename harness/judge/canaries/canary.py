"""Canaries: for each class of violation a small history that must be convicted, and honest ones that must pass.

Answers to the self-test of a smoke detector. Each is a file below `histories`: `operator` and `jobs` are what the judge
is shown before anything counts, `files` only a history file can show, the rows of `database` a sink of ours writes.
`run.canary` of its header says what must be found: `V8 fail duplicate`, `V8 unknown`, `honest pass`. Invariant: a judge
that finds something else is defective, and none of its verdicts counts. What is wrong in a canary is in its last
attempt, so a judge that skips last attempts fails.

Writes a canary into what records runs: its events through an attempt's journal, its rows into tables.

Invariant: what a journal can write it writes; only fields that it makes itself (a nonce, a thread) or does not know go
to its log directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args

import msgspec

from harness.history.event import Event, Kill, OfAttempt
from harness.history.header import Header
from harness.history.journal import EventLog, Journal
from harness.history.read import read_outside, read_whole
from harness.history.verdict import Judgement, Outcome
from harness.system.json_types import Json
from harness.system.process_identity import ProcessIdentity

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


def overlooked(judge: Callable[..., Judgement], shown: Iterable[Canary]) -> tuple[str, ...]:
    """The names of the canaries that the judge does not convict, and of the honest ones that it does not acquit."""
    return tuple(
        canary.name
        for canary in shown
        if not is_found(
            canary, judge(*(read_outside if "view" in canary.header else read_whole)(canary.path))
        )
    )


class CanaryPlace(Protocol):
    """Where a level's runs leave their events and rows."""

    def go_on(self, t_us: int) -> None:
        """Sets the clock; it never goes back."""

    def log(self, subtask: int, attempt: int) -> EventLog:
        """The log of a new attempt."""

    def note(self, event: Event) -> None:
        """An event that no attempt writes: of the harness, the coordinator, a fault, or a commit; its `n` is open."""

    def store(self, table: str, row: Mapping[str, object]) -> None:
        """A row of a table, with the fields of its event."""


def write_canary(canary: Canary, place: CanaryPlace) -> None:
    """Writes every event and row of `canary`, in order."""
    logs: dict[tuple[int, int], tuple[EventLog, Journal]] = {}
    for line in canary.events:
        kind, t_us = line["k"], line["t"]
        fields = {name: value for name, value in line.items() if name not in {"n", "t", "k"}}
        place.go_on(t_us)
        if kind in _ROWS:
            place.store(fields.pop("table", "audit"), fields)
        elif kind not in _KINDS:
            if kind != "read":
                place.note(msgspec.convert({**line, "n": 0}, Event))
        else:
            attempt = fields["s"], fields["a"]
            if attempt not in logs:
                log = place.log(*attempt)
                logs[attempt] = log, Journal(log, subtask=attempt[0], attempt=attempt[1])
            _write(kind, fields, *logs[attempt])


def _write(kind: str, fields: Json, log: EventLog, journal: Journal) -> None:
    named = {_NAMES[kind][name]: value for name, value in fields.items()}
    if not _MADE_BY_THE_JOURNAL.isdisjoint(fields):
        log.event(_KINDS[kind], **named)
    elif kind in _JOURNALED:
        _JOURNALED[kind](journal, fields)
    else:
        del named["s"], named["a"]
        journal.event(_KINDS[kind], **named)


_ROWS: Final = frozenset({"row", "effect"})
_MADE_BY_THE_JOURNAL: Final = frozenset({"nonce", "thread", "ver"})
_KINDS: Final[Mapping[str, type[OfAttempt]]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(OfAttempt) if kind is not Kill
}
_NAMES: Final = {
    tag: {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    for tag, kind in _KINDS.items()
}
_NO_PROCESS: Final = ProcessIdentity(pid=0, started=0)


def _settled(journal: Journal, line: Json) -> None:
    """An outcome; what its call raised is an `OSError` in each canary, since a journal is given the error itself."""
    if (raised := line.get("raised")) is not None:
        error = OSError(raised.removeprefix("OSError: "))
        journal.raised(line["id"], error, by_timeout=line["r"] == "timeout")
    journal.settled(
        id=line["id"],
        attempt=line["try"],
        ending=line["r"],
        final=line["final"],
        values=line.get("v"),
        error=line.get("error"),
    )


_JOURNALED: Final[Mapping[str, Callable[[Journal, dict[str, Any]], None]]] = {
    "start": lambda journal, line: journal.started(
        checkpoint=line["from"], position=line["pos"], process=_NO_PROCESS
    ),
    "call": lambda journal, line: journal.called(id=line["id"], attempt=line["try"]),
    "res": _settled,
    "failed": lambda journal, line: journal.failed(line["error"], id=line.get("id")),
    "close": lambda journal, _: journal.closed(),
}
