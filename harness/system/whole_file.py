"""Writes files that are complete or not there: a temporary file beside the target, flush to disk, rename.

Invariant: whatever ends the writing, no reader ever sees half a file, and no temporary file is left.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from harness.system.errors import WorldError

ANOTHER_REPORT: Final = "free some space, or name another folder with --report DIR"
"""What to do if a report's folder cannot be written."""
_READABLE: Final = 0o644
"""Temporary files are readable only by their owner; what is written here is readable by all."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets the name `path` when the block succeeds; its folder is made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_READABLE)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
