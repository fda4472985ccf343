"""Turns a history from one form into another: `python -m harness.history.convert FROM TO`.

The ends of the two names say which: `.jsonl`, `.jsonl.gz`, `.jsonl.zst`, `.arrow`, `.parquet`. Invariant: lossless, and
streaming: memory does not grow with the history. Only the rules for a single line are checked; whether the
history as a whole keeps the format is the judge's to say.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from harness.errors import Exit, FloodmarkError, HarnessError, HistoryError, UsageError
from harness.history.fast_files import open_fast
from harness.history.fast_read import NotOrdinary
from harness.history.files import write
from harness.history.read import read_whole
from harness.history.strict_json import integers_of_any_length

__all__ = ["convert", "main"]


def convert(source: Path, target: Path) -> tuple[str, ...]:
    """Write the history of `source` to `target`, which must not exist; returns the warnings.

    Raises UsageError, and HistoryError where `source` is malformed; then nothing is left at `target`.
    """
    if target.exists():
        raise UsageError(f"{target} exists", fix="name a file that does not")
    history = open_fast(source)
    with integers_of_any_length():
        if history.header is None:
            raise _malformed(source, 1)
        try:
            write(target, history.header, chain.from_iterable(history.batches()))
        except NotOrdinary as odd:
            target.unlink()
            raise _malformed(source, odd.line) from odd
    return tuple(history.warnings)


def _malformed(source: Path, line: int) -> HistoryError:
    """All that is wrong with it."""
    try:
        read_whole(source)
    except HistoryError as error:
        return error
    raise HarnessError(f"line {line} of {source} is and is not malformed", fix="report it, with the file")


def main(words: Sequence[str]) -> int:
    """The command; the exit code as that of `floodmark check`."""
    if len(words) != 2:  # noqa: PLR2004  (from, to)
        sys.stderr.write("usage: python -m harness.history.convert FROM TO\n")
        return Exit.USAGE
    try:
        warnings = convert(Path(words[0]), Path(words[1]))
    except FloodmarkError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return Exit.HOLD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
