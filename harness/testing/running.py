"""What a program asks for: one run (`run`, `load`, the fixture `floodmark`), or the judgement of a history (`check`).

One run from a program: `run`, its result, and `load`; and what the pytest fixture `floodmark` can do.

Invariant: a run from a program is the run of `floodmark run` with the same scenario, level, seed and function.

A verdict for programs, and the judgement of a history file: `check`.

Invariant: no history is judged by a judge that overlooks a canary.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.engine.expectation import NO_VALUES
from harness.engine.level import Observer, Stop
from harness.engine.open_levels import StagePlan, open_levels
from harness.explore.find import options_of_find
from harness.history.files import needs_columns
from harness.history.outside import OUTSIDE
from harness.history.read import read_whole
from harness.history.strict_json import integers_of_any_length
from harness.history.verdict import ANOMALIES_IN_FULL, Judgement, Outcome
from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.consequences import with_consequences
from harness.judge.checkers.judge import Malformed, judge
from harness.judge.checkers.outside.judge import SEEN_FROM_OUTSIDE, judge_history, judge_outside
from harness.judge.explanation.explain import explained_file
from harness.judge.explanation.text import anomaly_lines, closing_lines, rest_of
from harness.levels import level_named
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load_many
from harness.scenario.mistakes import validated
from harness.scenario.model import Scenario
from harness.scenario.order import REFERENCE, AnyOrder, Order, new_run_id
from harness.scenario.outcome import RunOutcome
from harness.sut.registry import load_attribute, load_lookup, refuse_hidden
from harness.sut.user_code import add_current_folder, import_path, name_of
from harness.system.choices import fresh_seed
from harness.system.errors import BlindHarness, HistoryError, ScenarioError, SutError, UsageError
from harness.system.levels import Level
from reports.pretty import print_outcomes, terminal
from reports.write import write_report

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the checkers say of one history."""

    outcome: Outcome
    """`pass`, `fail`, `vacuous` (nothing was shown) or `unknown` (it ended too early); it equals that text."""
    invariants: Mapping[str, Outcome]
    """Each invariant that was checked (`V8`) with its own outcome, `not-claimed` included."""
    explanation: str
    """The verdict in words: what was violated or not shown, by which events, and what still holds."""

    @property
    def holds(self) -> bool:
        """Whether the outcome is `pass`: no other outcome is a success."""
        return self.outcome is Outcome.PASS

    @property
    def violated(self) -> tuple[str, ...]:
        """The invariants that are violated."""
        return tuple(name for name, outcome in self.invariants.items() if outcome is Outcome.FAIL)


def check(path: str | Path) -> Verdict:
    """Judge the history in the file `path`: .jsonl, .jsonl.gz, .jsonl.zst, .arrow or .parquet.

    Raises HistoryError with every breach of the format, UsageError if the file cannot be read, WorldError if its form
    needs an extra that is not installed, BlindHarness if the judge overlooks a canary.
    """
    refuse_blind_judge()
    file = Path(path)
    with integers_of_any_length():
        judged = judge_history(file)
        if isinstance(judged, Malformed):
            breaches = "\n".join(f"  line {breach.line}: {breach.say}" for breach in judged.breaches)
            raise HistoryError(f"{file} breaks the format of histories\n{breaches}")
        explained = explained_file(with_consequences(judged, lambda: read_whole(file)), file)
        return verdict_of(explained, explanation="\n".join(_lines(explained, file)))


def verdict_of(judgement: Judgement, *, explanation: str) -> Verdict:
    """The verdict for programs."""
    return Verdict(
        outcome=judgement.outcome,
        invariants={verdict.invariant: verdict.outcome for verdict in judgement.invariants},
        explanation=explanation,
    )


def _lines(judgement: Judgement, file: Path) -> Iterator[str]:
    """What does not hold, explained, and then what still does."""
    yield f"{judgement.outcome.upper()}  {file}"
    yield from (f"  warning: {warning}" for warning in judgement.warnings)
    for verdict in judgement.invariants:
        if verdict.outcome in {Outcome.PASS, Outcome.NOT_CLAIMED}:
            continue
        yield f"  {verdict.invariant} {verdict.outcome}" + (f": {verdict.why}" if verdict.why else "")
        for anomaly in verdict.anomalies[:ANOMALIES_IN_FULL]:
            yield from (f"    {line}" for line in anomaly_lines(anomaly))
        if rest := rest_of(verdict):
            yield f"    {rest}"
    if judgement.view == OUTSIDE:
        yield f"  {SEEN_FROM_OUTSIDE}"
    yield from (f"  {line}" for line in closing_lines(judgement))


@cache
def refuse_blind_judge() -> None:
    """Call once in each process that judges. Raises BlindHarness if its judge overlooks a canary."""
    seen_outside = overlooked(judge_outside, canaries("jobs"))
    if missed := (*overlooked(judge, (*canaries("operator"), *canaries("files"))), *seen_outside):
        message = f"the judge is blind: it overlooks the canaries {', '.join(missed)}, so none of its verdicts counts"
        raise BlindHarness(message, fix="please report it; no history was judged")


