"""An exploration: runs drawn and changed scenarios, and keeps those that reached something new in a corpus.

The corpus answers to the queue of AFL and to Hypothesis's database of examples. Invariants: a file is written whole or
not at all, and none is ever removed; what cannot be read is named in one line and left as it is.

The search answers to AFL's loop, with features of a recorded run in place of edges. Invariants: with a budget in runs
the result depends on the plan and the corpus alone, not on how many processes there are: the candidates of a round are
drawn before its first result, and results are taken in their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

from harness.explore.changing import exploring_form
from harness.explore.features import Feature
from harness.explore.trial import Candidate, Subject, Trial, Violation, Way, made, try_all
from harness.history.verdict import Outcome
from harness.scenario.file import dump, loads
from harness.scenario.model import Scenario
from harness.scenario.yaml_text import ScenarioProblems
from harness.system.choices import Draw
from harness.system.clock import Deadline
from harness.system.errors import FloodmarkError, HarnessError, SutError, UsageError, WorldError
from harness.system.pool import Executors
from harness.system.whole_file import disk_errors_told, write_whole

CORPUS_VERSION: Final = 1
_FIRST_LINE: Final = re.compile(r"# floodmark corpus (\d{1,9}), seed (\d{1,20})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusEntry:
    """A scenario with the seed of the run that reached something."""

    scenario: Scenario
    seed: int

    @property
    def digest(self) -> str:
        """The same for equal scenarios and seeds, whatever the scenario is called."""
        unnamed = self.scenario.model_copy(update={"scenario": "x", "about": ""})
        text = unnamed.model_dump_json(by_alias=True)
        return sha256(f"{self.seed} {text}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A folder of entries; the folder is made with the first one."""

    folder: Path

    def read(self, tell: Callable[[str], None]) -> Iterator[CorpusEntry]:
        """The entries by name; `tell` gets a line for each file that is not an entry.

        Raises UsageError if `folder` is a file, WorldError if it cannot be read.
        """
        if self.folder.exists() and not self.folder.is_dir():
            message = f"--corpus {self.folder} is no folder"
            raise UsageError(message, fix="name a folder, which is made if there is none")
        try:
            files = sorted(self.folder.iterdir()) if self.folder.exists() else []
        except OSError as error:
            message = f"the corpus {self.folder} cannot be read: {error.strerror}"
            raise WorldError(message, fix="name another folder with --corpus") from error
        for file in files:
            if file.suffix in {".yaml", ".yml"} or file.is_file():
                entry = self._read_one(file)
                if isinstance(entry, str):
                    tell(f"corpus: {file} is skipped: {entry}")
                else:
                    yield entry

    def _read_one(self, file: Path) -> CorpusEntry | str:
        """The entry, or why there is none."""
        try:
            if file.exists() and not file.is_file():  # a pipe would be waited for
                return "it is no file"
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return _reason(error)
        found = _FIRST_LINE.match(text)
        if found is None:
            return f"its first line is not `# floodmark corpus {CORPUS_VERSION}, seed N`"
        if int(found[1]) != CORPUS_VERSION:
            return f"it is of version {found[1]} of the corpus, and this is {CORPUS_VERSION}"
        try:
            return CorpusEntry(scenario=loads(text, file=str(file)), seed=int(found[2]))
        except FloodmarkError as error:
            return _reason(error)

    def keep(self, entry: CorpusEntry, *, reached: int) -> Path:
        """Write one entry, unless it is there; `reached`: the number of its features. Raises WorldError."""
        file = self.folder / f"{entry.digest}.yaml"
        if not file.exists():
            again = f"floodmark run {file} --level sim --seed {entry.seed}"
            head = f"# floodmark corpus {CORPUS_VERSION}, seed {entry.seed}: {again} (features: {reached})\n"
            named = entry.scenario.model_copy(update={"scenario": f"corpus-{entry.digest}"})
            fix = "free some space there, or name another folder with --corpus"
            with disk_errors_told(f"the corpus cannot be written to {file}", fix=fix):
                write_whole(file, head + dump(named))
        return file


def _reason(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror}"
    if isinstance(error, ScenarioProblems):
        first, more = error.problems[0], len(error.problems) - 1
        return f"line {first.line}: {first.say}" + (f", and {more} more" if more else "")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


