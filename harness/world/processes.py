"""Child processes of a run: each in its own process group, with a log file, ended when its block ends.

Invariant: a child is in the ledger from the moment it exists. A tiny shell writes its own pid and start
time and then becomes the program, so not even a SIGKILL of ours between two lines leaves a process that
nobody knows of.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.clock import Deadline, wait_until
from harness.errors import WorldError
from harness.world.ledger import Ledger

__all__ = ["ChildProcess", "last_lines", "run_to_end"]

KILL_LIMIT_S = 5.0
"""How long a killed child may take to be gone."""
POLL_S = 0.02
NO_PROGRAM = 127
"""The status that `env` answers with when there is nothing of that name to run."""

ENROL_AND_BECOME = """\
owner=$1
shift
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ started _ </proc/$$/stat &&
printf '{"process":{"pid":%s,"started":%s}}\\n' "$$" "$started" >>"$0" &&
read -r _ _ _ parent _ </proc/$$/stat || exit 1
if [ "$parent" != "$owner" ]; then
    read -r first <"$0"
    case $first in *owner*) ;; *) rm -f "$0" ;; esac
    exit 1
fi
exec "$@"
"""
"""Run as `sh -c THIS ledger owner command...`.

Fields 4 and 22 of stat are the parent and the start time; field 2 is `(sh)`, one word. The order is the point: an
owner that lives after the line was written died after it, so its reaper reads the line. An owner that is gone by
then may have been reaped before: the program must not start, nor a ledger that was removed come back.
"""


class ChildProcess:
    """A running child. Mutable: it ends."""

    def __init__(self, popen: subprocess.Popen[bytes], *, name: str, log: Path) -> None:
        self._popen = popen
        self.name = name
        self.log = log

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        name: str,
        log: Path,
        ledger: Ledger,
        environment: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Start `command`; what it prints goes to `log`. Nothing secret may be in the command."""
        enrolled = (str(ledger.path), str(os.getpid()))
        with log.open("ab") as output:
            popen = subprocess.Popen(
                ["/bin/sh", "-c", ENROL_AND_BECOME, *enrolled, *_with(environment), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ledger.folder,
                start_new_session=True,  # Ctrl-C is for us: we heal and stop in order
            )
        return cls(popen, name=name, log=log)

    @property
    def pid(self) -> int:
        """Its process id, which is its process group too."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._popen.poll() is None

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait until `condition` holds; the child's end or the limit is an error with its last words."""
        deadline = Deadline(limit_s)
        wait_until(lambda: condition() or not self.alive, deadline=deadline, every_s=POLL_S)
        if not self.alive:
            raise WorldError(
                f"{self.name} ended with status {self._popen.returncode} while we waited for {what}"
                f"{self.last_words()}",
                fix="its log says why; `floodmark doctor` checks the rest",
            )
        if deadline.passed and not condition():
            raise WorldError(
                f"waited {limit_s:g} s for {what}, in vain{self.last_words()}",
                fix="free the machine's processor and disk, then try again",
            )

    def last_words(self) -> str:
        """The end of its log, for an error."""
        return last_lines(self.log)

    def stop(self, *, grace_s: float = 0.0) -> None:
        """End it: TERM if it has `grace_s` to go by itself, then KILL for its whole group."""
        if grace_s and self.alive:
            self._popen.terminate()
            wait_until(lambda: not self.alive, deadline=Deadline(grace_s), every_s=POLL_S)
        if self.alive:
            os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait(timeout=KILL_LIMIT_S)


def last_lines(log: Path, *, count: int = 8) -> str:
    """The last lines of a log, indented under the log's name."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = text.splitlines()[-count:]
    return f"\n  last lines of {log}:" + "".join(f"\n    {line}" for line in lines)


def run_to_end(
    command: Sequence[str],
    *,
    what: str,
    limit_s: float,
    fix: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command that ends by itself and return its output; a failure says what, and its last lines."""
    try:
        done = subprocess.run(
            [*_with({"LC_ALL": "C", **(environment or {})}), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WorldError(f"{what}: {command[0]} was not done after {limit_s:g} s", fix=fix) from error
    output = done.stdout.decode(errors="replace")
    if done.returncode == NO_PROGRAM:
        raise WorldError(f"{what}: there is no program {command[0]}", fix=fix)
    if done.returncode != 0:
        tail = "".join(f"\n    {line}" for line in output.splitlines()[-8:])
        raise WorldError(f"{what}: {command[0]} ended with status {done.returncode}{tail}", fix=fix)
    return output


def _with(environment: Mapping[str, str] | None) -> list[str]:
    """The command's head that sets these variables beside the inherited ones, and then becomes the rest."""
    return ["env", *(f"{name}={value}" for name, value in (environment or {}).items())]
