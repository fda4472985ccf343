"""Child processes of a run: each in its own process group, with a log file.

Invariant: a child is in the ledger from its beginning. A small shell writes its own pid and start time into the ledger
and then becomes the program, so a SIGKILL of this process at any moment leaves no unlisted child.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.world.ledger import Ledger

KILL_LIMIT_S = 5.0
"""How long a killed child may take to end."""
POLL_S = 0.02
NO_PROGRAM = 127
"""The exit status of `env` when the program does not exist."""

ENROL_AND_BECOME = """\
owner=$1
shift
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ started _ </proc/$$/stat &&
printf '{"process":{"pid":%s,"started":%s}}\\n' "$$" "$started" >>"$0" &&
read -r first <"$0" || exit 1
case $first in *owner*) ;; *) rm -f "$0"; exit 1 ;; esac
read -r _ _ _ parent _ </proc/$$/stat || exit 1
[ "$parent" = "$owner" ] || exit 1
exec "$@"
"""
"""Run as `sh -c THIS ledger owner command...`.

Fields 4 and 22 of stat are the parent and the start time; field 2 is `(sh)`, one word. The order matters: if the owner
is still the parent after the line was written, a reaper of the dead owner will read the line. If the owner is gone by
then, or has closed its ledger (renamed it, so that this line stands in a new file), the program must not start, and a
removed ledger must not reappear.
"""


class ChildProcess:
    """A child process. Mutable: it ends."""

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
        """Start `command`; its output goes to `log`. The command must not contain secrets."""
        enrolled = (str(ledger.path), str(os.getpid()))
        with log.open("ab") as output:
            popen = subprocess.Popen(
                ["/bin/sh", "-c", ENROL_AND_BECOME, *enrolled, *_with(environment), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ledger.folder,
                # Ctrl-C reaches this process only, which then heals faults and stops children in order
                start_new_session=True,
            )
        return cls(popen, name=name, log=log)

    @property
    def pid(self) -> int:
        """Its process id, which is also its process group."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait until `condition` holds.

        Raises WorldError with the end of its log if the child ends or the limit passes.
        """
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
                f"waited {limit_s:g} s for {what}, but it did not happen{self.last_words()}",
                fix="free the machine's processor and disk, then try again",
            )

    def last_words(self) -> str:
        """The last lines of its log, for an error message."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = text.splitlines()[-8:]
        return f"\n  last lines of {self.log}:" + "".join(f"\n    {line}" for line in lines)

    def stop(self, *, grace_s: float = 0.0) -> None:
        """End it: SIGTERM if there is a `grace_s`, then SIGKILL for its whole process group."""
        if grace_s and self.alive:
            self._popen.terminate()
            wait_until(lambda: not self.alive, deadline=Deadline(grace_s), every_s=POLL_S)
        if self.alive:
            os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait(timeout=KILL_LIMIT_S)


def run_to_end(
    command: Sequence[str],
    *,
    what: str,
    limit_s: float,
    fix: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command to its end and return its output. Raises WorldError with its last lines if it fails."""
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
        raise WorldError(f"{what}: {command[0]} did not end within {limit_s:g} s", fix=fix) from error
    output = done.stdout.decode(errors="replace")
    if done.returncode == NO_PROGRAM:
        raise WorldError(f"{what}: the program {command[0]} does not exist", fix=fix)
    if done.returncode != 0:
        tail = "".join(f"\n    {line}" for line in output.splitlines()[-8:])
        raise WorldError(f"{what}: {command[0]} ended with status {done.returncode}{tail}", fix=fix)
    return output


def _with(environment: Mapping[str, str] | None) -> list[str]:
    """A command prefix that adds these variables to the inherited environment."""
    return ["env", *(f"{name}={value}" for name, value in (environment or {}).items())]
