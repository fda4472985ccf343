"""Turns a history from one form into another: `python -m harness.history.convert FROM TO`.

The suffixes choose the forms: `.jsonl`, `.jsonl.gz`, `.jsonl.zst`, `.arrow`, `.parquet`; no suffix: a folder with a
Parquet file for each subtask. Invariant: lossless, and streaming: memory does not grow with the history. Only the rules
for single lines are checked; the rules between events are checked when the history is judged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from shutil import rmtree

from harness.history.files import write
from harness.history.read import NeedsExactReader, open_history, read_whole
from harness.history.strict_json import integers_of_any_length
from harness.system.errors import Exit, FloodmarkError, UsageError


def convert(source: Path, target: Path) -> tuple[str, ...]:
    """Write the history of `source` to `target`, which must not exist; returns the warnings.

    Raises UsageError, and HistoryError where `source` is malformed; then nothing is left at `target`.
    """
    if target.exists():
        raise UsageError(f"{target} exists already", fix="name a file that does not exist")
    history = open_history(source)
    with integers_of_any_length():
        # Where the history is malformed, `read_whole` raises, with every breach.
        header = history.header or read_whole(source)[0]
        try:
            write(target, header, chain.from_iterable(history.batches()))
        except NeedsExactReader:
            if target.is_dir():
                rmtree(target)
            else:
                target.unlink()
            read_whole(source)
            raise
    return tuple(history.warnings)


def main(words: Sequence[str]) -> int:
    """The command line; exit codes as those of `floodmark check`."""
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
