"""Which fault was effective at which phase, at which level, and how often: read from a file that a program counted.

Answers to etcd's lesson that a test without any stress passes. Invariants: a count is a number of runs whose history
shows the fault with evidence at that phase; what was never reached is named, each with a reason or as open.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from harness.explore.features import PHASES_SHOWN, Feature
from harness.faults.parts.triggers import PHASE_FORMS, PHASES, PhaseName
from harness.faults.registry import FAULTS

COUNTS: Final = Path(__file__).with_name("reached.json")
"""Written by `python -m tools.pages.coverage_page --count`."""
_CRASHES: Final = ("kill_worker", "zombie")

Pairs = Mapping[str, Mapping[str, int]]
"""Kind of fault -> phase -> runs in which it was effective there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Runs that were counted together."""

    what: str
    """`catalogue` or `exploration`."""
    level: str
    runs: int
    seed: int
    pairs: Pairs

    @property
    def title(self) -> str:
        return f"{self.what} at {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A pair that no exploration reached; `phase` is empty if the kind was effective nowhere."""

    kind: str
    phase: str
    why: str
    """Empty: nothing is known against it."""


def pairs_of(counted: Mapping[Feature, int]) -> dict[str, dict[str, int]]:
    """The pairs of a kind of fault and a phase among features, with their counts."""
    phases = set(phases_of_faults())
    found: dict[str, dict[str, int]] = {}
    for feature, runs in counted.items():
        match feature:
            case (kind, phase) if kind in FAULTS and phase in phases:
                found.setdefault(kind, {})[phase] = runs
    return {kind: dict(sorted(phases.items())) for kind, phases in sorted(found.items())}


def phases_of_faults() -> tuple[str, ...]:
    """The phases of an attempt in order, and `restore`, `failed` and `killed`, which events show."""
    return tuple(dict.fromkeys((*PHASES, *PHASES_SHOWN)))


@cache
def sources() -> tuple[Source, ...]:
    """What was counted, from the file."""
    document = json.loads(COUNTS.read_text("utf-8"))
    return tuple(Source(**one) for one in document["sources"])


def written(counted: Mapping[tuple[str, str], Source]) -> str:
    """The text of the file."""
    ordered = [counted[key] for key in sorted(counted)]
    return json.dumps({"sources": [asdict(source) for source in ordered]}, indent=1) + "\n"


def holes(counted: tuple[Source, ...]) -> Iterator[Hole]:
    """Each kind of fault that no exploration made effective, and each phase at which it made no crash."""
    explored = _summed(source for source in counted if source.what == "exploration")
    otherwise = _summed(source for source in counted if source.what != "exploration")
    for kind in FAULTS:
        if not any(of == kind for of, _ in explored):
            runs = sum(count for (of, _), count in otherwise.items() if of == kind)
            yield Hole(kind=kind, phase="", why=_elsewhere(runs) or _why_kind(kind))
    for kind in _CRASHES:
        for phase in PHASES:
            if not explored[kind, phase]:
                why = _elsewhere(otherwise[kind, phase]) or _why_phase(kind, phase)
                yield Hole(kind=kind, phase=phase, why=why)


def _summed(counted: Iterable[Source]) -> Counter[tuple[str, str]]:
    """Runs by kind and phase."""
    summed: Counter[tuple[str, str]] = Counter()
    for source in counted:
        for kind, pairs in source.pairs.items():
            summed.update({(kind, phase): runs for phase, runs in pairs.items()})
    return summed


def _elsewhere(runs: int) -> str:
    return f"reached by scenarios of the catalogue only, in {runs} runs" if runs else ""


def _why_kind(kind: str) -> str:
    fault = FAULTS[kind]
    if fault.by == "job" and not fault.levels:
        return "done to a user's job only, by `floodmark job`; `floodmark list scenarios --jobs` has its scenarios"
    if "sim" not in fault.levels:
        return f"not at level sim: the catalogue has it at {' and '.join(fault.levels)}, which were not counted here"
    return ""


def _why_phase(kind: str, phase: PhaseName) -> str:
    if kind == "zombie" and phase == "close":
        return "an attempt that has drained ends before a successor could start"
    if kind == "zombie" and not PHASE_FORMS[phase].shown_by:
        return (
            "a history names the phase of a kill only; a zombie that begins here is counted at the phase of the last "
            "event before"
        )
    return ""
