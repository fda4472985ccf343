"""The code that executors need, in one archive that Spark hands to each of them; nothing else is assumed to be there.

Answers to `--py-files` and `--archives` of `spark-submit`. Invariant: an executor imports our packages from the archive,
whatever its own import path has; a user's modules come after everything else, as they do beside the harness.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import harness
from harness.errors import WorldError
from harness.runs.plan import RunPlan
from harness.sut.user_modules import take_path

__all__ = ["ARCHIVE_FOLDER", "find_user_code", "shipped_path", "write_archive"]

ARCHIVE_FOLDER: Final = "floodmark"
"""What the archive is unpacked as, in the working folder of each executor."""
_PACKAGES: Final = ("harness", "reference_impl")
_NOT_CODE: Final = frozenset({"__pycache__", "tests", "node_modules", "site-packages"})
_FILES_MAX: Final = 5_000
"""A user's folder with more modules is taken for a mistake: it was probably ordered from a home folder."""
_UNCHECKED: Final = 0b01
"""The flags of a compiled module that is named by the hash of its source, and not compared with it (PEP 552)."""
_USER: Final = "user-{}"


def write_archive(file: Path, *, user_folders: Sequence[str] = ()) -> Path:
    """Writes our packages, and the modules below `user_folders`, into a zip file."""
    ours = Path(harness.__file__).resolve().parent.parent
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for package in _PACKAGES:
            for path in _below(ours / package):
                archive.write(path, path.relative_to(ours))
                if path.suffix == ".py":
                    _write_compiled(archive, path, name=path.relative_to(ours))
        for number, folder in enumerate(user_folders):
            modules = [path for path in _below(Path(folder)) if path.suffix == ".py"]
            if len(modules) > _FILES_MAX:
                message = f"{folder} has {len(modules)} modules, and all of them would go to each executor"
                raise WorldError(
                    message, fix="put your lookup into a folder of its own, and start from there"
                )
            for path in modules:
                archive.write(path, Path(_USER.format(number)) / path.relative_to(folder))
    return file


def user_folders(plan: RunPlan) -> Sequence[str]:
    """The folders of the plan's import path that are a user's own; none if the system under test is one of ours."""
    if ":" not in plan.sut:
        return []
    ours = str(Path(harness.__file__).resolve().parent.parent)
    roots = (sys.prefix, sys.base_prefix, *(path for path in sys.path if "-packages" in path))
    return [
        folder
        for folder in plan.path
        if Path(folder).is_dir() and folder != ours and not folder.startswith(tuple(roots))
    ]


def shipped_path(folders: Sequence[str]) -> list[str]:
    """Where executors find what was in these folders, relative to the archive."""
    return [_USER.format(number) for number, _ in enumerate(folders)]


def find_user_code(plan: RunPlan) -> None:
    """Makes this process, which runs attempts of `plan`, import a user's modules."""
    if plan.sent_to is None:
        take_path(plan.path)
        return
    root = Path(harness.__file__).resolve().parent.parent
    wanted = [str(root / folder) for folder in plan.path]
    sys.path += [folder for folder in wanted if folder not in sys.path]


def settings_of_archive(file: Path) -> Mapping[str, str]:
    """The settings by which executors get the archive and import from it."""
    return {
        "spark.archives": f"{file}#{ARCHIVE_FOLDER}",
        "spark.executorEnv.PYTHONPATH": ARCHIVE_FOLDER,
    }


def _write_compiled(archive: zipfile.ZipFile, path: Path, *, name: Path) -> None:
    """Beside a module what Python makes of it, or each executor would spend ten seconds on that.

    It is not compared with the time of the module's file, for unpacking changes that; another Python ignores it.
    """
    source = path.read_bytes()
    code = compile(source, str(name), "exec", dont_inherit=True)
    header = (
        importlib.util.MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + importlib.util.source_hash(source)
    )
    cached = Path(importlib.util.cache_from_source(str(name)))
    archive.writestr(str(cached), header + marshal.dumps(code))


def _below(folder: Path) -> Iterator[Path]:
    """The files below a folder, without what is hidden, made by Python, a test, or another environment."""
    for here, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in _NOT_CODE and not name.startswith("."))
        yield from (Path(here) / name for name in sorted(files) if not name.endswith((".pyc", ".class")))
