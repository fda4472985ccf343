"""What a report says of a whole job beside its verdict: losses first, where values are from, assumptions, what is open.

Invariant: a sentence here is about this history: it names its columns, its claims and its counts. What no history seen
from outside can show is listed as not claimed, whatever the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.history.values import brief, without_credentials
from harness.history.verdict import Outcome
from harness.scenario.outcome import RunOutcome
from harness.system.json_types import JsonView
from reports.history_view import HistoryView
from reports.losses import MomentLoss, losses_of
from reports.outside_view import OutsideView, noun_of
from reports.reading import title_of

_WRITE: Final = {
    "append": "append: a row, once there, may only be written again equal",
    "replace": "replace: a row may be taken away if it is back in the end",
    "upsert": "upsert: a row may change; its last value is judged",
}
_VALUES: Final = {
    "given": "stated for each record: the source joined with the looked-up rows",
    "calm": "from the calm twin: the table of the same job, undisturbed",
    "none": "not judged: only whether each record has its rows",
}
_DONE: Final = {
    "exit": "the job exited with code 0 after the last record had been offered",
    "file": "the job wrote its done file",
    "all-rows": "every expected row was in the table",
    "settled": "the last record of each partition was in the table, which was then quiet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSection:
    """What the report says of a job whose history is seen from outside."""

    losses: tuple[MomentLoss, ...]
    facts: tuple[tuple[str, str], ...]
    assumed: tuple[str, ...]
    not_claimed: tuple[str, ...]


def job_section_of(outcome: RunOutcome, view: HistoryView) -> JobSection | None:
    """The section of a run whose history is seen from outside; None for any other run."""
    if view.outside is None:
        return None
    header = view.header
    return JobSection(
        losses=losses_of(
            outcome.judgement,
            view.outside,
            kinds={fault.id: fault.kind for fault in outcome.faults},
            origin_us=view.origin_us,
        ),
        facts=tuple(_facts(outcome, view, view.outside)),
        assumed=tuple(_assumed(header)),
        not_claimed=tuple(_not_claimed(outcome, header, view.outside)),
    )


def _facts(outcome: RunOutcome, view: HistoryView, outside: OutsideView) -> Iterator[tuple[str, str]]:
    claims, sink = _part(view.header, "claims"), _part(view.header, "sink")
    yield "claimed delivery", str(claims.get("delivery", "?"))
    yield "claimed order", str(claims.get("order", "none"))
    yield (
        "a start acts no more once replaced",
        "claimed" if claims.get("fenced", claims.get("delivery") != "at-least-once") else "not claimed",
    )
    further = f", {outside.sentinels} of them when it had gone quiet" if outside.sentinels else ""
    yield "records offered", f"{len(outside.offers_us)}{further}"
    yield "starts", str(len(outside.starts))
    yield "rows read in the end", _counted(outside, "table 1")
    yield "rows after a further start", _counted(outside, "table 2", never="no further start")
    if "dead 1" in outside.counted:
        yield "dead letters", _counted(outside, "dead 1")
    if outside.asked:
        yield (
            "lookups that the database saw",
            f"{outside.asked}, {outside.asked_again} of them of a key again",
        )
    yield (
        "table",
        f"{sink.get('table') or 'of the job'}, {_WRITE.get(str(sink.get('write')), sink.get('write'))}",
    )
    yield f"a {outside.noun} is told by", _columns(sink.get("id"))
    yield "judged columns", _columns(sink.get("values"))
    values = outcome.values.removeprefix("Expected values: ").removesuffix(".")
    yield "expected values", values or _VALUES.get(str(view.header.get("expect_from")), "?")
    done = "it was not"
    if outside.finished is not None:
        at_us, how = outside.finished
        done = f"{_DONE.get(how, how)} (at {(at_us - view.origin_us) / 1e6:.3f} s)"
    elif outside.giveup is not None:
        done = f"it was not: the harness stopped waiting, {outside.giveup[1]}"
    yield "known to be done by", done
    log = "the log of changes of the database (binlog) and the table" if _changes(sink) else "the table alone"
    yield "judged from", log
    yield from _told_by_the_run(outcome)


def _told_by_the_run(outcome: RunOutcome) -> Iterator[tuple[str, str]]:
    """What the level adds: the engine, the source, what the calm twin measured."""
    told = _part(outcome.extras, "job")
    for name in ("engine", "source"):
        if name in told:
            yield name, str(told[name])
    calm = without_credentials(_part(told, "calm"))
    if calm:
        yield "calm twin", ", ".join(f"{_spaced(name)} {brief(value)}" for name, value in calm.items())
    notes = told.get("notes")
    if isinstance(notes, list | tuple) and notes:
        yield "to be noted", " ".join(str(note) for note in notes)


def _assumed(header: Mapping[str, object]) -> Iterator[str]:
    sink = _part(header, "sink")
    yield "The source keeps what was put into it, and gives it again when it is read again."
    columns, noun = _columns(sink.get("id")), noun_of(header)
    yield f"{columns} tells a {noun} from all others, and each row of the table is of one {noun}."
    yield "The table is empty before the first start, and only this job changes it."
    values = _columns(sink.get("values"))
    yield f"What differs from run to run (a time, a session) is in none of the judged columns: {values}."
    if header.get("expect_from") == "calm":
        yield "What the job writes undisturbed is right: its values are what this run is compared with."


def _not_claimed(outcome: RunOutcome, header: Mapping[str, object], outside: OutsideView) -> Iterator[str]:
    claims, sink = _part(header, "claims"), _part(header, "sink")
    names = [v.invariant for v in outcome.judgement.invariants if v.outcome is Outcome.NOT_CLAIMED]
    if names:
        yield (
            "Not judged from outside, or not claimed: "
            + ", ".join(f"{name} {title_of(name)}".strip() for name in names)
            + "."
        )
    yield "What happens inside the job: its calls, its watermarks and its checkpoints were not seen."
    match claims.get("delivery"):
        case "at-least-once":
            yield "Doubled rows: the job claims at least once, so a double with the right value is allowed."
        case "at-most-once":
            yield "Lost records: the job claims at most once, so a record may be missing."
        case _:
            pass
    if claims.get("order", "none") == "none":
        yield "Any order of the rows: the job claims none."
    if header.get("expect_from") == "none":
        yield "The values of the rows: nothing says what they should be."
    if not _changes(sink):
        yield "Anything between the readings of the table: this database gave no log of its changes."
    if "table 2" not in outside.counted:
        yield "That a further start changes nothing: none was made after the end."


def _part(values: Mapping[str, object], name: str) -> JsonView:
    part = values.get(name)
    return part if isinstance(part, Mapping) else {}


def _changes(sink: Mapping[str, object]) -> bool:
    return bool(sink.get("changes", True))


def _columns(names: object) -> str:
    given: Sequence[Any] = names if isinstance(names, list | tuple) else ()
    return ", ".join(str(name) for name in given) or "none"


def _counted(outside: OutsideView, name: str, *, never: str = "not read") -> str:
    return str(outside.counted[name]) if name in outside.counted else never


def _spaced(name: str) -> str:
    return name.removesuffix("_ms").removesuffix("_s").replace("_", " ") + _UNITS.get(
        name.rpartition("_")[2], ""
    )


_UNITS: Final = {"ms": " (ms)", "s": " (s)"}
