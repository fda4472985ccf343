"""Peak memory of judging a file, in its own process: `python -m tools.bench.judging_memory FILE`.

Invariant: the number is this process's own, because Linux counts VmHWM from the start of the program.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.registry import CHECKERS
from tools.bench.answer import WrongOutput

_STATUS = Path("/proc/self/status")
_LIMIT_S = 3600


def peak_mb(path: Path, invariants: Sequence[str] = ()) -> float:
    """The peak in MB of a process that judges the file by these invariants (default: all)."""
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
    """Raise WrongOutput unless `judged` is a judgement without a failed or unknown invariant."""
    if not isinstance(judged, Judgement):
        raise WrongOutput(f"the history is malformed: {judged}")
    bad = [found for found in judged.invariants if found.outcome in {Outcome.FAIL, Outcome.UNKNOWN}]
    if bad:
        raise WrongOutput(f"the legal history is not acquitted: {bad}")


def main(words: Sequence[str]) -> int:
    """Judge the file and print the peak in kB."""
    names = words[1].split(",") if words[1:] else [checker.name for checker in CHECKERS]
    require_clean(judge_file(Path(words[0]), checkers=[c for c in CHECKERS if c.name in names]))
    peak = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    sys.stdout.write(peak.split()[1] + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
