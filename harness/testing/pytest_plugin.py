"""The pytest plugin: each scenario file is one test per level, and the fixture `floodmark` asserts that scenarios hold.

`pytest_floodmark` loads it when Floodmark is used. Invariant: an item or an assertion passes only if its run's verdict
is `pass`; `vacuous` and `unknown` fail it, with the reason. With `--floodmark-repeat` a vacuous run is repeated, and
the summary and the report say so. A world or a JVM starts once per session, when the first run needs it, and is stopped
at the end of the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.system.json_types import Json, JsonView
from harness.system.levels import LEVELS, OPERATOR_LEVELS, Level

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle

    from harness.engine.open_levels import OpenLevels
    from harness.levels.job.job_scenario import JobScenario
    from harness.scenario.model import Scenario
    from harness.scenario.outcome import CountedRun, LeftOut, RunOutcome
    from harness.system.errors import CannotHere
    from harness.testing import Floodmark


_SHARED: pytest.StashKey[Shared] = pytest.StashKey()
_SETTINGS: pytest.StashKey[_Settings] = pytest.StashKey()
_REPEAT_STEP = 1_000_000_000
"""How far apart the seeds of a vacuous run and its repetition are: those between belong to other runs."""


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers of scenario files, for sessions with strict markers; a project may describe its own.

    A wrong setting ends the session here, with pytest's exit code 4.
    """
    from harness.system.errors import UsageError

    try:
        _settings(config)
    except UsageError as error:
        raise pytest.UsageError(f"floodmark: {error}") from error
    for marker in ("real: talks to a real server or proxy", "spark: starts a Java machine"):
        if not any(line.partition(":")[0] == marker.partition(":")[0] for line in config.getini("markers")):
            config.addinivalue_line("markers", marker)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close the stage, write the report, and set the exit code of the worst verdict, or 3 for a defect of the harness.

    If any other test failed too, pytest's own exit code 1 stays.
    """
    shared = session.config.stash.get(_SHARED, None)
    if shared is None:
        return
    shared.close()
    code = shared.exit_code
    only_verdicts = session.testsfailed == shared.not_proven
    if code is not None and session.exitstatus == pytest.ExitCode.TESTS_FAILED and only_verdicts:
        session.exitstatus = code


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the world, the system under test, the seed and the path of the report."""
    from harness.scenario.outcome import left_out_line
    from harness.system.own_packages import hidden_packages

    shared = config.stash.get(_SHARED, None)
    if shared is not None and shared.page is not None:
        terminalreporter.section("floodmark")
        terminalreporter.write_line(f"world    {shared.world}")
        terminalreporter.write_line(f"sut      {shared.suts}")
        terminalreporter.write_line(f"seed     {shared.seed}")
        terminalreporter.write_line(f"report   {shared.page}")
        for repeated in shared.repeated:
            terminalreporter.write_line(f"repeated {repeated}")
    if shared is not None and shared.left_out:
        terminalreporter.write_line(f"floodmark: {left_out_line(shared.left_out)}")
    if terminalreporter.stats.keys() & {"failed", "error"}:
        for folder in hidden_packages():
            what = f"note     Floodmark has a package `{folder.name}` too, so this session cannot import {folder}"
            terminalreporter.write_line(what)


class ScenarioFile(pytest.File):
    """One scenario file; yields one item for each requested level that the scenario supports."""

    def collect(self) -> Iterator[ScenarioItem]:
        """A scenario file with mistakes is a collection error that lists them all."""
        from harness.scenario.file import load
        from harness.system.errors import FloodmarkError

        try:
            scenario = load(self.path)
        except FloodmarkError as error:
            raise self.CollectError(str(error)) from error
        settings, is_find = _settings(self.config), scenario.shows is not None
        asked = settings.of("level", is_find=is_find) or ("sim" if is_find else "live")
        if not set(self.config.getoption("--floodmark-tag") or ()) <= set(scenario.tags):
            return
        for level in scenario.levels:
            if asked in {"all", level}:
                yield ScenarioItem.from_parent(
                    self, name=f"{scenario.scenario}[{level}]", scenario=scenario, level=level
                )


