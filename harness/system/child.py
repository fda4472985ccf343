"""Child processes: started, talked to by lines, asked for their last words, ended within a limit.

Answers to `subprocess.Popen`, which nothing else of the harness calls. What cannot be a program of its own is forked:
by `harness.system.forked`, by a pool, and by the fork server of level live. Invariants: a child leads a session of its
own, so Ctrl-C at the terminal reaches the harness only, which then heals faults and ends children in order; no signal
is sent to a child that was reaped, since its pid may be another's; every wait for its end has a limit.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from types import TracebackType
from typing import IO, Final, Self

from harness.system.clock import Deadline, wait_until
from harness.system.errors import OutlivesSigkill, WorldError

PYTHON: Final = (sys.executable, "-P", "-m")
"""Runs a module of ours. -P: the current folder, where a `harness` of the user's may be, does not come first."""
KILL_LIMIT_S: Final = 5.0
"""How long a killed child may take to end."""
_POLL_S: Final = 0.02
_NO_PROGRAM: Final = 127
"""The exit status of `env` when the program does not exist."""
_end_now = os._exit
"""Kept, because the attribute is another one while user code is imported (`harness.sut.user_code`)."""


class Child:
    """A child process. Mutable: it ends, at the latest with the block of a `with`, and then its pipes are closed."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str = "",
        talks: bool = False,
        output: Path | int = DEVNULL,
        errors: Path | int | None = STDOUT,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start `command`; `talks`: its input is a pipe. A path is a log that is appended to. Raises OSError."""
        self.name = name or "".join(command[:1])
        self.log = next((path for path in (output, errors) if isinstance(path, Path)), Path(os.devnull))
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                command,
                stdin=PIPE if talks else DEVNULL,
                stdout=log if isinstance(output, Path) else output,
                stderr=log if isinstance(errors, Path) else errors,
                cwd=cwd,
                env=environment,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        """Also the number of its process group."""
        self.input, self.output, self.errors = self._popen.stdin, self._popen.stdout, self._popen.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.kill()
        self.close_pipes()
        self._await_death()

    # ------------------------------------------------------------------------------------- lines

    def send(self, lines: bytes) -> None:
        """Write to its input; nothing if it has died, which `code` shows, or its input was closed."""
        assert self.input is not None, "it was started with a pipe"
        with suppress(BrokenPipeError, ValueError):
            self.input.write(lines)
            self.input.flush()

    def lines(self, *, silent_s: float | None = None) -> Iterator[bytes]:
        """The whole lines that it writes, until it ends or is silent for too long."""
        assert self.output is not None, "it was started with a pipe"
        rest = b""
        while select.select([self.output], [], [], silent_s)[0]:
            read = os.read(self.output.fileno(), 1 << 16)
            if not read:
                return
            *whole, rest = (rest + read).split(b"\n")
            yield from whole

    def last_lines(self, count: int) -> list[str]:
        """The last lines of its log."""
        return _last_lines(self.log.read_text(errors="replace") if self.log.exists() else "", count)

    def last_words(self) -> str:
        """The last lines of its log, for an error message."""
        return f"\n  last lines of {self.log}:" + "".join(f"\n    {line}" for line in self.last_lines(8))

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait until `condition` holds.

        Raises WorldError with the end of its log if the child ends or the limit passes.
        """
        deadline = Deadline(limit_s)
        wait_until(lambda: condition() or not self.alive, deadline=deadline, every_s=_POLL_S)
        if not self.alive:
            raise WorldError(
                f"{self.name} ended with status {self.code} while we waited for {what}{self.last_words()}",
                fix="its log says why; `floodmark doctor` checks the rest",
            )
        if deadline.passed and not condition():
            raise WorldError(
                f"waited {limit_s:g} s for {what}, but it did not happen{self.last_words()}",
                fix="free the machine's processor and disk, then try again",
            )

    # --------------------------------------------------------------------------------------- end

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None: it has not ended."""
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        return self.code is None

    @property
    def is_reaped(self) -> bool:
        """Whether its end was already taken in; does not look whether it has ended since."""
        return self._popen.returncode is not None

    def wait(self, limit_s: float) -> int | None:
        """The exit code; None: it has not ended after `limit_s`."""
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(timeout=limit_s)
        return None

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        self._popen.kill()

    def kill_group(self) -> None:
        """Kill its whole process group and reap it; nothing if it was reaped."""
        if not self.is_reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._await_death()

    def stop(self, *, grace_s: float = 0.0) -> None:
        """End it: SIGTERM if there is a `grace_s`, then SIGKILL for its whole process group."""
        if grace_s and self.alive:
            self.signal(signal.SIGTERM)
            wait_until(lambda: not self.alive, deadline=Deadline(grace_s), every_s=_POLL_S)
        if self.alive:
            self.kill_group()

    def end(self, *, grace_s: float, limit_s: float = KILL_LIMIT_S) -> bool:
        """Close its input, by which it ends, and kill it after `grace_s`; whether it ends `limit_s` after that."""
        self.close_pipes(self.input)
        if self.wait(grace_s) is not None:
            return True
        self.kill()
        return self.wait(limit_s) is not None

    def close_pipes(self, *pipes: IO[bytes] | None) -> None:
        """Close these, or all."""
        for pipe in pipes or (self.input, self.output, self.errors):
            with suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()

    def _await_death(self) -> None:
        if self.wait(KILL_LIMIT_S) is None:
            raise OutlivesSigkill(f"{self.name} has not ended", [self.pid])


# ---------------------------------------------------------------------------------- in a child of ours


def pipe_to_parent() -> IO[bytes]:
    """The pipe that is the standard output of this child; what it prints from now on goes to standard error."""
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return pipe


def end_with_parent() -> None:
    """End this child when its standard input ends, which means that the harness died; all lines were read before.

    Reads the bare descriptor, because a thread blocked in a buffered reader would abort the interpreter's exit.
    """

    def wait() -> None:
        os.read(0, 1)
        _end_now(1)

    threading.Thread(target=wait, daemon=True).start()


# ---------------------------------------------------------------------------------- commands that end


def answer_of(
    command: Sequence[str], *, limit_s: float, says: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The output of a command that reads `says`. Raises OSError if it cannot run, TimeoutExpired after `limit_s`."""
    return subprocess.run(
        command,
        input=says,
        capture_output=True,
        env=environment,
        timeout=limit_s,
        check=False,
        text=True,
        errors="replace",
    )


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
            [*with_variables({"LC_ALL": "C", **(environment or {})}), *command],
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            cwd=cwd,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WorldError(f"{what}: {command[0]} did not end within {limit_s:g} s", fix=fix) from error
    output = done.stdout.decode(errors="replace")
    if done.returncode == _NO_PROGRAM:
        raise WorldError(f"{what}: the program {command[0]} does not exist", fix=fix)
    if done.returncode != 0:
        tail = "".join(f"\n    {line}" for line in _last_lines(output, 8))
        raise WorldError(f"{what}: {command[0]} ended with status {done.returncode}{tail}", fix=fix)
    return output


def with_variables(environment: Mapping[str, str] | None) -> list[str]:
    """A command prefix that adds these variables to the inherited environment."""
    return ["env", *(f"{name}={value}" for name, value in (environment or {}).items())]


def _last_lines(text: str, count: int) -> list[str]:
    return text.rstrip().splitlines()[-count:]