Source = str | Path | Scenario | Mapping[str, object]
"""A scenario: a name of the catalogue, a file, a value, or the fields of a scenario file."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Run:
    """One finished run. Its history is kept in a temporary folder as long as this value."""

    scenario: str
    level: str
    seed: int
    verdict: Verdict
    pitfalls: tuple[str, ...]
    """The names of the pitfalls that the run shows (`docs/explanation/pitfalls.md`)."""
    again: str
    """What repeats this run."""
    _left: RunOutcome = field(repr=False)
    _secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def outcome(self) -> Outcome:
        """The verdict in one word."""
        return self.verdict.outcome

    def history(self) -> pa.Table:
        """Every event of the run, one a row (`docs/reference/history.md`, "Columns"); `.to_pandas()` needs pandas.

        Raises WorldError if pyarrow is not installed.
        """
        with needs_columns(self._left.history):
            from harness.history.columnar import table_of  # noqa: PLC0415 - pyarrow is in an extra
        return table_of(*read_whole(self._left.history))

    def report(self, folder: str | Path) -> Path:
        """Write the report into `folder`: page, JUnit, JSON, Markdown, history; returns the path of the page."""
        return write_report([self._left], Path(folder), title=self.scenario, secrets=self._secrets)


def run(
    scenario: Source,
    *,
    sut: object,
    level: Level = "sim",
    seed: int | None = None,
    expected: object = None,
    world: str = "auto",
    proxy: str = "auto",
) -> Run:
    """Run one scenario once, and judge it.

    `sut`: a lookup, as the object itself or as `module:name`; `expected`: as for `floodmark run --expected`, or the
    function itself. `world` and `proxy` are those of the command line; level sim needs neither. Of a saved find, seed
    and `expected` are those of its file; the first line of the explanation names what differs from the file.

    Raises a FloodmarkError: the scenario has mistakes, the function cannot be used, an extra is not installed.
    """
    loaded = load(scenario)
    asked: dict[str, Any] = {
        "sut": checked_sut(sut),
        "expected": None if expected is None else name_of(expected),
        "seed": seed,
    }
    options, differs = (asked, "") if loaded.shows is None else options_of_find(loaded, **asked)
    if options["seed"] is None:
        options["seed"] = fresh_seed()
    order = order_of(loaded, source=scenario, level=level, world=(world, proxy), **options)
    return run_of(order, world=world, proxy=proxy, differs=differs)


def job(
    scenario: str | Path,
    *,
    job: str | Path,
    seed: int | None = None,
    world: str = "auto",
    proxy: str = "auto",
) -> Run:
    """Put a whole job under fire once, and judge its table: as `floodmark job SCENARIO --job JOB`.

    `scenario`: a name or file of a job scenario; `job`: a job.toml, a folder with one, or a command.

    Raises a FloodmarkError: the job file or the scenario has mistakes, or the job does not work undisturbed.
    """
    from harness.levels.job.job_scenarios import load_jobs  # noqa: PLC0415 - needs a database's client
    from harness.levels.job.order import job_named, job_order  # noqa: PLC0415

    found = load_jobs([scenario])
    if len(found) != 1:
        raise UsageError(f"{scenario} has {len(found)} scenarios", fix="name one file or one scenario")
    file, named = job_named(job)
    order = job_order(
        found[0][1],
        source=str(scenario),
        job=file,
        named=named,
        seed=fresh_seed() if seed is None else seed,
        environment=dict(os.environ),  # noqa: TID251 - the job inherits it, as from the command line
        import_path=(str(file.folder), *import_path()),
        world=(world, proxy),
    )
    return run_of(order, world=world, proxy=proxy)


def history_of(run: Run) -> Path:
    """The file of its history, which is there as long as `run` is."""
    return run._left.history  # noqa: SLF001 - of this module


def run_of(order: AnyOrder, *, world: str = "auto", proxy: str = "auto", differs: str = "") -> Run:
    """Performs one order on a stage of its own; `differs`: the first line of the explanation."""
    folder = Path(tempfile.mkdtemp(prefix="floodmark-"))
    try:
        plan = StagePlan(run_id=new_run_id(), report=folder, levels=level_named, world=world, proxy=proxy)
        with open_levels(plan, observer=Observer(), stop=Stop()) as stage:
            left = stage.run(order)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finished = Run(
        scenario=order.scenario.scenario,
        level=order.level,
        seed=order.seed,
        verdict=verdict_of(left.judgement, explanation=f"{differs}\n{told(left)}".lstrip("\n")),
        pitfalls=tuple(pitfall.name for pitfall in left.pitfalls),
        again=order.again,
        _left=left,
        _secrets=stage.secrets,
    )
    weakref.finalize(finished, shutil.rmtree, folder, ignore_errors=True)
    return finished


class Floodmark(Protocol):
    """The fixture: asserts that scenarios hold with a function of the user's. The pytest plugin implements it."""

    def holds(
        self,
        *scenarios: str | Path | Scenario,
        sut: object = None,
        level: Level | None = None,
        runs: int | None = None,
        seed: int | None = None,
        expected: object = None,
    ) -> None:
        """Run each scenario `runs` times, with consecutive seeds, and stop at the first run that does not pass.

        `scenarios`: names of the catalogue, files (beside the test, or from the current folder) or values. What is left
        out is taken from the marker `floodmark` of the test, then from the options, the environment and pyproject.toml;
        the level is `sim` otherwise, `runs` 1 and the seed new. Without a `sut` anywhere, nothing is run and the test
        fails.

        Raises AssertionError, with the explanation as its text, if a run's verdict is not `pass`.
        """

    def job(
        self, *scenarios: str | Path, job: str | Path | None = None, runs: int = 1, seed: int | None = None
    ) -> None:
        """Put a whole job under fire: each job scenario `runs` times, until a run does not pass.

        `scenarios`: names or files; none: those that the job file names, else all tagged `gate` for its engine.
        `job`: a job.toml (beside the test, or from the current folder), its folder, or a command; else `job.toml`.

        Raises AssertionError, with the explanation as its text, if a run's verdict is not `pass`.
        """


