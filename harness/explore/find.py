"""A find: a scenario, its seed and the violation that it shows, and the file in which it is kept.

Answers to Hypothesis's database of failing examples. Invariants: reading a saved file gives an equal find; a file's
name depends on its content alone, so the same find is kept once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from harness.faults.parts.found_parts import SavedChoices, ShownViolation
from harness.history.event import Event
from harness.history.header import Header
from harness.history.verdict import Judgement
from harness.judge.explanation.explain import explained_events
from harness.scenario.file import dump_short, load
from harness.scenario.model import Scenario
from harness.scenario.order import REFERENCE, Order
from harness.scenario.outcome import RunOutcome
from harness.system.errors import UsageError
from harness.system.json_types import Json
from harness.system.levels import OPERATOR_LEVELS
from harness.system.whole_file import disk_errors_told, write_whole

FOLDER: Final = Path("found")
"""Where finds are saved, unless another folder is named."""
_DIGITS: Final = 10
_NAMED: Final = re.compile(r" ?\((?:e[0-9]+(?:, | and )?)+\)")
"""References of an explanation to events that it names; what is left of them cannot be read alone."""
_NAME: Final = re.compile(r"\be[0-9]+\b")
_Part = TypeVar("_Part", Scenario, SavedChoices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A violation, and the run at level sim that shows it."""

    scenario: Scenario
    seed: int
    invariant: str
    kind: str
    """The kind of the anomaly (`harness.history.verdict.Anomaly.kind`)."""
    sut: str = REFERENCE
    mutant: str | None = None
    expected: str | None = None
    """As `Order.expected`."""
    import_path: tuple[str, ...] = ()

    @property
    def order(self) -> Order:
        """The run that shows it."""
        return Order(
            scenario=self.scenario,
            level="sim",
            seed=self.seed,
            sut=self.sut,
            mutant=self.mutant,
            expected=self.expected,
            import_path=self.import_path,
        )

    @property
    def shows(self) -> str:
        """`V9 duplicate`."""
        return f"{self.invariant} {self.kind}"

    @property
    def is_reference(self) -> bool:
        return self.sut == REFERENCE and self.mutant is None

    @property
    def of_reference(self) -> Self:
        """The same run of the reference, which must not show it."""
        return replace(self, sut=REFERENCE, mutant=None, expected=None)

    def showing(self, invariant: str, kind: str) -> Self:
        return replace(self, invariant=invariant, kind=kind)

    def with_scenario(self, scenario: Scenario, *, seed: int | None = None) -> Self:
        return replace(self, scenario=scenario, seed=self.seed if seed is None else seed)

    @property
    def saved(self) -> Scenario:
        """The scenario as its file has it: with the seed, what it shows, and a name of its own."""
        choices = self.scenario.choices
        shows = ShownViolation(
            invariant=self.invariant,
            kind=self.kind,
            sut=None if self.sut == REFERENCE else self.sut,
            expected=self.expected,
            mutant=self.mutant,
        )
        kept = SavedChoices(seed=self.seed) if choices is None else _with(choices, seed=self.seed)
        levels = tuple(level for level in self.scenario.levels if level in self._levels) or ("sim",)
        nameless = _with(
            self.scenario, levels=levels, scenario="found", choices=kept, shows=shows, mutant=None
        )
        digest = sha256(dump_short(nameless).encode()).hexdigest()[:_DIGITS]
        return _with(nameless, scenario=f"found-{self.invariant.lower()}-{self.kind}-{digest}")

    def told(self, judgement: Judgement, header: Header, events: Sequence[Event]) -> Self:
        """The same find with `about` written from the explanation of its run."""
        explained = explained_events(judgement, header, events)
        anomalies = [
            anomaly
            for verdict in explained.invariants
            if verdict.invariant == self.invariant
            for anomaly in verdict.anomalies
            if anomaly.kind == self.kind
        ]
        faults = ", ".join(fault.do for fault in self.scenario.faults)
        told = [f"{self.shows} {f'with {faults}' if faults else 'without a fault'}:"]
        if anomalies:
            said, say = anomalies[0].explanation, anomalies[0].say
            why = _NAMED.sub("", said.then[-1]).removesuffix(": a contradiction.") if said else ""
            why = why.replace(f"{say}, and ", "")
            told += [f"{say.rstrip('.')}.", f"{why}." if why and not _NAME.search(why) else ""]
        else:
            told += ["the reference shows what the scenario asks for, and this run does not."]
        return self.with_scenario(_with(self.scenario, about=" ".join(filter(None, told))))

    @property
    def _levels(self) -> tuple[str, ...]:
        """The levels at which its system can show it."""
        if self.mutant is None:
            return OPERATOR_LEVELS
        from harness.sut.defects import find_defect  # noqa: PLC0415 - pulls in the operator

        return find_defect(self.mutant).levels

    @property
    def file_name(self) -> str:
        """`V9-duplicate-0123456789.yaml`."""
        digest = self.saved.scenario.rpartition("-")[2]
        return f"{self.invariant}-{self.kind}-{digest}.yaml"

    def save(self, folder: Path = FOLDER) -> Path:
        """Writes its file, whole or not at all, and returns its path. Raises WorldError if it cannot be written."""
        file = folder / self.file_name
        text = f"# floodmark run {file}\n{dump_short(self.saved)}"
        fix = "free disk space, or name another folder"
        with disk_errors_told(f"the find cannot be saved as {file}", fix=fix):
            write_whole(file, text)
        return file


