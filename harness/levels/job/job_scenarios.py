"""Files of job scenarios: found by name, folder or path, read with every mistake at its line; ordinary ones too.

Invariant: what is read is a consistent `JobScenario`, or all problems of all files are raised at once. Of an ordinary
scenario its records, keys and faults are taken; what a job cannot do of it is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from harness.levels.job.job_file import text_in
from harness.levels.job.job_scenario import JobScenario
from harness.scenario.catalogue import JOBS, catalogue, catalogue_folder, resolve
from harness.scenario.file import loads
from harness.scenario.mistakes import Mistake, mistakes_in
from harness.scenario.model import Scenario
from harness.scenario.settings import settings_applied
from harness.scenario.yaml_text import Problem, ScenarioProblems, problem_at, read_yaml
from harness.system.errors import NothingRan
from harness.system.json_types import Json


def job_catalogue() -> dict[str, Path]:
    """The shipped job scenarios by name."""
    return {path.stem: path for path in sorted((catalogue_folder() / JOBS).glob("*.yaml"))}


def load_jobs(names: Iterable[str | Path]) -> list[tuple[Path, JobScenario]]:
    """The scenarios of files, folders and names, with their files; `all`: every shipped one for jobs.

    Raises ScenarioProblems with the problems of all files, UsageError for an unknown name.
    """
    found: list[tuple[Path, JobScenario]] = []
    problems: list[Problem] = []
    for path in _paths(names):
        read = _read(path)
        if isinstance(read, list):
            problems += read
        else:
            found.append((path, read))
    if problems:
        raise ScenarioProblems(problems)
    return found


def named_alone(names: Iterable[str | Path]) -> set[Path]:
    """The files of those names that mean one scenario, and not all, or a folder of them."""
    shipped = {**catalogue(), **job_catalogue()}
    return {
        shipped.get(str(name), Path(name)) for name in names if str(name) in shipped or Path(name).is_file()
    }


def apply_job_settings(scenario: JobScenario, settings: Sequence[str]) -> JobScenario:
    """`scenario` with `--set KEY=VALUE` applied in order. Raises ScenarioProblems."""
    data = scenario.model_dump(mode="json", by_alias=True)
    return settings_applied(data, settings, _validated) if settings else scenario


def _paths(names: Iterable[str | Path]) -> Iterator[Path]:
    shipped = job_catalogue()
    seen: set[Path] = set()
    for name in map(str, names):
        here = list(shipped.values()) if name == "all" else [shipped[name]] if name in shipped else None
        for path in resolve([name], of_jobs=shipped) if here is None else here:
            if path not in seen:
                seen.add(path)
                yield path
    if not seen:
        raise NothingRan("no scenario was named", fix="name files, folders or scenarios, or write `all`")


def _read(path: Path) -> JobScenario | list[Problem]:
    fix = "name a file that exists and that you may read"
    text = text_in(path, named=f"the scenario file {path}", fix=fix)
    document = read_yaml(text)
    slips = [
        problem_at(slip.place, file=str(path), lines=document.lines, say=slip.say, hint=slip.hint)
        for slip in document.slips
    ]
    if slips or document.broken:
        return slips
    data = document.data
    if isinstance(data, Mapping) and "job_scenario" not in data and "scenario" in data:
        try:
            data = _of_ordinary(loads(text, file=str(path)))
        except ScenarioProblems as error:
            return list(error.problems)
    read = _validated(data)
    if isinstance(read, JobScenario):
        return read
    problems = [
        problem_at(
            document.places.of(one.path, name=one.name),
            file=str(path),
            lines=document.lines,
            say=one.say,
            hint=one.hint,
        )
        for one in read
    ]
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


def _validated(data: object) -> JobScenario | list[Mistake]:
    try:
        return JobScenario.model_validate(data)
    except ValidationError as error:
        return mistakes_in(error, data, root=JobScenario)


def _of_ordinary(scenario: Scenario) -> Json:
    """What a job gets of an ordinary scenario."""
    workload = scenario.workload
    dumped = scenario.model_dump(mode="json", by_alias=True)
    return {
        "job_scenario": scenario.scenario,
        "about": scenario.about,
        "tags": list(scenario.tags),
        "records": workload.records * workload.subtasks,
        "keys": workload.keys,
        "faults": dumped["faults"],
        "budget": dumped["budget"],
        **({"thresholds": dumped["thresholds"]} if scenario.thresholds else {}),
    }
