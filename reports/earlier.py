"""The report that a folder holds already: it is moved into a folder of its own in there, never written over.

Answers to logrotate. Invariant: while a report is written, no other process writes one into the same folder; if writing
fails, everything is back where it was.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = "earlier"
_FILES: Final = ("index.html", "junit.xml", "run.json", "summary.md")
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@contextmanager
def set_aside(folder: Path, *, staying: Collection[Path] = ()) -> Iterator[str]:
    """Moves the report in `folder` away before the block writes another; gives its new place in there, or nothing.

    The histories that its `run.json` lists go with it, so that its links stay right, except those `staying`, which the
    new report shows too. If the block fails, all come back.
    """
    with _locked(folder):
        found = [folder / name for name in _FILES if (folder / name).exists()]
        if not found:
            yield ""
            return
        told = _told(folder)
        place = _free_place(folder, told)
        leaving = [*found, *_histories(folder, told, staying)]
        moved = [(path, place / path.relative_to(folder)) for path in leaving]
        try:
            for path, target in moved:
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)
            yield place.relative_to(folder).as_posix()
        except BaseException:
            _move_back(moved, place)
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Waits until no other process writes a report into `folder`."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives have no locks; the report is written all the same
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _told(folder: Path) -> dict[str, Any]:
    """The earlier `run.json`; empty if it cannot be read: then only the four files are known to be of a report."""
    try:
        told = json.loads((folder / "run.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _free_place(folder: Path, told: Mapping[str, Any]) -> Path:
    """`earlier/<id of its first run>`, with a number if that is there already."""
    runs = told.get("runs")
    first = runs[0] if isinstance(runs, list) and runs and isinstance(runs[0], dict) else {}
    name = _NAME.sub("-", str(first.get("run_id", "")))[:80].strip("-") or "report"
    place, number = folder / _FOLDER / name, 1
    while place.exists():
        number += 1
        place = folder / _FOLDER / f"{name}-{number}"
    return place


def _histories(folder: Path, told: Mapping[str, Any], staying: Collection[Path]) -> list[Path]:
    """The histories that it lists, each with what else lies in the run's own folder."""
    found: dict[Path, None] = {}
    kept = {path.resolve() for path in staying}
    for run in [*_listed(told.get("runs")), *_listed(told.get("counted"))]:
        history = run.get("history")
        file = history.get("file") if isinstance(history, dict) else history
        if not isinstance(file, str) or not file:
            continue
        path = folder / file
        if path.resolve() in kept:
            continue
        if path.parent.parent == folder / "runs":
            path = path.parent
        if ".." not in Path(file).parts and path.exists() and path.resolve().is_relative_to(folder.resolve()):
            found[path] = None
    return list(found)


def _listed(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _move_back(moved: list[tuple[Path, Path]], place: Path) -> None:
    for path, target in moved:
        if target.exists():
            target.rename(path)
    for left in (*sorted(place.rglob("*"), reverse=True), place, place.parent):
        if left.is_dir() and not any(left.iterdir()):
            left.rmdir()
