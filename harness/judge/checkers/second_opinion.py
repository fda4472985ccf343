"""Asks the second judge (`harness/judge/second_judge.py`) about a history, and says where the two judges differ.

Invariant: they agree only if, for each invariant, the outcome is the same and every anomaly is told as often by both
(class, subtask, id or watermark, checkpoint, table, `j`), with the event that shows it among its witnesses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.history.convert import convert
from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome
from harness.judge.second_judge import Opinion, opinions, read_lines, verdict
from harness.system.errors import WorldError
from harness.system.json_types import Json
from harness.system.whole_file import temporary_folder

_READ_ITSELF = (".jsonl", ".gz")
"""The forms that the second judge reads; the others are handed to it as text."""
_KINDS_TOLD = 3
_OF_READING = frozenset({"skipped", "altered"})
Told = Counter[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinion:
    """The second judge's verdict, and where it differs from the first one's."""

    verdict: str
    """Its overall verdict; empty if it could not read what the first one judged."""
    differs: tuple[str, ...]
    """A sentence for each invariant on which they differ, or for the overall verdict; it begins with its name."""
    compared: int
    """On how many invariants they were compared."""

    @property
    def agrees(self) -> bool:
        return not self.differs

    @property
    def told(self) -> tuple[str, ...]:
        """Lines for a reader."""
        if self.agrees:
            return (f"second judge: {self.verdict.upper()}, and it agrees on all {self.compared} invariants",)
        found = f"second judge: {self.verdict.upper() or 'NO VERDICT'}, and THE TWO JUDGES DISAGREE"
        return (found, *(f"  {sentence}" for sentence in self.differs))

    def as_json(self) -> Json:
        return {"verdict": self.verdict, "agrees": self.agrees, "differs": list(self.differs)}


def second_opinion(path: Path, judged: Judgement) -> SecondOpinion:
    """Lets the second judge judge the file of `judged`, on the same invariants.

    Raises WorldError if there is no room to hand it over as text.
    """
    try:
        lines = _lines(path)
        return compared(judged, lines, opinions(lines))
    except (ValueError, LookupError, TypeError) as error:
        message = f"file: the checkers judge it, and the second judge cannot read it ({error!r})"
        return SecondOpinion(verdict="", differs=(message,), compared=0)


def _lines(path: Path) -> list[Json]:
    if path.is_file() and path.suffix in _READ_ITSELF:
        return read_lines(path)
    try:
        with temporary_folder("floodmark-second-") as folder:
            text = folder / "history.jsonl"
            convert(path, text)
            return read_lines(text)
    except OSError as error:
        message = f"{path.name} cannot be handed to the second judge as text: {error.strerror or error}"
        raise WorldError(message, fix="free disk space in the temporary folder, or set TMPDIR") from error


def compared(judged: Judgement, lines: list[Json], given: Mapping[str, Opinion]) -> SecondOpinion:
    """The two verdicts on `lines`, on the invariants that `judged` has.

    Of a history whose source was read in two ways the judges need to agree on that alone: they take different sides.
    """
    chosen = {judgement.invariant: given[judgement.invariant] for judgement in judged.invariants}
    overall = verdict(lines, chosen)
    misread = [f for f in chosen["V10"].findings if f.kind in _OF_READING] if "V10" in chosen else []
    read = {line["n"] for line in lines[1:] if line["k"] in {"in", "wm"}}
    if any(f.at in read for f in misread):
        judged = replace(judged, invariants=tuple(map(_of_reading, judged.invariants)))
        chosen = {name: Opinion("fail", tuple(misread) if name == "V10" else ()) for name in chosen}
    differs = [
        f"{first.invariant}: {why}"
        for first in judged.invariants
        if (why := _difference(first, chosen[first.invariant]))
    ]
    if overall != judged.outcome:
        differs.append(f"verdict: the checkers say {judged.outcome}, the second judge says {overall}")
    return SecondOpinion(verdict=overall, differs=tuple(differs), compared=len(chosen))


def _of_reading(one: InvariantVerdict) -> InvariantVerdict:
    told = [anomaly for anomaly in one.anomalies if one.invariant == "V10" and anomaly.kind in _OF_READING]
    return replace(one, outcome=Outcome.FAIL, anomalies=tuple(told), omitted=0)


def _difference(first: InvariantVerdict, second: Opinion) -> str:
    """In words; empty if they agree."""
    named = [_name(anomaly) for anomaly in first.anomalies]
    mine = Counter(named)
    theirs: Told = Counter((f.kind, f.s, f.what, f.c, f.table, f.j) for f in second.findings)
    if first.outcome != second.outcome:
        return f"the checkers say {_said(first.outcome, mine)}, the second judge says {_said(second.outcome, theirs)}"
    if not mine <= theirs or len(named) + first.omitted != theirs.total():
        return f"only the checkers tell {_some(mine - theirs)}, only the second judge tells {_some(theirs - mine)}"
    told_by = {
        (*name, n) for name, anomaly in zip(named, first.anomalies, strict=True) for n in anomaly.events
    }
    shown = {(f.kind, f.s, f.what, f.c, f.table, f.j, f.at) for f in second.findings if isinstance(f.at, int)}
    if first.omitted == 0 and not shown <= told_by:
        return f"the witnesses differ: only the second judge names {_some(Counter(shown - told_by))}"
    return ""


def _name(anomaly: Anomaly) -> tuple[object, ...]:
    what = anomaly.w if anomaly.id is None else anomaly.id
    return (anomaly.kind, anomaly.s, what, anomaly.c, anomaly.table, anomaly.j)


def _said(outcome: str, told: Told) -> str:
    return f"{outcome} ({_some(told)})" if told else str(outcome)


def _some(told: Told) -> str:
    """The first few anomalies by name."""
    names = ("subtask", "of", "checkpoint", "table", "j", "event")
    shown = [
        f"{kind}"
        + "".join(
            f", {name} {value!r}" for name, value in zip(names, rest, strict=False) if value is not None
        )
        for kind, *rest in list(told)[:_KINDS_TOLD]
    ]
    more = [f"{len(told) - _KINDS_TOLD} more"] if len(told) > _KINDS_TOLD else []
    return "; ".join([*shown, *more]) or "nothing more"
