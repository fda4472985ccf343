"""Each way to die ends a process at once, as whoever reaps it sees; an exception is raised."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from harness.faults.kill_worker import EXIT_CODE, InjectedFailure, die

_DIE = """
import sys
from harness.faults.kill_worker import die
try: die(sys.argv[1], why='w', by='f')
finally: print('on')
"""


@pytest.mark.real
@pytest.mark.parametrize(
    ("how", "code"), [("sigkill", -signal.SIGKILL), ("sigsegv", -signal.SIGSEGV), ("exit", EXIT_CODE)]
)
def test_a_process_ends_without_another_step(how: str, code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", _DIE, how], capture_output=True, check=False, timeout=60)

    assert (ended.returncode, ended.stdout) == (code, b"")


def test_an_exception_says_which_fault_asked_for_it() -> None:
    with pytest.raises(InjectedFailure, match="fault kill at emit"):
        die("exception", why="fault kill at emit #3", by="kill")