def load_find(path: Path, *, import_path: Iterable[str] = ()) -> Find:
    """The find that `Find.save` wrote to `path`.

    Raises ScenarioProblems with every mistake of the file, and UsageError if it is a scenario but no find.
    """
    scenario = load(path)
    shows, choices = scenario.shows, scenario.choices
    if shows is None or choices is None:
        missing = "shows" if shows is None else "choices"
        message = f"{path} is a scenario, but no saved find: it has no `{missing}`"
        raise UsageError(message, fix="name a file that `floodmark explore` or `floodmark shrink` saved")
    return Find(
        scenario=scenario,
        seed=choices.seed,
        invariant=shows.invariant,
        kind=shows.kind,
        sut=shows.sut or REFERENCE,
        mutant=shows.mutant,
        expected=shows.expected,
        import_path=tuple(import_path),
    )


def options_of_find(
    scenario: Scenario,
    *,
    sut: str | None = None,
    mutant: str | None = None,
    expected: str | None = None,
    seed: int | None = None,
    changes: Iterable[str] = (),
) -> tuple[Json, str]:
    """`sut`, `mutant`, `expected` and `seed` of a run of a saved find; and how they differ from its file, or "".

    Give what the command line or the call says itself: the environment and a project file do not count for a find.
    `sut` or `mutant` replace both of the file, and `expected` with them. `changes`: options that change the scenario.
    """
    shows, choices = scenario.shows, scenario.choices
    assert shows is not None, "a saved find says what it shows"
    own: dict[str, Any] = {
        "sut": shows.sut or REFERENCE,
        "mutant": shows.mutant,
        "expected": shows.expected,
        "seed": seed if choices is None else choices.seed,
    }
    options = dict(own)
    if sut or mutant:
        options |= {"sut": sut or REFERENCE, "mutant": mutant}
    if options != own or expected is not None:
        options["expected"] = expected
    if seed is not None:
        options["seed"] = seed
    none = {None: "none"}
    others = [
        f"--{name} {none.get(value, value)} in place of {none.get(own[name], own[name])}"
        for name, value in options.items()
        if value != own[name]
    ]
    others += changes
    return options, f"{scenario.scenario}: not the run of its file: {', '.join(others)}" if others else ""


def not_shown(scenario: Scenario, outcomes: Iterable[RunOutcome]) -> str:
    """A sentence if `scenario` is a saved find and no run of it shows what its file says; else empty."""
    shows = scenario.shows
    if shows is None or any((shows.invariant, shows.kind) in run.judgement.shown for run in outcomes):
        return ""
    what = f"{scenario.scenario} does not show {shows.invariant} {shows.kind}, and its file says so"
    return f"{what}. If that is mended, remove `shows` from the file: then it is a test that must pass."


def _with(part: _Part, **fields: object) -> _Part:
    """A copy with other values of fields; each is valid by itself, and so is the whole."""
    return part.model_copy(update=fields)