def load(source: Source) -> Scenario:
    """The one scenario of a name of the catalogue, of a file, or of the fields of a scenario file.

    Raises ScenarioError with every mistake, and UsageError for a name that does not exist.
    """
    match source:
        case Scenario():
            return source
        case Mapping():
            made = validated(source)
            if isinstance(made, Scenario):
                return made
            lines = [f"  {mistake.say}" + (f" ({mistake.hint})" if mistake.hint else "") for mistake in made]
            raise ScenarioError("\n".join(["the scenario has mistakes", *lines]))
        case _:
            found = load_many([source])
            if len(found) != 1:
                raise UsageError(f"{source} has {len(found)} scenarios", fix="name one file or one scenario")
            return found[0]


def checked_sut(sut: object) -> str:
    """The name `module:name` of a system under test, which can be called. Raises SutError or UsageError otherwise."""
    add_current_folder()
    name = name_of(sut)
    load_lookup(name)
    if isinstance(sut, str):  # an object is itself, whatever else has the name of its module
        refuse_hidden(sut)
    return name


def check_expected(expected: str | None, sut: str) -> None:
    """Raises UsageError or SutError if `expected` cannot say what `sut` must return, before a world is opened."""
    if expected is None:
        return
    if ":" not in sut:
        message = f"--expected is for a function of your own; what {sut} must return is known"
        raise UsageError(message, fix="leave it out, or add --sut MODULE:FUNCTION")
    if expected == NO_VALUES:
        return
    if ":" not in expected:
        message = f"--expected {expected} names no function"
        raise UsageError(message, fix="write --expected MODULE:FUNCTION, or --expected none")
    load_attribute(expected, option="--expected", kind="FUNCTION")


def order_of(
    scenario: Scenario,
    *,
    source: Source,
    sut: str,
    level: str,
    seed: int,
    expected: str | None,
    world: tuple[str, str],
    mutant: str | None = None,
) -> Order:
    """The order for one run; the one place where tests and programs make one.

    Raises SutError if another process could not import `sut` and the level needs one, and as `check_expected`.
    """
    check_expected(expected, sut)
    if level != "sim":
        _refuse_unreachable(sut)
    order = Order(
        scenario=scenario,
        level=level,
        seed=seed,
        sut=sut,
        mutant=mutant,
        expected=expected,
        import_path=import_path(),
    )
    return replace(order, again=_again(order, source, world=world))


def _refuse_unreachable(sut: str) -> None:
    module = sut.partition(":")[0].partition(".")[0]
    if module == "__main__":
        message = f"sut={sut} is in the program that runs now, which the processes of a run cannot import"
        raise SutError(message, fix="move the function into a module, and import it from there")
    found = (finder.find_spec(module, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    if ":" in sut and not any(found):
        message = f"sut={sut}: no folder of the import path has `{module}`, so the processes of a run cannot import it"
        raise SutError(
            message, fix='add its folder: pytest\'s ini option `pythonpath = ["."]`, or PYTHONPATH'
        )


def _again(order: Order, source: Source, *, world: tuple[str, str]) -> str:
    """The command that repeats the run; the call, for a scenario that is in no file."""
    if isinstance(source, Scenario | Mapping):
        given = f"sut={order.sut!r}, level={order.level!r}, seed={order.seed}"
        return f"harness.testing.run({order.scenario.scenario!r} as written, {given})"
    name = str(source)
    file = name if name in catalogue() else str(Path(name).absolute())
    words = ["floodmark", "run", file, "--level", order.level]
    words += [] if order.level == "sim" else ["--world", world[0], "--proxy", world[1]]
    words += ["--seed", str(order.seed), *([] if order.sut == REFERENCE else ["--sut", order.sut])]
    words += [] if order.expected is None else ["--expected", order.expected]
    words += [] if order.mutant is None else ["--mutant", order.mutant]
    return shlex.join(words)


def told(outcome: RunOutcome) -> str:
    """The run as on a terminal: the verdict first, then the explanation."""
    text = StringIO()
    print_outcomes([outcome], console=terminal(text, color=False))
    return text.getvalue()