class _RunItem(pytest.Item):
    """A test item that is one run. Its failure is reported without a traceback."""

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: TracebackStyle | None = None
    ) -> str | TerminalRepr:
        from harness.system.errors import FloodmarkError, HarnessError

        if isinstance(excinfo.value, NotProven):
            return str(excinfo.value)
        if isinstance(excinfo.value, FloodmarkError) and not isinstance(excinfo.value, HarnessError):
            return f"floodmark: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class ScenarioItem(_RunItem):
    """One scenario at one level."""

    def __init__(self, *, scenario: Scenario, level: str, **rest: Any) -> None:
        super().__init__(**rest)
        self._scenario = scenario
        self._level = level
        if level != "sim":  # level sim needs nothing but Python
            self.add_marker(pytest.mark.spark if level == "spark" else pytest.mark.real)
        if self.config.pluginmanager.has_plugin("timeout"):
            runs = 1 + (self.config.getoption("--floodmark-repeat") or 0)
            self.add_marker(
                pytest.mark.timeout(LEVELS[level].starts_s + runs * (scenario.budget / 1000 + 120))
            )

    def runtest(self) -> None:
        """Run the scenario; any verdict other than `pass` fails the test, and so does a saved find, shown or not."""
        from harness.explore.find import not_shown
        from harness.history.verdict import Outcome
        from harness.system.errors import CannotHere

        try:
            outcome, differs = _shared(self.config).run(self._scenario, self._level, self.path)
        except CannotHere as sentence:
            pytest.skip(str(sentence))
        rest = not_shown(self._scenario, [outcome])
        if outcome.judgement.outcome is not Outcome.PASS or rest:
            raise NotProven(outcome, first=differs, last=rest)


class JobFileTests(pytest.File):
    """A job file that the command line names; yields one item for each scenario that `gate_scenarios` chooses."""

    def collect(self) -> Iterator[JobItem]:
        """A job file with mistakes is a collection error that lists them all."""
        from harness.levels.job.order import gate_scenarios, job_named
        from harness.system.errors import FloodmarkError

        try:
            job, _ = job_named(self.path)
            found = gate_scenarios(job, tags=self.config.getoption("--floodmark-tag") or ())
        except FloodmarkError as error:
            raise self.CollectError(str(error)) from error
        for source, scenario, named in found:
            yield JobItem.from_parent(
                self, name=scenario.scenario, scenario=scenario, source=source, named=named
            )


class JobItem(_RunItem):
    """One job scenario with the job of the file."""

    def __init__(self, *, scenario: JobScenario, source: str, named: bool, **rest: Any) -> None:
        super().__init__(**rest)
        self._scenario = scenario
        self._source = source
        self._named = named
        self.add_marker(pytest.mark.real)

    def runtest(self) -> None:
        """Put the job under fire; any verdict other than `pass` fails the test.

        A scenario that the job cannot meet is left out, which the summary counts; one that was named is an error.
        """
        from harness.history.verdict import Outcome
        from harness.system.errors import CannotHere

        shared = _shared(self.config)
        try:
            outcome = shared.performed_job(
                self._scenario, self._source, job=self.path, seed=shared.seed, named_alone=self._named
            )
        except CannotHere as sentence:
            if sentence.need and self._named:
                raise
            shared.leave_out(self._scenario.scenario, sentence)
            pytest.skip(str(sentence))
        shared.show(outcome)
        if outcome.judgement.outcome is not Outcome.PASS:
            shared.not_proven += 1
            raise NotProven(outcome)


class NotProven(Exception):
    """A run that did not pass; its text is the terminal report of the run, between two lines if they are given."""

    def __init__(self, outcome: RunOutcome, *, first: str = "", last: str = "") -> None:
        from harness.testing.running import told

        super().__init__("\n".join(filter(None, [first, told(outcome), last])))


def fixture_for(item: pytest.Item) -> Floodmark:
    """What the fixture `floodmark` is for a test; its marker gives the defaults."""
    return _Holding(item, shared=_shared(item.config))


