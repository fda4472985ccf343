"""The profiles of `floodmark certify` (which scenarios run with which seeds, in `profiles.toml`), and its subjects.

Answers to Sonobuoy's modes and Bowtie's dialects. Invariant: a profile's runs are a list that is written down, so two
certificates of one version of Floodmark made with one profile are about the same runs. A subject's digests are those of
the files that were loaded, taken before the first run.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import harness
from harness.faults.registry import FAULTS
from harness.scenario.certificate import SealedFile, SubjectOfCertificate, sealed_file
from harness.scenario.order import REFERENCE
from harness.sut.defects import DEFECTS
from harness.sut.registry import SUTS, load_attribute
from harness.sut.variant import Variant
from harness.system.errors import SutError, UsageError
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.levels.job.job_file import JobFile
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
def _read() -> Json:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def families_of(scenario: AnyScenario) -> list[str]:
    """The families of the scenario's faults, each once."""
    return list(dict.fromkeys(_FAMILIES[FAULTS[fault.do].by] for fault in scenario.faults))


_FILES_MAX: Final = 200
"""Most files of a subject that are named one by one."""
_BUILDER: Final = "build_operator"
_STATED: Final = "The catalogue states them: the rows of each record's key in the table that the seed made."


def fitting_profile(sut: str) -> str:
    """The profile for `--sut`, unless one is named. Raises SutError if it cannot be loaded."""
    path = Path(sut)
    if path.is_dir() or path.suffix == ".toml" or " " in sut:
        return "pipeline"
    if sut in SUTS:
        return "operator"
    if ":" not in sut:
        return "lookup"  # loading it names what there is
    found = load_attribute(sut, option="--sut", kind="ATTR")
    is_operator = isinstance(found, Variant) or getattr(found, "__name__", "") == _BUILDER
    return "operator" if is_operator else "lookup"


def python_subject(sut: str, *, expected: str | None, own_files: Iterable[Path] = ()) -> SubjectOfCertificate:
    """A user's lookup, or that of the reference."""
    modules = [name.partition(":")[0] for name in (sut, expected or "") if ":" in name]
    files = [*_loaded(modules), *(certified_file(path) for path in own_files)]
    about = SUTS.get(sut, "a user's lookup in the reference operator")
    facts = _of_ours() if sut in SUTS else {"reference operator": _reference_digest()}
    return SubjectOfCertificate(
        kind="lookup",
        name=sut,
        about=about,
        files=files,
        facts=facts | ({"--expected": expected} if expected else {}),
        expected_from=[_STATED] if sut in SUTS else [],
    )


def operator_subject(sut: str, mutant: str | None) -> SubjectOfCertificate:
    """The reference, or a variant of it: a user's own `build_operator`, or a planted defect."""
    about = SUTS.get(sut, "an operator")
    if mutant is None:
        return SubjectOfCertificate(
            kind="operator", name=sut, about=about, files=[], facts=_of_ours(), expected_from=[_STATED]
        )
    own = ":" in mutant
    if own:
        about = "the reference with parts of a user's own"
    else:
        about = f"the reference with a planted defect: {DEFECTS[mutant].about}"
    return SubjectOfCertificate(
        kind="operator",
        name=mutant,
        about=about,
        files=list(_loaded([mutant.partition(":")[0]])) if own else [],
        facts=_of_ours(),
        expected_from=[_STATED],
    )


def job_subject(job: JobFile, named: str) -> SubjectOfCertificate:
    """A user's job: its file, what that names, and the Python files beside it."""
    claims, sink, path = job.claims, job.sink, Path(named)
    told = [sink.schema_file, job.lookups.schema_file, *job.lookups.data, job.source.records]
    words = job.job.command or ()
    files = [path] if path.is_file() else []
    files += [job.path(name) for name in (*words, *filter(None, told))]
    files += sorted(job.folder.glob("*.py")) if path.is_file() else []
    found = dict.fromkeys(file.resolve() for file in files if file.is_file())
    facts = {
        "command": job.title,
        "source": job.source.kind,
        "sink": f"table {sink.table}, {sink.write}",
        "claims": f"{claims.delivery}, order {claims.order}",
    }
    stated = {
        "calm": "what the job itself writes without faults (its calm twin)",
        "none": "not known: no value is judged",
    }
    expected = stated.get(claims.expected, f"stated by `{claims.expected}`")
    return SubjectOfCertificate(
        kind="pipeline",
        name=path.name if path.is_file() else named,
        about="a whole job as it is, seen from outside",
        files=[certified_file(file, below=job.folder) for file in found],
        facts=facts,
        expected_from=[f"The job's claims: expected rows are {expected}."],
    )


def _loaded(modules: Iterable[str]) -> Iterator[SealedFile]:
    """The files of these modules, and of every module that was loaded from the current folder with them.

    Raises SutError if there are too many to name.
    """
    here = Path.cwd().resolve()
    found: dict[Path, None] = {}
    for name in modules:
        if (file := getattr(sys.modules.get(name), "__file__", None)) is not None:
            found[Path(file).resolve()] = None
    ours = [Path(harness.__file__).resolve().parent.parent, Path(sys.prefix).resolve()]
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = Path(file).resolve() if file else None
        if (
            path is not None
            and _is_within(path, here)
            and not any(_is_within(path, folder) for folder in ours)
        ):
            found[path] = None
    if len(found) > _FILES_MAX:
        message = f"{len(found)} modules were loaded from {here}, more than the {_FILES_MAX} that a certificate names"
        raise SutError(message, fix="run the command in the folder of the function alone")
    for path in sorted(found):
        yield certified_file(path)


def certified_file(path: Path, *, below: Path | None = None) -> SealedFile:
    """The digest of a file of the subject, named from the current folder or from `below` where it lies in it."""
    path = path.resolve()
    folder = (below or Path.cwd()).resolve()
    return sealed_file(path, below=folder if _is_within(path, folder) else path.parent)


def _is_within(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder.resolve())


def _of_ours() -> dict[str, str]:
    return {"reference operator": _reference_digest(), "name": REFERENCE}


def _reference_digest() -> str:
    """One digest of all Python files of the reference operator, tests left out."""
    spec = find_spec("reference_impl")
    assert spec is not None, "the reference operator is installed with the harness"
    assert spec.origin is not None, "it has a file"
    folder = Path(spec.origin).resolve().parent
    hashed, files = sha256(), 0
    for path in sorted(folder.rglob("*.py")):
        if "tests" not in path.parts[len(folder.parts) :]:
            hashed.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
            files += 1
    return f"package {folder.name}, {files} files, sha256 {hashed.hexdigest()}"
