"""Claims about determinism: what a script does depends on the script alone (D12)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reference_impl.tests import random_run

ROOT = Path(random_run.__file__).parents[2]


def transcript(*, hash_seed: int, run: int) -> bytes:
    """Of a run in a process of its own."""
    done = subprocess.run(
        [sys.executable, random_run.__file__, str(run)],
        cwd=ROOT,
        env={"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def test_the_same_run_in_two_processes_gives_the_same_bytes() -> None:
    first = transcript(hash_seed=1, run=7)

    assert transcript(hash_seed=2, run=7) == first
    assert len(first.splitlines()) > 300


def test_another_run_is_another_one() -> None:
    assert random_run.transcript(1) != random_run.transcript(2)
