"""What judging a file takes at its peak, in a process of its own: `python -m tools.bench.judging_memory FILE`.

Invariant: the number is that process's own and nobody else's, for Linux counts it from the start of the program.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.checkers.judge import judge_file
from harness.checkers.registry import CHECKERS
from harness.verdict import Judgement, Outcome
from tools.bench.answer import WrongOutput

__all__ = ["main", "peak_mb", "require_clean"]

_STATUS = Path("/proc/self/status")
_LIMIT_S = 3600


def peak_mb(path: Path, invariants: Sequence[str] = ()) -> float:
    """The peak of a process that judges the file by these invariants, by default by all."""
    command = [
        sys.executable,
        "-m",
        "tools.bench.judging_memory",
        str(path),
        *filter(None, [",".join(invariants)]),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if answer.returncode:
        raise WrongOutput(answer.stderr)
    return int(answer.stdout) / 1024


def require_clean(judged: object) -> None:
    """Raise WrongOutput unless it is the judgement of a history in which nothing is wrong."""
    if not isinstance(judged, Judgement):
        raise WrongOutput(f"the history is malformed: {judged}")
    bad = [found for found in judged.invariants if found.outcome in {Outcome.FAIL, Outcome.UNKNOWN}]
    if bad:
        raise WrongOutput(f"a legal history is judged so: {bad}")


def main(words: Sequence[str]) -> int:
    """Judge, and print the peak in kB."""
    names = words[1].split(",") if words[1:] else [checker.name for checker in CHECKERS]
    require_clean(judge_file(Path(words[0]), checkers=[c for c in CHECKERS if c.name in names]))
    peak = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    sys.stdout.write(peak.split()[1] + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
