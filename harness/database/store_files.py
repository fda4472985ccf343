"""Where a checkpoint store keeps the parts of one subtask: on the disk, or in memory at level sim.

Invariant: a part is under its name whole or not at all, unless a fault has cut it since.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_PARTS = "checkpoint-??????-attempt-????"


class Files(Protocol):
    """Where the parts of one subtask are kept, each under its name."""

    def write(self, name: str, data: bytes) -> None:
        """Whole or not at all. Raises OSError."""

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""

    def cut(self, name: str, size: int) -> None:
        """Only the first `size` bytes stay."""

    def remove(self, name: str) -> None:
        """Remove the file; no effect if there is none."""

    def names(self) -> list[str]:
        """All, in the order of their names."""


class FolderFiles:
    """Files in `folder`; each is synced to the disk before it gets its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f"{name}.unfinished"
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def cut(self, name: str, size: int) -> None:
        os.truncate(self._folder / name, size)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        return sorted(path.name for path in self._folder.glob(_PARTS))


class MemoryFiles:
    """Files in memory, for level sim: they live as long as the run. Mutable."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def write(self, name: str, data: bytes) -> None:
        self._data[name] = data

    def read(self, name: str) -> bytes:
        if name not in self._data:
            raise FileNotFoundError(name)
        return self._data[name]

    def cut(self, name: str, size: int) -> None:
        self._data[name] = self._data[name][:size]

    def remove(self, name: str) -> None:
        self._data.pop(name, None)

    def names(self) -> list[str]:
        return sorted(self._data)