class _Holding:
    """Runs scenarios for one test and asserts their verdicts; implements `harness.testing.Floodmark`."""

    def __init__(self, item: pytest.Item, *, shared: Shared) -> None:
        self._item = item
        self._shared = shared

    def holds(
        self,
        *scenarios: str | Path | Scenario,
        sut: object = None,
        level: Level | None = None,
        runs: int | None = None,
        seed: int | None = None,
        expected: object = None,
    ) -> None:
        from harness.system.errors import CannotHere, FloodmarkError, HarnessError

        __tracebackhide__ = True
        given = {"sut": sut, "level": level, "runs": runs, "seed": seed, "expected": expected}
        cannot: list[str] = []
        refusal: FloodmarkError | None = None
        try:
            asked = self._asked({name: value for name, value in given.items() if value is not None})
            for scenario, source in self._named(scenarios):
                try:
                    self._runs(scenario, source, asked)
                except CannotHere as sentence:
                    cannot.append(str(sentence))
        except HarnessError:
            raise
        except FloodmarkError as error:
            refusal = error
        if refusal is not None:  # after the except block, so that the traceback has the user's line only
            pytest.fail(f"floodmark: {refusal}")
        if cannot:
            pytest.skip("; ".join(cannot))

    def job(
        self, *scenarios: str | Path, job: str | Path | None = None, runs: int = 1, seed: int | None = None
    ) -> None:
        from harness.system.errors import CannotHere, FloodmarkError, HarnessError

        __tracebackhide__ = True
        refusal: FloodmarkError | None = None
        try:
            for source, scenario, named, file in self._job_scenarios(scenarios, job):
                try:
                    self._job_runs(scenario, source, file, named=named, runs=runs, seed=seed)
                except CannotHere as sentence:
                    if named or not sentence.need:
                        raise
                    self._shared.leave_out(scenario.scenario, sentence)
        except HarnessError:
            raise
        except FloodmarkError as error:
            refusal = error
            if isinstance(error, CannotHere) and not error.need:
                pytest.skip(str(error))
        if refusal is not None:  # after the except block, so that the traceback has the user's line only
            pytest.fail(f"floodmark: {refusal}")

    def _job_scenarios(
        self, scenarios: Sequence[str | Path], job: str | Path | None
    ) -> Iterator[tuple[str, JobScenario, bool, str]]:
        """Each scenario with its name or file, whether it was named, and what names the job.

        A file is looked for beside the test first.
        """
        from harness.levels.job.job_scenarios import load_jobs, named_alone
        from harness.levels.job.order import gate_scenarios, job_named

        folder = self._item.path.parent
        file, named = job_named("job.toml" if job is None else job, beside=folder)
        if not scenarios:
            yield from ((*chosen, named) for chosen in gate_scenarios(file))
        for name in scenarios:
            source = folder / name if (folder / name).is_file() else name
            is_one = bool(named_alone([source]))
            yield from ((str(source), scenario, is_one, named) for _, scenario in load_jobs([source]))

    def _job_runs(
        self, scenario: JobScenario, source: str, job: str, *, named: bool, runs: int, seed: int | None
    ) -> None:
        from harness.system.errors import UsageError

        __tracebackhide__ = True
        if runs < 1:
            raise UsageError(f"runs={runs}: nothing would run", fix="write runs=1 or more")
        first = self._shared.seed if seed is None else seed
        for number in range(runs):
            outcome = self._shared.performed_job(
                scenario, source, job=job, seed=first + number, data_seed=first, named_alone=named
            )
            self._assert_passed(outcome, number=number, runs=runs)

    def _assert_passed(self, outcome: RunOutcome, *, number: int, runs: int, differs: str = "") -> None:
        """Raises AssertionError if run `number` did not pass; the report shows it then, and the first run."""
        import shutil

        from harness.history.verdict import Outcome
        from harness.testing.running import told

        __tracebackhide__ = True
        passed = outcome.judgement.outcome is Outcome.PASS
        if number == 0 or not passed:
            self._shared.show(outcome)
        else:
            self._shared.note(outcome)
            shutil.rmtree(outcome.history.parent)  # else hundreds of histories would stay
        if not passed:
            what = f"{outcome.scenario} at level {outcome.level}: {outcome.judgement.outcome}"
            what = f"{differs}\n{what}" if differs else what
            raise AssertionError(
                f"{what} in run {number + 1} of {runs}, seed {outcome.seed}\n{told(outcome)}"
            )

    def _asked(self, given: Json) -> Json:
        """What the call says, then the marker."""
        from harness.system.errors import UsageError

        marked = [marker.kwargs for marker in self._item.iter_markers("floodmark")]
        asked: dict[str, Any] = {}
        for values in (*reversed(marked), given):
            asked |= values
        if unknown := asked.keys() - {"sut", "level", "runs", "seed", "expected"}:
            message = f"the marker floodmark takes no {', '.join(sorted(unknown))}"
            raise UsageError(message, fix="it takes sut, level, runs, seed and expected")
        return asked

    def _named(
        self, scenarios: Sequence[str | Path | Scenario]
    ) -> Iterator[tuple[Scenario, str | Path | Scenario]]:
        """Each scenario and where it is from; a file is looked for beside the test first."""
        from harness.scenario.catalogue import resolve
        from harness.scenario.model import Scenario
        from harness.system.errors import NothingRan
        from harness.testing.running import load

        marker = self._item.get_closest_marker("floodmark")
        sources = scenarios or (() if marker is None else marker.args)
        if not sources:
            raise NothingRan("no scenario is named", fix='write floodmark.holds("connections-cut", ...)')
        for source in sources:
            if isinstance(source, Scenario):
                yield source, source
                continue
            beside = self._item.path.parent / source
            for file in resolve([beside if beside.is_file() else source]):
                yield load(file), file if beside.is_file() else source

    def _runs(self, scenario: Scenario, source: str | Path | Scenario, asked: dict[str, Any]) -> None:
        """Run the scenario as often as asked; the report shows the first run, or the one that does not pass."""
        from harness.explore.find import not_shown
        from harness.system.errors import UsageError

        __tracebackhide__ = True
        runs = asked.get("runs", 1)
        if runs < 1:
            raise UsageError(f"runs={runs}: nothing would run", fix="write runs=1 or more")
        options, differs = self._shared.options(scenario, asked)
        if options["sut"] is None:
            message = (
                "no system under test is named, and the reference must not be tested in its place by mistake"
            )
            raise UsageError(message, fix='write sut=lookup, or sut="reference" if that is meant')
        level = asked.get(
            "level", _settings(self._item.config).of("level", is_find=scenario.shows is not None)
        )
        level = "sim" if level in {None, "all"} else level
        for number in range(runs):
            seeded = {**options, "seed": options["seed"] + number}
            outcome = self._shared.performed(scenario, source, level=level, **seeded)
            self._assert_passed(outcome, number=number, runs=runs, differs=differs)
        if last := not_shown(scenario, []):  # a run that shows it does not pass
            raise AssertionError("\n".join(filter(None, [differs, last])))


