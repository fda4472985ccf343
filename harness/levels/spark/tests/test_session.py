"""The Spark session: when its block ends nothing of it is left, and the next one is a new one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.system.clock import Deadline, wait_until

pytestmark = pytest.mark.spark

GONE_S = 60.0

_TWO_SESSIONS = """
import json, sys, psutil
from pathlib import Path
from harness.levels.spark.session import spark_session
noted, seen = [], []
for name in ("one", "two"):
    with spark_session(slots=2, folder=Path(sys.argv[1]) / name, note_process=noted.append) as session:
        assert session.range(10).count() == 10
        seen += [p.pid for p in psutil.Process().children(recursive=True)]
    left = [p.pid for p in psutil.Process().children(recursive=True)]
print(json.dumps([noted, seen, left]))
"""


@pytest.mark.timeout(300)  # the start of two JVMs
def test_a_session_says_nothing_leaves_no_process_and_the_next_has_a_machine_of_its_own(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", _TWO_SESSIONS, str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert all((tmp_path / name / "jvm.log").exists() for name in ("one", "two"))
    noted, seen, left = json.loads(done.stdout)
    assert len(set(noted)) == 2
    assert set(noted) <= set(seen)
    assert not set(left) & set(noted)
    gone = wait_until(lambda: not any(map(psutil.pid_exists, seen)), deadline=Deadline(GONE_S))
    assert gone, [pid for pid in seen if psutil.pid_exists(pid)]