_PIECE: Final = 6
"""Candidates that a process gets at once."""
_LEAST: Final = 150
"""Chance per thousand of each way, however little it found lately."""
_MEMORY: Final = 0.9
"""What of the yield of a way is kept from one round to the next."""
_EVERY_WHOLE: Final = 6
"""One candidate in so many is an unchanged scenario of the shelf, until each was tried: it costs as much as several."""
_REFUSED_MAX: Final = 40
"""Candidates refused by the system under test, or broken, with no other, after which it is not tried any more."""
_MORE_THAN_SILENCE: Final = 200
"""Further runs for a violation, after a fault that left no evidence with this system alone."""
_SEEDS: Final = 1 << 40
_OF_A_RECORD: Final = re.compile(r"\brecord \d+\b")
"""What differs between refusals for one reason."""
_WAYS: Final[tuple[Way, ...]] = ("drawn", "changed", "shortened")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is explored, and until when."""

    subject: Subject
    seed: int
    runs: int | None = None
    """The largest number of runs; None: the budget in time alone ends it."""
    only: frozenset[str] = frozenset()
    """The invariants whose violations count; empty: all."""
    keep_going: bool = False
    given: tuple[CorpusEntry, ...] = ()
    """Run first, and changed: the scenarios that were named, and what the corpus holds."""
    shelf: tuple[Scenario, ...] = ()
    """The catalogue: its scenarios are shortened and changed; each that was not named also runs once unchanged."""
    round: int = 48
    """Candidates of a round; with many machines more, so that none waits for the end of a round."""
    ways: tuple[Way, ...] = _WAYS
    """Where candidates may come from; `drawn` alone: undirected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundViolation:
    """A violation and the run that showed it."""

    entry: CorpusEntry
    violations: tuple[Violation, ...]
    run: int
    """The number of the run, from 1."""

    @property
    def is_silent(self) -> bool:
        """Whether it shows no more than that a fault left no evidence, where it did with the reference."""
        return all(kind == "vacuous" for _, kind in self.violations)


