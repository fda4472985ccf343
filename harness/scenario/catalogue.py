"""The catalogue of shipped scenarios, the lookup of scenario files by name, and the expected duration of a run.

Answers to Maelstrom's and Sonobuoy's named test suites. Invariant: an unknown name is an error that suggests the
nearest name, never an empty selection. The duration is estimated from the source's rate and the times of the faults.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import harness
from harness.scenario.model import (
    At,
    Between,
    CallMade,
    CheckpointDone,
    Fault,
    RecordTaken,
    Scenario,
    Workload,
)
from harness.system.errors import NothingRan, UsageError

_SUFFIXES = (".yaml", ".yml")


def catalogue_folder() -> Path:
    """The folder `scenarios` beside the package `harness`, in a clone and in an installed wheel alike."""
    return Path(harness.__file__).resolve().parent.parent / "scenarios"


JOBS: Final = "jobs"
"""The folder of the job scenarios in the catalogue's folder."""


def catalogue() -> dict[str, Path]:
    """The shipped scenarios by name, sorted by folder, then by name; those for jobs are another catalogue."""
    return {path.stem: path for path in _files_below(catalogue_folder())}


def folders() -> dict[str, str]:
    """The subfolder of each shipped scenario; empty for one directly in the catalogue's folder."""
    return _folders(catalogue())


def resolve(names: Iterable[str | Path], *, of_jobs: Mapping[str, Path] | None = None) -> list[Path]:
    """The scenario files for paths, folders (the catalogue's by name), scenario names or `all`, without repetition.

    `of_jobs`: the scenarios that an unknown name may have meant, where the command runs jobs.
    """
    shipped = catalogue()
    found: dict[Path, None] = {}
    unknown: list[str] = []
    for name in names:
        files = _meant(str(name), shipped)
        unknown += [] if files is not None else [str(name)]
        found |= dict.fromkeys(files or [])
    if unknown:
        nearest = [*shipped, *_folder_names(shipped), "all"] if of_jobs is None else [*of_jobs, "all"]
        told = [f"there is no scenario, file or folder `{name}`{_nearest(name, nearest)}" for name in unknown]
        listing = f"`floodmark list scenarios{'' if of_jobs is None else ' --jobs'}`"
        raise UsageError("\n".join(told), fix=f"{listing} lists them")
    if not found:
        raise NothingRan("no scenario was named", fix="name files, folders or scenarios, or write `all`")
    return list(found)


def _meant(name: str, shipped: dict[str, Path]) -> list[Path] | None:
    """A name in the catalogue has precedence over a file or folder of the same name."""
    path = Path(name)
    if name == "all":
        return list(shipped.values())
    if name in shipped:
        return [shipped[name]]
    if name in _folder_names(shipped):
        return _inside(catalogue_folder() / name)
    if path.is_dir():
        return _inside(path)
    return [path] if path.is_file() else None


def _folders(shipped: dict[str, Path]) -> dict[str, str]:
    top = catalogue_folder()
    return {name: path.parent.relative_to(top).as_posix().removeprefix(".") for name, path in shipped.items()}


def _folder_names(shipped: dict[str, Path]) -> list[str]:
    return sorted(set(_folders(shipped).values()) - {""})


def _inside(folder: Path) -> list[Path]:
    files = list(_files_below(folder))
    if not files:
        raise NothingRan(f"no scenario file (*.yaml, *.yml) is in {folder}", fix="name another folder")
    return files


def _files_below(folder: Path) -> Iterator[Path]:
    found: list[Path] = []
    of_jobs = catalogue_folder() / JOBS
    is_of_jobs = folder.resolve() == of_jobs
    for inside, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        if is_of_jobs or Path(inside).resolve() != of_jobs:
            found += [
                Path(inside, name) for name in names if name.endswith(_SUFFIXES) and not name.startswith(".")
            ]
    yield from (path for path in sorted(found) if path.is_file())


def _nearest(name: str, known: Sequence[str]) -> str:
    stem = Path(name).stem
    beside = sorted(map(str, Path(name).parent.glob("*.y*ml"))) if name.endswith(_SUFFIXES) else []
    inside = [one for one in known if stem and stem in one]
    close = get_close_matches(name, beside, n=1) or inside[:1] or get_close_matches(stem, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


_AROUND_S = 1.5
"""Time before the first record and after the last one."""


def expected_s(scenario: Scenario) -> float:
    """Expected seconds of one run at level live in an open world: until the source and every fault are over."""
    source_s = scenario.workload.records / scenario.workload.rate
    over_s = [_begins_s(fault, scenario.workload) + _lasts_s(fault) for fault in scenario.faults]
    return _AROUND_S + max(source_s, *over_s, 0.0)


def _begins_s(fault: Fault, workload: Workload) -> float:
    """The expected time at which it begins; 0 for a phase, whose time is unknown."""
    match fault.when:
        case At(at=at_ms):
            return at_ms / 1000
        case Between(between=(_, latest_ms)):
            return latest_ms / 1000
        case CallMade(call=call, subtask=subtask):
            return call / workload.rate / (1 if subtask is not None else workload.subtasks)
        case RecordTaken(record=record):
            return record / workload.rate
        case CheckpointDone(checkpoint=checkpoint):
            if workload.checkpoint_every is None:
                return checkpoint * (workload.checkpoint_interval or 0) / 1000
            share = checkpoint * workload.checkpoint_every / workload.positions
            return share * (workload.records / workload.rate)
        case _:
            return 0.0


def _lasts_s(fault: Fault) -> float:
    return ((fault.comes - 1) * fault.every_ms + (fault.lasts_ms or 0)) / 1000