def _shared(config: pytest.Config) -> Shared:
    if _SHARED not in config.stash:
        config.stash[_SHARED] = Shared(config)
    return config.stash[_SHARED]


def _settings(config: pytest.Config) -> _Settings:
    """The settings of the session. Raises UsageError if one of them is wrong."""
    from harness.system.project_settings import project_settings

    if _SETTINGS not in config.stash:
        config.stash[_SETTINGS] = _Settings(config, project=project_settings(["run"]).get("run", {}))
    return config.stash[_SETTINGS]


class _Settings:
    """The settings of a session: options, then the environment, then `[tool.floodmark]` of pyproject.toml."""

    def __init__(self, config: pytest.Config, *, project: Mapping[str, object]) -> None:
        """Raises UsageError for an unknown level or an invalid seed."""
        from harness.system.errors import UsageError

        self._config = config
        self._project = project
        level, seed = self.of("level"), self.of("seed")
        if level not in {None, *OPERATOR_LEVELS, "all"}:
            raise UsageError(f"there is no level {level!r}", fix=f"choose {' or '.join(OPERATOR_LEVELS)}")
        if seed is not None and not seed.isdecimal():
            raise UsageError(f"the seed {seed!r} is not a number", fix="set FLOODMARK_SEED to 7, say")

    def of(self, name: str, *, is_find: bool = False) -> str | None:
        """The value of `--floodmark-<name>`, FLOODMARK_<NAME> or `name`; None: none of them is given.

        `is_find`: for a saved find, for which the option alone counts.
        """
        option = self._config.getoption(f"--floodmark-{name}")
        given = option if option is not None or is_find else os.environ.get(f"FLOODMARK_{name.upper()}")
        found = given if given is not None or is_find else self._project.get(name)
        return None if found is None else str(found)