@dataclass(slots=True, kw_only=True)
class Explored:
    """The result, and the state while it goes on. Mutable."""

    runs: int = 0
    events: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    features: Counter[Feature] = field(default_factory=Counter)
    """The number of runs that reached each feature."""
    kept: list[CorpusEntry] = field(default_factory=list)
    """The entries that reached something new, in the order in which they were found."""
    sightings: list[FoundViolation] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    """What broke Floodmark itself, for each run that has no verdict for that."""
    whys: Counter[str] = field(default_factory=Counter)
    """Why runs ended `unknown`."""
    by_way: Counter[str] = field(default_factory=Counter)
    newest: str = ""
    """The newest find, or what was reached last, in words."""

    def to_shrink(self, *, keep_going: bool) -> list[FoundViolation]:
        """The sightings that are shrunk: all, or the one that ended the exploration."""
        loud = [sighting for sighting in self.sightings if not sighting.is_silent]
        return (loud or self.sightings) if keep_going else (loud or self.sightings)[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploring:
    """What an exploration uses of its surroundings."""

    executors: Executors
    deadline: Deadline | None = None
    stopped: Callable[[], bool] = lambda: False
    on_kept: Callable[[CorpusEntry, int], None] = lambda entry, reached: None
    on_run: Callable[[Explored], None] = lambda explored: None

    @property
    def goes_on(self) -> bool:
        return not self.stopped() and not (self.deadline is not None and self.deadline.passed)


def explore(plan: Plan, using: Exploring, *, explored: Explored | None = None) -> Explored:
    """Explore until the budget is over, the plan's first violation, or `stopped`.

    `explored` is filled while it goes on, so that a caller has what there is if something raises. Raises SutError if
    the system under test refuses everything, and what `on_kept` raises.
    """
    explored = Explored() if explored is None else explored
    search = _Search(plan)
    while using.goes_on and not _is_over(plan, explored):
        left = plan.round if plan.runs is None else min(plan.round, plan.runs - explored.runs)
        candidates = list(islice(search.candidates(), left))
        work = partial(try_all, plan.subject)
        done = 0
        for trials in using.executors.map(work, candidates, most=_PIECE, goes_on=lambda: using.goes_on):
            for trial in trials:
                _take(plan, using, explored, search, candidates[done], trial)
                done += 1
                if _is_over(plan, explored):
                    return explored
        if done < len(candidates):
            break
        search.round_over()
    return explored


def _is_over(plan: Plan, explored: Explored) -> bool:
    if plan.runs is not None and explored.runs >= plan.runs:
        return True
    if plan.keep_going or not explored.sightings:
        return False
    latest, first = explored.sightings[-1], explored.sightings[0]
    return not latest.is_silent or explored.runs - first.run >= _MORE_THAN_SILENCE


def _take(
    plan: Plan, using: Exploring, explored: Explored, search: _Search, candidate: Candidate, trial: Trial
) -> None:
    """Count one trial; keep its scenario if it reached something new, or shows a violation."""
    explored.runs += 1
    explored.events += trial.events
    explored.by_way[candidate.way] += 1
    if trial.broken:
        explored.broken.append(trial.broken)
        if len(explored.broken) == explored.runs == _REFUSED_MAX:
            raise HarnessError(trial.broken)
        using.on_run(explored)
        return
    if trial.refused:
        explored.refused[_OF_A_RECORD.sub("a record", trial.refused)] += 1
        if explored.refused.total() == explored.runs == _REFUSED_MAX:
            raise SutError(
                trial.refused, fix="run it once: floodmark run calm --level sim, with the same --sut"
            )
        using.on_run(explored)
        return
    violations = tuple(one for one in trial.violations if not plan.only or one[0] in plan.only)
    explored.outcomes[trial.outcome.name] += 1
    if trial.outcome is Outcome.UNKNOWN and trial.why:
        explored.whys[trial.why] += 1
    new = [feature for feature in trial.features if feature not in explored.features]
    explored.features.update(trial.features)
    search.learn(candidate, new=len(new))
    if new or violations:
        entry = CorpusEntry(scenario=made(candidate), seed=candidate.seed)
        if new:
            explored.newest = " · ".join(min(new))
        if violations:  # first, since a corpus that cannot be written must not hide it
            sighting = FoundViolation(entry=entry, violations=violations, run=explored.runs)
            explored.sightings.append(sighting)
            explored.newest = "found: " + ", ".join(" ".join(one) for one in violations[:2])
        if new:
            using.on_kept(entry, len(trial.features))
            explored.kept.append(entry)
            search.keep(entry, trial.features)
    using.on_run(explored)


def _as_it_is(entry: CorpusEntry) -> Candidate:
    return Candidate(way="given", seed=entry.seed, parent=entry.scenario)


@dataclass(slots=True, kw_only=True)
class _Kept:
    """An entry and how often it was changed. Mutable."""

    entry: CorpusEntry
    worth: float
    chosen: int = 0

    @property
    def weight(self) -> float:
        return self.worth / (1 + self.chosen)


class _Search:
    """Draws candidates, from what was learned in the rounds before. Mutable."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._drawn = 0
        given = {entry.scenario.scenario for entry in plan.given}
        shelf = plan.shelf if "shortened" in plan.ways else ()
        whole = [scenario for scenario in shelf if scenario.scenario not in given]
        whole.sort(key=lambda scenario: scenario.workload.records * scenario.workload.subtasks)
        self._whole = (
            CorpusEntry(scenario=exploring_form(scenario), seed=plan.seed + number)
            for number, scenario in enumerate(whole)
        )
        """The shelf as it is, small scenarios first, so that many are seen early."""
        self._kept: list[_Kept] = []
        self._fresh: list[_Kept] = []
        """Kept in this round; changed from the next one on."""
        self._yield: dict[Way, float] = dict.fromkeys(plan.ways, 1.0)
        self._tried: dict[Way, float] = dict.fromkeys(plan.ways, 1.0)
        self._counts: Counter[Feature] = Counter()

    def candidates(self) -> Iterator[Candidate]:
        """The candidates of a round, the user's scenarios first."""
        for _ in range(self._plan.round):
            number = self._drawn
            self._drawn += 1
            if number < len(self._plan.given):
                yield _as_it_is(self._plan.given[number])
            elif number % _EVERY_WHOLE == 0 and (whole := next(self._whole, None)) is not None:
                yield _as_it_is(whole)
            else:
                yield self._next(Draw(self._plan.seed, f"candidate {number}"), number)

    def _next(self, draw: Draw, number: int) -> Candidate:
        way = self._way(draw)
        seed, draw_seed = self._plan.seed + number, draw.index(_SEEDS)
        other = self._one_kept(draw).entry.scenario if self._kept and draw.chance(300) else None
        if way == "changed":
            kept = self._one_kept(draw)
            kept.chosen += 1
            stays = kept.entry.seed if draw.chance(500) else seed
            return Candidate(
                way=way, seed=stays, parent=kept.entry.scenario, other=other, draw_seed=draw_seed
            )
        if way == "shortened":
            parent = draw.one_of(*self._plan.shelf)
            return Candidate(way=way, seed=seed, parent=parent, other=other, draw_seed=draw_seed)
        return Candidate(way="drawn", seed=seed)

    def _way(self, draw: Draw) -> Way:
        """Draws a way to make a candidate, in proportion to what each way found lately for each of its runs."""
        possible: list[Way] = [
            way
            for way in self._plan.ways
            if (way != "changed" or self._kept) and (way != "shortened" or self._plan.shelf)
        ]
        if len(possible) > 1 and not draw.chance(_LEAST * len(possible)):
            rates = [self._yield[way] / self._tried[way] for way in possible]
            return possible[_weighted(draw, rates)]
        return draw.one_of(*possible)

    def _one_kept(self, draw: Draw) -> _Kept:
        return self._kept[_weighted(draw, [kept.weight for kept in self._kept])]

    def learn(self, candidate: Candidate, *, new: int) -> None:
        """Count what a way found."""
        if candidate.way in self._yield:
            self._yield[candidate.way] += new
            self._tried[candidate.way] += 1

    def keep(self, entry: CorpusEntry, features: frozenset[Feature]) -> None:
        """An entry that reached something new; it is worth more, the rarer its features are."""
        self._counts.update(features)
        worth = sum(1 / self._counts[feature] for feature in features)
        self._fresh.append(_Kept(entry=entry, worth=worth))

    def round_over(self) -> None:
        """What was found in this round can be changed; older yields fade."""
        self._kept += self._fresh
        self._fresh = []
        for way in self._yield:
            self._yield[way] *= _MEMORY
            self._tried[way] = max(1.0, self._tried[way] * _MEMORY)


def _weighted(draw: Draw, weights: Sequence[float]) -> int:
    """An index, with a probability in proportion to its weight."""
    at = draw.unit() * sum(weights)
    for index, weight in enumerate(weights):
        at -= weight
        if at < 0:
            return index
    return len(weights) - 1
