"""Files that are complete or not there (temporary file, flush to disk, rename), and folders for the time of a block.

Invariant: whatever ends the block, no reader ever sees half a file, and nothing temporary is left. Its name is drawn
before it is made, so that a Ctrl-C that arrives in between finds something to delete, or nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from harness.system.choices import fresh_secret
from harness.system.errors import WorldError

ANOTHER_REPORT: Final = "free some space, or name another folder with --report DIR"
"""What to do if a report's folder cannot be written."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets the name `path` when the block succeeds; its folder is made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{fresh_secret()[:8]}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def temporary_folder(prefix: str, *, parent: Path | None = None) -> Iterator[Path]:
    """A folder for the block, in `parent` or where the machine keeps temporary files. Raises OSError."""
    folder = (parent or Path(tempfile.gettempdir())) / f"{prefix}{fresh_secret()}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """A text, in UTF-8; what UTF-8 cannot hold (half a surrogate pair) is written as its escape. Raises OSError."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


@contextmanager
def disk_errors_told(refused: str, *, fix: str = ANOTHER_REPORT) -> Iterator[None]:
    """Turns an OSError of the block into a WorldError: `refused`, the reason, and the place if it says another."""
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename and str(error.filename) not in refused else ""
        raise WorldError(f"{refused}: {error.strerror or error}{place}", fix=fix) from error
