"""The code that executors need, as one archive: they have Python, our dependencies, and nothing else of ours.

Answers to `--py-files` of `spark-submit`. Spark unpacks the archive in the working folder of each executor, so data
files (the catalogue of scenarios) are found too, and the import path names the unpacked folder. Invariant: equal files
give an equal archive, under an equal name.
"""

from __future__ import annotations

import marshal
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from typing import Final

import harness
from harness.system.errors import UsageError

UNPACKED: Final = "floodmark-code"
"""The folder, in the working folder of each executor, into which the archive is unpacked."""
_OURS: Final = ("harness", "reference_impl", "reports", "scenarios")
_LEFT_OUT: Final = frozenset({"tests", "__pycache__", "out", "node_modules", "site-packages"})
_NO_CODE: Final = frozenset({".pyc", ".md", ".java", ".Dockerfile"})
_THEIRS_MAX: Final = 64 << 20
"""Most bytes of a user's own modules that are sent."""
_UNCHECKED: Final = 0b01
_THEN: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the earliest that a zip can hold."""


def home_of_our_code() -> Path:
    """The folder that holds the package `harness` of this process."""
    return Path(harness.__file__).resolve().parents[1]


def code_archive(folder: Path, *, modules_in: Sequence[Path] = (), is_compiled: bool = False) -> Path:
    """Write the archive to `folder` unless it is there; `modules_in`: folders of a user's modules to send as well.

    `is_compiled`: with what Python makes of our modules, which saves each executor ten seconds at its first task.
    Raises UsageError if the user's modules are too large to be sent.
    """
    home = home_of_our_code()
    entries = {
        file.relative_to(home).as_posix(): file
        for package in _OURS
        for file in sorted((home / package).rglob("*"))
        if file.is_file()
        and file.suffix not in _NO_CODE
        and not _LEFT_OUT.intersection(file.relative_to(home).parts)
    }
    theirs = [(name, file) for place in modules_in for name, file in _modules(place) if name not in entries]
    size = sum(file.stat().st_size for _, file in theirs)
    if size > _THEIRS_MAX:
        message = (
            f"the modules in {', '.join(map(str, modules_in))} have {size >> 20} MB, too many for executors"
        )
        raise UsageError(
            message, fix="start it in the folder of your module, and keep data out of that folder"
        )
    entries = {**dict(theirs), **entries}
    known = sha256()
    for name, file in sorted(entries.items()):
        known.update(f"{name}\0".encode() + sha256(file.read_bytes()).digest())
    archive = folder / f"{UNPACKED}-{known.hexdigest()[:16]}.zip"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = archive.with_suffix(f".{os.getpid()}.part")
        _pack(made, entries, is_compiled=is_compiled)
        made.replace(archive)
    return archive


def executor_settings(archive: Path) -> Mapping[str, str]:
    """The settings of a session whose executors unpack the archive, and import from it in all their processes."""
    return {"spark.archives": f"{archive}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}"}


def _modules(place: Path) -> Iterator[tuple[str, Path]]:
    """The Python files of a folder and of the packages in it; hidden folders and environments are left out."""
    for path, folders, files in os.walk(place):
        here = Path(path)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _LEFT_OUT
            and not (here / name / "pyvenv.cfg").exists()
        )  # fmt: skip
        for name in sorted(files):
            if name.endswith(".py"):
                yield (here / name).relative_to(place).as_posix(), here / name


def _pack(path: Path, entries: Mapping[str, Path], *, is_compiled: bool) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, file in sorted(entries.items()):
            packed.writestr(
                zipfile.ZipInfo(name, _THEN), file.read_bytes(), compress_type=zipfile.ZIP_DEFLATED
            )
            if is_compiled and name.endswith(".py") and name.partition("/")[0] in _OURS:
                packed.writestr(zipfile.ZipInfo(cache_from_source(name), _THEN), _compiled(name, file))


def _compiled(name: str, file: Path) -> bytes:
    """A compiled module that is not compared with its source, whose time changes when it is unpacked (PEP 552)."""
    source = file.read_bytes()
    code = compile(source, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source) + marshal.dumps(code)
