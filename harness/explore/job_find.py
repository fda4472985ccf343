"""A find of a job: a job scenario, the job, the seed and the violation that a run in virtual time shows.

Answers to `find` for whole jobs. Invariants: reading a saved file gives an equal find; a step of its shrinking only
removes something or lowers a number, and the small one shows the same violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from harness.engine.level import Opening, OutsideRecord, RunSite, Stop
from harness.explore.shrinking import NotShown, Shrinking, ShrinkingEnded, ShrinkStep
from harness.explore.smaller import Data, lesser, with_value, without
from harness.explore.smaller import Path as Place
from harness.history.verdict import Judgement
from harness.levels.job.job_file import JobFile
from harness.levels.job.job_run import JobDoesNotWork
from harness.levels.job.job_scenario import JobScenario, ShownByJob
from harness.levels.job.job_scenarios import load_jobs
from harness.levels.job.order import IN_VIRTUAL_TIME, JobOrder, job_named, job_order
from harness.levels.virtual.level import VirtualJobLevel, VirtualPlays
from harness.scenario.file import dump_short
from harness.system.choices import Draw
from harness.system.errors import CannotHere, FloodmarkError, UsageError
from harness.system.whole_file import disk_errors_told, write_whole

_DIGITS: Final = 10
_SEEDS: Final = 4
_SMALL_RECORDS: Final = 6
_LEAPS: Final = 40
"""A find with more records is tried in so many small variants."""
_FIRST_MESSAGES: Final = 12
"""About what a job sends before its first record."""
_LEFT_OUT: Final = ("offer", "keys_come", "budget", "lookups_from", "gaps")
_NOT_OF_A_FIND: Final = ("shows", "tags", "about", "thresholds", "engines")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFind:
    """A violation, and the run in virtual time that shows it."""

    scenario: JobScenario
    job: JobFile
    named: str
    """How `--job` names it from any folder."""
    seed: int
    invariant: str
    kind: str
    environment: Mapping[str, str] = field(repr=False)
    import_path: tuple[str, ...] = ()

    @property
    def shows(self) -> str:
        """`V8 lost`."""
        return f"{self.invariant} {self.kind}"

    @property
    def order(self) -> JobOrder:
        """The run that shows it."""
        order = job_order(
            self.scenario,
            source=self.scenario.scenario,
            job=self.job,
            named=self.named,
            seed=self.seed,
            environment=self.environment,
            level=IN_VIRTUAL_TIME,
            import_path=(str(self.job.folder), *self.import_path),
        )
        return replace(order, calm_counts=True)

    @property
    def size(self) -> tuple[int, int]:
        """What is smaller if it is less: the number of faults, then of records."""
        return len(self.scenario.faults), self.scenario.records

    def showing(self, invariant: str, kind: str) -> Self:
        return replace(self, invariant=invariant, kind=kind)

    @property
    def saved(self) -> JobScenario:
        """The scenario as its file has it: with job, seed and what it shows, and a name of its own."""
        shows = ShownByJob(invariant=self.invariant, kind=self.kind, job=self.named, seed=self.seed)
        nameless = self.scenario.model_copy(update={"scenario": "found", "shows": shows, "tags": ()})
        here = shows.model_copy(update={"job": ""})  # wherever the job's folder is
        told = dump_short(nameless.model_copy(update={"shows": here}))
        digest = sha256(told.encode()).hexdigest()[:_DIGITS]
        return nameless.model_copy(
            update={"scenario": f"found-{self.invariant.lower()}-{self.kind}-{digest}"}
        )

    def save(self, folder: Path) -> Path:
        """Writes its file, whole or not at all, and returns its path. Raises WorldError if it cannot be written."""
        saved = self.saved
        file = folder / f"{self.invariant}-{self.kind}-{saved.scenario.rpartition('-')[2]}.yaml"
        with disk_errors_told(
            f"the find cannot be saved as {file}", fix="free disk space, or name another folder"
        ):
            write_whole(file, f"# floodmark job {file}\n{dump_short(saved)}")
        return file


def load_job_find(
    path: Path, *, environment: Mapping[str, str], import_path: tuple[str, ...] = ()
) -> JobFind:
    """The find that `save` wrote to `path`. Raises UsageError if it is a job scenario but no find."""
    ((_, scenario),) = load_jobs([path])
    shows = scenario.shows
    if shows is None:
        message = f"{path} is a job scenario, but no saved find: it has no `shows`"
        raise UsageError(
            message, fix="name a file that `floodmark explore --job` or `floodmark shrink` saved"
        )
    job, named = job_named(shows.job, beside=path.parent)
    return JobFind(
        scenario=scenario,
        job=job,
        named=named,
        seed=shows.seed,
        invariant=shows.invariant,
        kind=shows.kind,
        environment=environment,
        import_path=import_path,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """One run, judged."""

    record: OutsideRecord
    judgement: Judgement


JobRuns = Callable[[JobFind], SeenJob | None]
"""Runs a find; None if it cannot be made."""


@contextmanager
def open_job_runs(
    *, announce: Callable[[str], None], world: str = "auto", stop: Stop | None = None
) -> Iterator[JobRuns]:
    """Runs in virtual time, in any thread. Raises HarnessError if the judge overlooks a canary."""
    level = VirtualJobLevel()
    level.refuse_blindness(None)
    with level.open(Opening(announce=announce, world=world)) as plays:
        yield runs_on(plays, stop=stop or Stop())


def runs_on(
    plays: VirtualPlays, *, stop: Stop, on_unmet: Callable[[FloodmarkError], None] = lambda error: None
) -> JobRuns:
    """Runs that `plays` makes. `on_unmet`: called with why a run cannot be made."""
    site = RunSite(run_id="", folder=Path(), stop=stop)

    def run(find: JobFind) -> SeenJob | None:
        try:
            VirtualJobLevel().refuse(find.order)
            record = plays(find.order, site)
            return SeenJob(record=record, judgement=record.judge(record.header, record.events))
        except (CannotHere, UsageError, JobDoesNotWork) as error:
            on_unmet(error)
            return None

    return run


def shrink_job(
    find: JobFind,
    *,
    run: JobRuns,
    on_step: Callable[[ShrinkStep], None] = lambda step: None,
    goes_on: Callable[[], bool] = lambda: True,
) -> JobFind:
    """The smallest find that shows what `find` shows; after `goes_on` is false, the smallest so far.

    Raises NotShown if `find` itself does not show it.
    """
    shrinking = _JobShrinking(find=find, run=run, on_step=on_step, goes_on=goes_on)
    try:
        shrinking.start()
        shrinking.rounds()
        while shrinking.leaps():
            shrinking.rounds()
    except ShrinkingEnded:
        pass
    return shrinking.finished()


@dataclass(slots=True, kw_only=True)
class _JobShrinking(Shrinking[JobFind, SeenJob]):
    """Of a run of a job. Mutable."""

    def start(self) -> None:
        name, seed = self.find.scenario.scenario, self.find.seed
        message = f"{name} with seed {seed} does not show {self.find.shows} in virtual time"
        told = self.find.scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data = {key: value for key, value in told.items() if key not in _NOT_OF_A_FIND}
        data = {"job_scenario": data.pop("job_scenario"), "about": f"It shows {self.find.shows}.", **data}
        self.begin(data, NotShown(message, fix="run it with `floodmark job` to see what it shows"))

    def candidate(self, data: Data, *, seed: int) -> JobFind:
        return replace(self.find, scenario=JobScenario.model_validate(data), seed=seed)

    def leaps(self) -> bool:
        """Whether one of some small variants shows it, where step by step nothing as small does.

        Fewer records send fewer messages, so both numbers go down at once.
        """
        records = self.find.scenario.records
        if records <= _SMALL_RECORDS:
            return False
        draw = Draw(records, "leaps of a shrinking")
        for _ in range(_LEAPS):
            fewer = draw.between(1, _SMALL_RECORDS)
            data = with_value(self.data, ("records",), fewer)
            for index, fault in enumerate(self.data.get("faults", ())):
                if (nth := fault["when"].get("nth")) is not None:
                    sooner = draw.between(1, max(1, _FIRST_MESSAGES + nth * fewer // records))
                    data = with_value(data, ("faults", index, "when", "nth"), sooner)
            if self.tries(data, f"a leap to {fewer} records", seed=draw.index(_SEEDS)):
                return True
        return False

    def round(self) -> bool:
        """See `Shrinking`."""
        before = repr(self.data), self.find.seed
        self.fewer_faults()
        for name, floor in (("records", 1), ("keys", 1)):
            now = int(self.data.get(name, getattr(self.find.scenario, name)))
            self.lower((name,), range(floor, now))
        for name in _LEFT_OUT:  # behind the records, for few of them need no long offer
            if name in self.data:
                self.tries(without(self.data, (name,)), f"without {name}")
        for place, value in list(_numbers(self.data.get("faults", []), ("faults",))):
            self.lower(place, lesser(place, value))
        for index, fault in enumerate(self.data.get("faults", [])):
            if fault["when"].get("moment") == "after":
                data = with_value(self.data, ("faults", index, "when", "moment"), "before")
                self.tries(data, f"{fault['id']} before the message")
        self.small_seed(_SEEDS)
        self.name_plainly()
        return before != (repr(self.data), self.find.seed)

    def finished(self) -> JobFind:
        """The smallest, with a sentence on what it shows."""
        if self.seen is None:
            return self.find
        scenario = JobScenario.model_validate({**self.data, "about": self._about(self.seen)})
        return replace(self.find, scenario=scenario)

    def _about(self, seen: SeenJob) -> str:
        """What its run shows, in a sentence."""
        held = {
            one.id: str(one.first.evidence.get("held", "")).partition(" (")[0] for one in seen.record.faults
        }
        faults = ", ".join(f"{one.do} {held.get(one.id, '')}".strip() for one in self.find.scenario.faults)
        told = f"{self.find.shows} {f'with {faults}' if faults else 'without a fault'}"
        for verdict in seen.judgement.convicted():
            for anomaly in verdict.anomalies:
                if (str(verdict.invariant), anomaly.kind) == (self.find.invariant, self.find.kind):
                    return f"{told}: {anomaly.say.rstrip('.')}."
        return f"{told}."


def _numbers(value: object, place: Place) -> Iterator[tuple[Place, Any]]:
    match value:
        case dict():
            for name, inner in value.items():
                if name not in {"code", "id", "do", "statement", "on", "command"}:
                    yield from _numbers(inner, (*place, name))
        case list():
            for index, inner in enumerate(value):
                yield from _numbers(inner, (*place, index))
        case bool():
            return
        case int():
            yield place, value


__all__ = ["JobFind", "JobRuns", "SeenJob", "load_job_find", "open_job_runs", "shrink_job"]