class Shared:
    """The stage and the outcomes of all items of a session. Mutable."""

    def __init__(self, config: pytest.Config) -> None:
        from harness.engine.open_levels import StagePlan
        from harness.levels import level_named
        from harness.scenario.order import new_run_id
        from harness.system.choices import fresh_seed

        self._settings = _settings(config)
        seed, report = self._settings.of("seed"), config.getoption("--floodmark-report")
        run_id = new_run_id()
        self.seed = fresh_seed() if seed is None else int(seed)
        self._folder = Path("reports", "out", run_id) if report is None else report
        self._world = self._settings.of("world") or "auto"
        self._proxy = self._settings.of("proxy") or "auto"
        self._repeats = config.getoption("--floodmark-repeat") or 0
        self._plan = StagePlan(
            run_id=run_id, report=self._folder, levels=level_named, world=self._world, proxy=self._proxy
        )
        self._stack = ExitStack()
        self._stage: OpenLevels | None = None
        self._outcomes: list[RunOutcome] = []
        self._listed: list[CountedRun] = []
        """Every run."""
        self.environment_failed = False
        self.harness_failed = False
        self.any_not_shown = False
        """Whether a saved find did not show what its file says."""
        self.not_proven = 0
        """How many items failed because of their verdict or because no world was available."""
        self.repeated: list[str] = []
        """The vacuous runs that were repeated, a sentence each."""
        self.left_out: list[LeftOut] = []
        self.page: Path | None = None

    def run(self, scenario: Scenario, level: str, file: Path) -> tuple[RunOutcome, str]:
        """Run the scenario of `file` once; how a saved find's run differs from its file is a sentence.

        Raises as `performed`, and SutError for a `sut` that cannot be used.
        """
        from harness.explore.find import not_shown
        from harness.history.verdict import Outcome
        from harness.scenario.order import REFERENCE

        options, differs = self.options(scenario, {})
        options["sut"] = options["sut"] or REFERENCE
        if ":" not in options["sut"]:
            options["expected"] = None  # what the reference must return is known
        outcome = self.performed(scenario, file, level=level, **options)
        self.show(outcome)
        is_not_shown = bool(not_shown(scenario, [outcome]))
        self.any_not_shown |= is_not_shown
        self.not_proven += outcome.judgement.outcome is not Outcome.PASS or is_not_shown
        return outcome, differs

    def options(self, scenario: Scenario, given: JsonView) -> tuple[Json, str]:
        """`sut`, `expected`, `seed` and `mutant`: those `given`, else of the settings, or of a saved find's file.

        And how a saved find's run differs from its file. Raises SutError for a `sut` that cannot be used.
        """
        from harness.explore.find import options_of_find
        from harness.sut.user_code import name_of
        from harness.testing.running import checked_sut

        is_find = scenario.shows is not None
        asked = {
            name: given.get(name, self._settings.of(name, is_find=is_find))
            for name in ("sut", "expected", "seed")
        }
        options: dict[str, Any] = {
            "sut": None if asked["sut"] is None else checked_sut(asked["sut"]),
            "expected": None if asked["expected"] is None else name_of(asked["expected"]),
            "seed": None if asked["seed"] is None else int(asked["seed"]),
        }
        options, differs = options_of_find(scenario, **options) if is_find else (options, "")
        if is_find and asked["sut"] is None:
            options["sut"] = checked_sut(options["sut"])
        if options["seed"] is None:
            options["seed"] = self.seed
        return options, differs

    def performed(
        self,
        scenario: Scenario,
        source: str | Path | Scenario,
        *,
        level: str,
        seed: int,
        sut: str,
        expected: str | None = None,
        mutant: str | None = None,
    ) -> RunOutcome:
        """Perform one run; the report does not show it yet. A vacuous one of a real level is repeated, if asked for.

        Raises WorldError, HarnessError if the harness itself is defective, and SutError if no worker can import `sut`.
        """
        from harness.testing.running import order_of

        def once(seed: int) -> RunOutcome:
            order = order_of(
                scenario,
                source=source,
                sut=sut,
                level=level,
                seed=seed,
                expected=expected,
                world=(self._world, self._proxy),
                mutant=mutant,
            )
            return self._opened().run(order)

        return self._performed(once, seed=seed)

    def performed_job(
        self,
        scenario: JobScenario,
        source: str,
        *,
        job: str | Path,
        seed: int,
        data_seed: int | None = None,
        named_alone: bool = True,
    ) -> RunOutcome:
        """Perform one run of a job, which inherits this process's environment; as `performed`."""
        from harness.levels.job.order import job_named, job_order
        from harness.sut.user_code import import_path

        file, named = job_named(job)

        def once(seed: int) -> RunOutcome:
            order = job_order(
                scenario,
                source=source,
                job=file,
                named=named,
                seed=seed,
                data_seed=None if data_seed == seed else data_seed,
                environment=dict(os.environ),
                import_path=(str(file.folder), *import_path()),
                world=(self._world, self._proxy),
                named_alone=named_alone,
            )
            return self._opened().run(order)

        return self._performed(once, seed=seed)

    def _performed(self, once: Callable[[int], RunOutcome], *, seed: int) -> RunOutcome:
        """Performs it, and notes what kept it from being judged.

        Only a run without evidence is repeated: a violation or an open question must stay visible.
        """
        from harness.history.verdict import Outcome
        from harness.system.errors import HarnessError, WorldError
        from reports.reading import counts_towards

        vacuous: list[str] = []
        try:
            outcome = once(seed)
            while (
                outcome.judgement.outcome is Outcome.VACUOUS
                and outcome.level != "sim"
                and len(vacuous) < self._repeats
            ):
                lacking = [
                    f"{verdict.invariant}, {verdict.why}"
                    for verdict in outcome.judgement.invariants
                    if verdict.outcome is Outcome.VACUOUS and counts_towards(outcome, verdict)
                ]
                vacuous.append(f"seed {outcome.seed} was vacuous: {'; '.join(lacking)}")
                outcome = once(outcome.seed + _REPEAT_STEP)
        except WorldError:
            self.environment_failed = True
            self.not_proven += 1
            raise
        except HarnessError:
            self.harness_failed = True
            self.not_proven += 1
            raise
        self.repeated += [f"{outcome.scenario}[{outcome.level}]: {said}" for said in vacuous]
        said = tuple(
            f"A run before this one was repeated because it showed nothing: {one}" for one in vacuous
        )
        return replace(outcome, threats=(*said, *outcome.threats))

    def leave_out(self, scenario: str, why: CannotHere) -> None:
        """Have summary and report count a scenario that the job cannot meet; what the world lacks is not counted."""
        from harness.scenario.outcome import LeftOut

        if why.need:
            self.left_out.append(LeftOut(scenario=scenario, need=why.need, why=why.what))

    def show(self, outcome: RunOutcome) -> None:
        """Have the report show a run."""
        from harness.scenario.outcome import CountedRun

        self._outcomes.append(outcome)
        self._listed.append(CountedRun.of(outcome))

    def note(self, outcome: RunOutcome) -> None:
        """Have the report list a run whose history does not stay."""
        from harness.scenario.outcome import CountedRun

        self._listed.append(replace(CountedRun.of(outcome), run_id=""))

    @property
    def suts(self) -> str:
        """The systems under test of all runs."""
        return ", ".join(dict.fromkeys(outcome.sut for outcome in self._outcomes))

    @property
    def world(self) -> str:
        """Why the runs got the world that they had."""
        return "; ".join(dict.fromkeys(outcome.world.why for outcome in self._outcomes))

    def _opened(self) -> OpenLevels:
        """The stage, opened by the first run; its world starts with the first run that needs one."""
        from harness.engine.level import Observer, Stop
        from harness.engine.open_levels import open_levels

        if self._stage is None:
            self._stage = self._stack.enter_context(open_levels(self._plan, observer=Observer(), stop=Stop()))
        return self._stage

    @property
    def exit_code(self) -> int | None:
        """The exit code that replaces pytest's own; None if the runs give no reason to."""
        from harness.history.verdict import worst
        from harness.system.errors import Exit

        if self.harness_failed:
            return Exit.INTERNAL
        code = (
            worst(outcome.judgement.outcome for outcome in self._outcomes).exit_code
            if self._outcomes
            else None
        )
        if code is Exit.HOLD and self.any_not_shown:
            return Exit.UNDECIDED
        if code in {None, Exit.HOLD}:
            return Exit.ENVIRONMENT if self.environment_failed else None
        return code

    def close(self) -> None:
        """Close the stage, then write the report of what ran."""
        from harness.scenario.outcome import Extent
        from reports.write import write_report

        self._stack.close()
        if self._outcomes:
            secrets = () if self._stage is None else self._stage.secrets
            self.page = write_report(
                self._outcomes,
                self._folder,
                title="pytest",
                secrets=secrets,
                counted=self._listed,
                extent=Extent(asked=len(self._listed), left_out=tuple(self.left_out)),
            )
