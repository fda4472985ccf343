"""The pytest plugin: `pytest scenarios/` collects each scenario file as one test per level.

Uses pytest's collection of non-Python tests. Invariant: an item passes only if its run's verdict is `pass`;
`vacuous` and `unknown` fail it, with the reason. With `--floodmark-repeat` a vacuous run is repeated, and the summary
and the report say so. A world or a JVM starts once per session, when the first item needs it, and is stopped at the
end of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.engine.stage import RunStage
    from harness.runs.outcome import RunOutcome
    from harness.scenario.model import Scenario


_SHARED = pytest.StashKey["Shared"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--floodmark-...`."""
    group = parser.getgroup("floodmark", "scenarios as tests")
    group.addoption("--floodmark-level", choices=["sim", "live", "spark", "all"], default="live",
                    help="levels at which scenario files are collected (default: live)")  # fmt: skip
    group.addoption("--floodmark-tag", action="append", default=[], metavar="TAG",
                    help="only scenarios with this tag; repeatable: with all of them")  # fmt: skip
    group.addoption("--floodmark-world", choices=["auto", "containers", "local"], default="auto",
                    help="where the database and its proxy come from (default: auto)")  # fmt: skip
    group.addoption("--floodmark-proxy", choices=["auto", "own", "toxiproxy"], default="auto",
                    help="the proxy before the database (default: auto)")  # fmt: skip
    group.addoption("--floodmark-seed", type=int, default=None, help="seed of every run (default: a new one)")
    group.addoption("--floodmark-repeat", type=int, default=0, metavar="N",
                    help="repeat a vacuous run at live or spark up to N times, with new seeds")  # fmt: skip
    group.addoption("--floodmark-report", type=Path, default=None,
                    help="folder of the report (default: reports/out/<run id>)")  # fmt: skip


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect every YAML file in a folder named `scenarios`, or named on the command line, as a scenario."""
    if file_path.suffix not in {".yaml", ".yml"}:
        return None
    if "scenarios" not in file_path.parts and not parent.session.isinitpath(file_path):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


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
    """Print the world, the seed and the path of the report."""
    shared = config.stash.get(_SHARED, None)
    if shared is not None and shared.page is not None:
        terminalreporter.section("floodmark")
        terminalreporter.write_line(f"world    {shared.world}")
        terminalreporter.write_line(f"seed     {shared.seed}")
        terminalreporter.write_line(f"report   {shared.page}")
        for repeated in shared.repeated:
            terminalreporter.write_line(f"repeated {repeated}")


class ScenarioFile(pytest.File):
    """One scenario file; yields one item for each requested level that the scenario supports."""

    def collect(self) -> Iterator[ScenarioItem]:
        """A scenario file with mistakes is a collection error that lists them all."""
        from harness.errors import FloodmarkError
        from harness.scenario.file import load

        try:
            scenario = load(self.path)
        except FloodmarkError as error:
            raise self.CollectError(str(error)) from error
        asked = self.config.getoption("--floodmark-level")
        if not set(self.config.getoption("--floodmark-tag")) <= set(scenario.tags):
            return
        for level in scenario.levels:
            if asked in {"all", level}:
                yield ScenarioItem.from_parent(
                    self, name=f"{scenario.scenario}[{level}]", scenario=scenario, level=level
                )


class ScenarioItem(pytest.Item):
    """One scenario at one level."""

    def __init__(self, *, scenario: Scenario, level: str, **rest: Any) -> None:
        super().__init__(**rest)
        self._scenario = scenario
        self._level = level
        if level != "sim":  # level sim needs nothing but Python
            self.add_marker(pytest.mark.spark if level == "spark" else pytest.mark.real)
        self.add_marker(pytest.mark.timeout(scenario.budget / 1000 + 120))

    def runtest(self) -> None:
        """Run the scenario; any verdict other than `pass` fails the test."""
        from harness.errors import CannotHere
        from harness.verdict import Outcome

        try:
            outcome = _shared(self.config).run(self._scenario, self._level, self.path)
        except CannotHere as sentence:
            pytest.skip(str(sentence))
        if outcome.judgement.outcome is not Outcome.PASS:
            raise NotProven(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, NotProven):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class NotProven(Exception):
    """A run that did not pass; its text is the terminal report of the run."""

    def __init__(self, outcome: RunOutcome) -> None:
        import io

        from reports.pretty import print_outcomes, terminal

        text = io.StringIO()
        print_outcomes([outcome], console=terminal(text))
        super().__init__(text.getvalue())


def _why_vacuous(outcome: RunOutcome) -> str:
    """The seed, and what the deciding invariants lacked."""
    from harness.verdict import Outcome
    from reports.reading import counts_towards

    reasons = [
        f"{verdict.invariant}, {verdict.why}"
        for verdict in outcome.judgement.invariants
        if verdict.outcome is Outcome.VACUOUS and counts_towards(outcome, verdict)
    ]
    return f"seed {outcome.seed} was vacuous: {'; '.join(reasons)}"


def _shared(config: pytest.Config) -> Shared:
    if _SHARED not in config.stash:
        config.stash[_SHARED] = Shared(config)
    return config.stash[_SHARED]


class Shared:
    """The stage and the outcomes of all items of a session. Mutable."""

    def __init__(self, config: pytest.Config) -> None:
        from harness.choices import fresh_seed
        from harness.engine.stage import StagePlan
        from harness.levels import level_named
        from harness.runs.order import new_run_id

        seed, report = config.getoption("--floodmark-seed"), config.getoption("--floodmark-report")
        run_id = new_run_id()
        self.seed = fresh_seed() if seed is None else seed
        self._folder = Path("reports", "out", run_id) if report is None else report
        self._world = config.getoption("--floodmark-world")
        self._proxy = config.getoption("--floodmark-proxy")
        self._repeats = config.getoption("--floodmark-repeat")
        self._plan = StagePlan(
            run_id=run_id, report=self._folder, levels=level_named, world=self._world, proxy=self._proxy
        )
        self._stack = ExitStack()
        self._stage: RunStage | None = None
        self._outcomes: list[RunOutcome] = []
        self.environment_failed = False
        self.harness_failed = False
        self.not_proven = 0
        """How many items failed because of their verdict or because no world was available."""
        self.repeated: list[str] = []
        """The vacuous runs that were repeated, a sentence each."""
        self.page: Path | None = None

    def run(self, scenario: Scenario, level: str, file: Path) -> RunOutcome:
        """Run the scenario of `file`; repeat a vacuous run of a real level, as often as the options allow.

        Raises WorldError, and HarnessError if the harness itself is defective.
        """
        from harness.errors import HarnessError, WorldError
        from harness.verdict import Outcome

        vacuous: list[str] = []
        try:
            outcome = self._once(scenario, level, file, seed=self.seed)
            while self._may_repeat(outcome, done=len(vacuous)):
                vacuous.append(_why_vacuous(outcome))
                outcome = self._once(scenario, level, file, seed=outcome.seed + 1)
        except WorldError:
            self.environment_failed = True
            self.not_proven += 1
            raise
        except HarnessError:
            self.harness_failed = True
            self.not_proven += 1
            raise
        self.repeated += [f"{scenario.scenario}[{level}]: {said}" for said in vacuous]
        told = tuple(
            f"A run before this one was repeated because it showed nothing: {said}" for said in vacuous
        )
        outcome = replace(outcome, threats=(*told, *outcome.threats))
        self._outcomes.append(outcome)
        self.not_proven += outcome.judgement.outcome is not Outcome.PASS
        return outcome

    def _may_repeat(self, outcome: RunOutcome, *, done: int) -> bool:
        """Only a run without evidence is repeated: a violation or an open question must stay visible."""
        from harness.verdict import Outcome

        is_vacuous = outcome.judgement.outcome is Outcome.VACUOUS
        return is_vacuous and outcome.level != "sim" and done < self._repeats

    def _once(self, scenario: Scenario, level: str, file: Path, *, seed: int) -> RunOutcome:
        import shlex

        from harness.runs.order import Order

        words = [
            "floodmark",
            "run",
            str(file),
            "--level",
            level,
            *(() if level == "sim" else ("--world", self._world, "--proxy", self._proxy)),
            "--seed",
            str(seed),
        ]
        order = Order(scenario=scenario, level=level, seed=seed, again=shlex.join(words))
        return self._opened().run(order)

    @property
    def world(self) -> str:
        """Why the runs got the world that they had."""
        return "; ".join(dict.fromkeys(outcome.world.why for outcome in self._outcomes))

    def _opened(self) -> RunStage:
        """The stage, opened by the first run; its world starts with the first run that needs one."""
        from harness.engine.level import Observer, Stop
        from harness.engine.stage import open_stage

        if self._stage is None:
            self._stage = self._stack.enter_context(open_stage(self._plan, observer=Observer(), stop=Stop()))
        return self._stage

    @property
    def exit_code(self) -> int | None:
        """The exit code that replaces pytest's own; None if the runs give no reason to."""
        from harness.errors import Exit
        from harness.verdict import worst

        if self.harness_failed:
            return Exit.INTERNAL
        code = (
            worst(outcome.judgement.outcome for outcome in self._outcomes).exit_code
            if self._outcomes
            else None
        )
        if code in {None, Exit.HOLD}:
            return Exit.ENVIRONMENT if self.environment_failed else None
        return code

    def close(self) -> None:
        """Close the stage, then write the report of what ran."""
        from reports.write import write_report

        self._stack.close()
        if self._outcomes:
            secrets = () if self._stage is None else self._stage.secrets
            self.page = write_report(self._outcomes, self._folder, title="pytest", secrets=secrets)
