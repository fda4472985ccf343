"""Shrinking: makes a find smaller as long as the same invariant is violated in the same way.

Answers to delta debugging and to Hypothesis's shrinker, over the fields of a scenario and the choices of its schedule
at once (decision 50). Invariants: each accepted step shows the same invariant and kind of anomaly, and the reference
does not; what is returned was run as it is; an interruption keeps the smallest so far.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final, Protocol

from harness.engine.level import Opening, Play, RunRecord, RunSite, Stop, asks_a_server
from harness.engine.perform import judged_by_order
from harness.explore.find import Find
from harness.explore.shrinking import NotShown, Shrinking, ShrinkingEnded, ShrinkStep, is_shown
from harness.explore.smaller import (
    OF_SIZE,
    Data,
    Path,
    alone,
    at,
    by_event,
    checkpoints_by_place,
    features,
    halved,
    in_words,
    leap,
    lesser,
    numbers,
    one_subtask,
    rounded_up,
    simplest,
    with_value,
    without,
)
from harness.history.event import Call
from harness.history.verdict import Judgement
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.model import Scenario
from harness.system.choices import Draw
from harness.system.errors import FloodmarkError

_RUN_S: Final = 20.0
"""The longest time of one run; a smaller scenario does not take longer."""
_SEEDS: Final = 12
"""How many small seeds are tried."""
_CHOICES_MAX: Final = 4_000
"""A schedule with more choices is left as drawn."""
_SMALL_FAULTS: Final = 1
_SMALL_RECORDS: Final = 6
_LEAPS: Final = 60
"""A find with more faults or records than these is tried in so many small variants."""
_EXCEPTIONS_MAX: Final = 8
"""A schedule with more exceptions from `fifo` is left as drawn, which is shorter."""
_COLLECT_EVERY: Final = 10
_CALLS: Final[Path] = ("choices", "calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRun:
    """One run, judged."""

    record: RunRecord
    judgement: Judgement

    @property
    def choices(self) -> int:
        """How many choices its schedule made, with `order: fifo`."""
        return self.record.extras.get("choices", 0)  # type: ignore[no-any-return]  # our own number


class Runs(Protocol):
    """Runs a find at level sim."""

    def __call__(self, find: Find) -> SeenRun | None:
        """The judged run; None if it cannot be made or judged."""


@contextmanager
def open_runs(stop: Stop | None = None, *, world: str = "auto") -> Iterator[Runs]:
    """Runs at level sim, as `floodmark run` makes them. Raises HarnessError if the harness overlooks a canary."""
    level, made = SimulatedLevel(), 0
    level.refuse_blindness(None)
    site = RunSite(run_id="", folder=FilePath(), limit_s=_RUN_S, stop=stop or Stop())

    def run(find: Find) -> SeenRun | None:
        nonlocal made
        made += 1
        if made % _COLLECT_EVERY == 0:
            gc.collect(1)
        has_server = asks_a_server(find.order)
        if has_server not in plays:
            plays[has_server] = stack.enter_context(level.open(Opening(has_server=has_server, world=world)))
        try:
            record = plays[has_server](find.order, site)
            assert isinstance(record, RunRecord), "level sim runs operators"
            return SeenRun(record=record, judgement=judged_by_order(find.order, record))
        except FloodmarkError:
            return None

    plays: dict[bool, Play] = {}
    with ExitStack() as stack:
        yield run


def shrink(
    find: Find,
    *,
    run: Runs,
    on_step: Callable[[ShrinkStep], None] = lambda step: None,
    goes_on: Callable[[], bool] = lambda: True,
) -> Find:
    """The smallest find that shows what `find` shows; after `goes_on` is false, the smallest so far.

    Raises NotShown if `find` itself does not show it.
    """
    shrinking = _OneShrinking(find=find, run=run, on_step=on_step, goes_on=goes_on)
    try:
        shrinking.start()
        shrinking.leaps(first=True)  # first, since a small run costs a hundredth of a large one
        shrinking.rounds()
        while shrinking.leaps():
            shrinking.rounds()
        shrinking.fewest_reorderings()
    except ShrinkingEnded:
        pass
    return shrinking.finished()


@dataclass(slots=True, kw_only=True)
class _OneShrinking(Shrinking[Find, SeenRun]):
    """Of a run at level sim. Mutable."""

    first: Data = field(default_factory=dict)
    """The scenario with which it began."""
    _leaped: int = 0

    def start(self) -> None:
        name, seed = self.find.scenario.scenario, self.find.seed
        message = f"{name} with seed {seed} does not show {self.find.shows} at level sim"
        data = self.find.scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data.pop("shows", None)
        self.begin(data, NotShown(message, fix="run it with `floodmark run` to see what it shows"))
        self.first = self.data

    def candidate(self, data: Data, *, seed: int) -> Find:
        return self.find.with_scenario(Scenario.model_validate(data), seed=seed)

    def judged(self, candidate: Find) -> tuple[str, SeenRun | None]:
        """As of any find; and the reference does not show it."""
        why, seen = Shrinking.judged(self, candidate)
        if why == "" and not candidate.is_reference:
            honest = self.run(candidate.of_reference)
            if honest is None or is_shown(honest, candidate):
                return "the reference shows it too", seen
        return why, seen

    def tries_less(self, data: Data, what: str) -> bool:
        """As `tries`; then `expects` and `decisive` are adapted to what the smaller run still has."""
        small = {**without(data, ("expects",), ("tags",)), "decisive": [self.find.invariant]}
        return self.tries(small, what) or self.tries(data, what)

    # -------------------------------------------------------------------------------------- one round

    def leaps(self, *, first: bool = False) -> bool:
        """Whether one of some small variants shows it, where step by step nothing as small does (a local minimum)."""
        faults, records = size_of(self.find.scenario)
        if faults <= _SMALL_FAULTS and records <= _SMALL_RECORDS:
            return False
        self._leaped += 1
        # One fault that shows it is smaller than several with fewer records.
        for data in alone(self.data, records=_SMALL_RECORDS) if faults > _SMALL_FAULTS else ():
            data["decisive"] = [self.find.invariant]
            if self.tries(data, f"{data['faults'][0]['id']} alone"):
                return True
        draw = Draw(self._leaped, "leaps of a shrinking")
        for number in range(_LEAPS):
            base = self.first if number % 2 else self.data
            data, seed = leap(base, draw, faults=min(faults, _SMALL_FAULTS + first)), draw.index(_SEEDS)
            data["decisive"] = [self.find.invariant]
            records_then = data["workload"]["records"] * data["workload"]["subtasks"]
            is_smaller = (len(data.get("faults", ())), records_then) < (faults, records)
            if not is_smaller or records_then > records:
                continue
            if self.tries(data, f"a leap to {records_then} records", seed=seed):
                return True
        now = self.data["workload"]["records"]
        return not first and any(
            self.tries(
                with_value(self.data, ("workload", "records"), fewer),
                f"{fewer} records, seed {seed}",
                seed=seed,
            )
            for fewer in sorted({max(1, now // 2), max(1, now - 1)} - {now})
            for seed in range(_SEEDS)
        )

    def round(self) -> bool:
        """See `Shrinking`."""
        before = repr(self.data), self.find.seed
        self._fewer_records()
        self._fewer_calls()
        if at(self.data, ("choices", "order")) != "fifo":
            self.tries({**self.data, "choices": self._fifo}, "choices: fifo")
        self.fewer_faults()
        self._fewer_records()
        for data in one_subtask(self.data):
            if self.tries_less(data, f"{data['workload']['subtasks']} subtasks"):
                break
        for paths in list(features(self.data)):
            if all(at(self.data, path) is not None for path in paths):
                self.tries(without(self.data, *paths), f"without {', '.join(map(in_words, paths))}")
        for path, value in list(simplest(self.data)):
            self.tries(with_value(self.data, path, value), f"{in_words(path)}: {value}")
        self.tries({**self.data, "decisive": [self.find.invariant]}, f"decisive: [{self.find.invariant}]")
        self._triggers_by_event()
        self._lower_numbers()
        self.small_seed(_SEEDS)
        self._fewer_calls()
        self.name_plainly()
        return before != (repr(self.data), self.find.seed)

    def _fewer_records(self) -> None:
        smaller = True
        while smaller:
            smaller = any(
                self.tries_less(data, f"{data['workload']['records']} records") for data in halved(self.data)
            )

    def _triggers_by_event(self) -> None:
        for data in checkpoints_by_place(self.data):
            if self.tries(data, f"checkpoint_every: {data['workload']['checkpoint_every']}"):
                break
        assert self.seen is not None, "the smallest was run"
        for index, fault in enumerate(self.find.scenario.faults):
            for when in by_event(fault, self.seen.record.events):
                if self.tries(
                    with_value(self.data, ("faults", index, "when"), when), f"{fault.id} at {when}"
                ):
                    break

    def _lower_numbers(self) -> None:
        """A search by halves for each least value that shows it; then the values just below are tried."""
        for path in list(numbers(self.data)):
            value = at(self.data, path)
            if value is None and path in OF_SIZE:
                section, name = path
                model = Scenario.model_fields[str(section)].annotation
                assert model is not None, "sections have models"
                default = model.model_fields[str(name)].default
                value = default if isinstance(default, int) else None
            if value is None:
                continue
            self.lower(path, lesser(path, value))
            if (above := rounded_up(at(self.data, path))) is not None:
                self.lowers(path, above)

    def _fewer_calls(self) -> None:
        """Recorded calls that it needs: those that are made, then by delta debugging."""
        assert self.seen is not None, "the smallest was run"
        if not (calls := at(self.data, _CALLS)):
            return
        asked = {event.id for event in self.seen.record.events if isinstance(event, Call)}
        used = [call for call in calls if call["id"] in asked]
        if self.tries(without(self.data, _CALLS), "without recorded calls"):
            return
        self.tries(with_value(self.data, _CALLS, used), f"{len(used)} recorded calls")
        self.fewer_of(_CALLS, "recorded calls")

    @property
    def _fifo(self) -> Data:
        return {**(self.data.get("choices") or {}), "seed": self.find.seed, "order": "fifo"}

    def fewest_reorderings(self) -> None:
        """If `fifo` does not show it: `fifo` with as few exceptions as are needed, if these are few."""
        before = self.find, self.data, self.seen
        if at(self.data, ("choices", "order")) == "fifo":
            return
        drawn = {**self._fifo, "drawn": list(range(1, _CHOICES_MAX + 1))}
        if not self.tries({**self.data, "choices": drawn}, "choices: fifo, and every choice an exception"):
            return
        assert self.seen is not None, "the smallest was run"
        if self.seen.choices < _CHOICES_MAX:
            used = list(range(1, self.seen.choices + 1))
            self.tries(with_value(self.data, ("choices", "drawn"), used), f"{len(used)} exceptions")
            self.fewer_of(("choices", "drawn"), "choices of the schedule are drawn")
        if len(at(self.data, ("choices", "drawn")) or ()) > _EXCEPTIONS_MAX:
            self.find, self.data, self.seen = before

    def finished(self) -> Find:
        """The smallest, with a sentence on what it shows."""
        if self.seen is None:
            return self.find
        return self.find.told(self.seen.judgement, self.seen.record.header, self.seen.record.events)


def size_of(scenario: Scenario) -> tuple[int, int]:
    """What is smaller if it is less: the number of faults, then of all records."""
    return len(scenario.faults), scenario.workload.records * scenario.workload.subtasks
