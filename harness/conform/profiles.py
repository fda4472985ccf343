"""The profiles of `floodmark certify`: which scenarios run with which seeds, as data in `profiles.toml`.

Answers to Sonobuoy's modes and Bowtie's dialects. Invariant: a profile's runs are a list that is written down, so two
certificates of one version of Floodmark made with one profile are about the same runs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.faults.registry import FAULTS
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from harness.scenario.order import AnyScenario

_FILE: Final = Path(__file__).parent / "profiles.toml"
PROFILES: Final = ("lookup", "operator", "pipeline")
"""Their names."""
_FAMILIES: Final = {
    "link": "network",
    "server": "database",
    "process": "process",
    "inside": "inside the attempt",
    "workload": "records and answers",
    "job": "job's processes",
}
"""The families of faults, by where a fault acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenScenario:
    """One scenario of a profile."""

    scenario: str
    """The name of one of the catalogue, or a file."""
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in a certificate, unique in a profile."""
        stem = Path(self.scenario).stem
        return f"{stem} ({', '.join(self.settings)})" if self.settings else stem


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificationProfile:
    """What one kind of subject is certified with."""

    name: str
    about: str
    level: str
    """The level unless another is asked for."""
    levels: tuple[str, ...]
    seeds: tuple[int, ...]
    scenarios: tuple[ChosenScenario, ...]
    not_shown: tuple[str, ...]


def profile_named(name: str) -> CertificationProfile:
    """The profile called `name`. Raises UsageError with the names that there are."""
    if name not in PROFILES:
        close = get_close_matches(name, PROFILES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"one of: {', '.join(PROFILES)}"
        raise UsageError(f"there is no profile called {name!r}", fix=hint)
    told = _read()[name]
    return CertificationProfile(
        name=name,
        about=told["about"],
        level=told["level"],
        levels=tuple(told["levels"]),
        seeds=tuple(told["seeds"]),
        scenarios=tuple(
            ChosenScenario(scenario=one)
            if isinstance(one, str)
            else ChosenScenario(scenario=one["scenario"], settings=tuple(one["set"]))
            for one in told["scenarios"]
        ),
        not_shown=tuple(told["not_shown"]),
    )


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def families_of(scenario: AnyScenario) -> list[str]:
    """The families of the scenario's faults, each once."""
    return list(dict.fromkeys(_FAMILIES[FAULTS[fault.do].by] for fault in scenario.faults))
