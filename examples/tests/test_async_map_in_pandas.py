"""Asyncio inside `mapInPandas`: an error of a lookup runs its batch again, and one that is left out loses its row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.tests.fire import EXAMPLES
from harness.system.errors import Exit

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]

FOLDER = EXAMPLES / "async_map_in_pandas"


@pytest.mark.parametrize(
    ("job", "code", "says"),
    [("job.toml", Exit.HOLD, "doubled 0"), ("skips_errors.toml", Exit.VIOLATION, "3 lost (V8 lost)")],
    ids=["right", "skips-errors"],
)
def test_a_lookup_that_fails_is_asked_again_or_its_row_is_lost(
    tmp_path: Path, job: str, code: Exit, says: str
) -> None:
    pytest.importorskip(
        "spark_pipeline_framework", reason="not in an extra of ours: see the example's README"
    )
    command = [
        sys.executable,
        "-m",
        "harness",
        "job",
        str(FOLDER / "lookups-fail.yaml"),
        "--job",
        str(FOLDER / job),
    ]

    done = subprocess.run(
        [*command, "--seed", "7", "--world", "local", "--quiet", "--report", str(tmp_path / "report")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, says in done.stdout) == (code, True), done.stdout + done.stderr
