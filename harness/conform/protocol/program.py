"""A program on three pipes: sends lines, receives answers; nothing it does is trusted, everything is bounded.

Answers to Maelstrom's process of a node. One thread: a common `poll` serves any number of programs, so that two of
them work at the same time. When a call of this module raises, the program and its process group are gone. While it
waits, every pipe is served, so that a full pipe cannot block both sides. Every wait and buffer is bounded by a field
of `Limits`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from subprocess import PIPE
from typing import IO, Any

from harness.conform.protocol.events import (
    BreachKind,
    MalformedEvent,
    ProtocolBreach,
    Quiet,
    read_event,
    shortened,
)
from harness.system.child import Child
from harness.system.clock import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one program; the defaults allow for a JVM's start and states of 10^5 elements."""

    start_s: float = 60.0
    """The limit from its start to its first answer."""
    answer_s: float = 30.0
    """The limit from a command (or the previous answer) to the complete answer."""
    exit_s: float = 10.0
    """The limit from the end of its input to its exit."""
    line_bytes: int = 64 << 20
    """Bytes of one line."""
    answer_bytes: int = 512 << 20
    """Bytes of one command's answer."""
    events: int = 1_000_000
    """Lines of one command's answer."""
    last_words_bytes: int = 2_000
    """How much of standard error is kept for messages; all of it is read."""


QUIET = b'{"ev":"quiet"}'
QUIET_BYTES_MAX = 100
"""A `quiet` may contain spaces, but a longer line is not checked for being one."""


class AnswerLimit(Exception):
    """The program wrote more than a limit allows; the message says which."""


class AnswerSplitter:
    """Splits a program's output into lines, and lines into answers, each ended by a `quiet`.

    Holds at most one line and one answer more than its limits allow. Mutable.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[bytes] = []
        """The pieces of an unfinished line."""
        self._piece_bytes = 0
        self._answer: list[bytes] = []
        self._answer_bytes = 0
        self._answers: list[list[bytes]] = []
        self.last_line = b""

    @property
    def cut_off(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._pieces)

    def spoke_out_of_turn(self) -> bool:
        """Whether there is output after the last `quiet`."""
        return bool(self._pieces or self._answer)

    def take(self, count: int) -> list[list[bytes]]:
        """Remove and return the first complete answers."""
        taken, self._answers = self._answers[:count], self._answers[count:]
        return taken

    def split(self, chunk: bytes) -> int:
        """Take in a chunk; returns how many answers it completed."""
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        self._piece_bytes += len(first)
        if self._piece_bytes > self._limits.line_bytes:
            self.last_line = self._pieces[0]
            raise AnswerLimit(f"wrote more than {self._limits.line_bytes} bytes without a line feed")
        if not others:
            if not first:
                self._pieces.pop()
            return 0
        lines = [b"".join(self._pieces), *others]
        rest = lines.pop()
        self._pieces = [rest] if rest else []
        self._piece_bytes = len(rest)
        whole = 0
        for line in lines:
            if line == QUIET or (b'"quiet"' in line and _is_quiet(line)):
                self._answers.append(self._answer)
                self._answer = []
                self._answer_bytes = 0
                whole += 1
            else:
                self._answer.append(line)
                self._answer_bytes += len(line)
        self.last_line = lines[-1]
        if len(self._answer) > self._limits.events:
            raise AnswerLimit(f"wrote more than {self._limits.events} events for one command")
        if self._answer_bytes > self._limits.answer_bytes:
            raise AnswerLimit(f"wrote more than {self._limits.answer_bytes} bytes for one command")
        return whole


def _is_quiet(line: bytes) -> bool:
    if len(line) > QUIET_BYTES_MAX:
        return False
    try:
        return type(read_event(line)) is Quiet
    except MalformedEvent:
        return False


CHUNK = 1 << 18
PIPE_BYTES = 1 << 20
"""Requested size of each pipe, so that a batch of commands fits and both programs work without waiting for us."""
SLICE_MS = 50
"""How long a wait goes on before it checks whether the program lives (a child may hold its pipes open)."""


class Program:
    """A running program. Mutable."""

    def __init__(self, argv: Sequence[str], *, limits: Limits) -> None:
        """Start it in a process group of its own."""
        self.name = _named(argv)
        self.limits = limits
        try:
            self._child = Child(argv, talks=True, output=PIPE, errors=PIPE)
        except (OSError, ValueError, IndexError) as error:
            raise ProtocolBreach(
                f"{self.name} cannot be started: {error}",
                kind=BreachKind.START,
                command=0,
                fix="name a program that you may run, with its arguments",
            ) from error
        self.pid = self._child.pid
        """Its process id, which is also its process group."""
        pipes = (self._child.input, self._child.output, self._child.errors)
        self._in, self._out, self._err = (_bounded(pipe) for pipe in pipes)
        self._outgoing: deque[memoryview] = deque()
        self._splitter = AnswerSplitter(limits)
        self._last_words = b""
        self._err_open = True
        self._out_open = True
        self._told = 0
        self._answered = 0
        self._deadline = Deadline(limits.start_s)

    @property
    def gone(self) -> bool:
        """Whether it has ended and was reaped."""
        return self._child.is_reaped

    @property
    def owed(self) -> int:
        """How many answers are still expected."""
        return self._told - self._answered

    def listen(self) -> None:
        """Call before a command: raises if it wrote something since its last answer."""
        self._require_running()
        self._poll_alone(0)
        self.check(idle=False)

    def feed(self, lines: bytes, *, commands: int) -> None:
        """Queue `commands` lines, and write what the pipe takes at once."""
        self._require_running()
        if not self.owed and self._told:
            self._deadline = Deadline(self.limits.answer_s)
        self._told += commands
        self._outgoing.append(memoryview(lines))
        self._write()

    def take(self, count: int) -> list[list[bytes]]:
        """Remove and return the first answers, each a list of lines without its `quiet`."""
        return self._splitter.take(count)

    def end(self) -> None:
        """Close its input and wait for its exit."""
        self._outgoing.clear()
        self._child.close_pipes(self._child.input)
        deadline = Deadline(self.limits.exit_s)
        while not self._has_exited():
            if deadline.passed:
                raise self.breach(
                    f"still runs {self.limits.exit_s:g} s after its input was closed", kind=BreachKind.HANG
                )
            self._poll_alone(min(SLICE_MS, round(deadline.left_s * 1000)))
        self._read_rest()
        if self._splitter.spoke_out_of_turn():
            raise self.breach("wrote after its input was closed", kind=BreachKind.TURN)
        self.kill()

    def kill(self) -> None:
        """Kill its whole process group and close the pipes. May be called repeatedly."""
        self._child.kill_group()
        self._child.close_pipes()

    def breach(
        self, what: str, *, kind: BreachKind, line: bytes | None = None, command: int | None = None
    ) -> ProtocolBreach:
        """Kill the program and return the error; `command` defaults to the next one to be answered."""
        self.kill()
        command = self._answered + 1 if command is None else command
        said = line if line is not None else self._splitter.last_line
        words = self._last_words.decode(errors="backslashreplace").strip()
        return ProtocolBreach(
            f"{self.name} {what}, at command {command} of {self._told}"
            + (f"\n  its last line: {shortened(said)}" if said else "")
            + (f"\n  on standard error: {words}" if words else ""),
            kind=kind,
            command=command,
        )

    # ------------------------------------------------------------ the pump's side

    def interests(self) -> list[tuple[int, int]]:
        """The pipes to poll, with the events."""
        wanted = [(self._in, select.POLLOUT)] if self._outgoing else []
        if self._out_open:
            wanted.append((self._out, select.POLLIN))
        if self._err_open:
            wanted.append((self._err, select.POLLIN))
        return wanted

    def serve(self, pipe: int) -> bool:
        """Serve a pipe if it belongs to this program."""
        if pipe == self._out:
            self._read_answers()
        elif pipe == self._err:
            chunk = _read(self._err)
            self._err_open = chunk != b""
            self._last_words = (self._last_words + (chunk or b""))[-self.limits.last_words_bytes :]
        elif pipe == self._in:
            self._write()
        else:
            return False
        return True

    def check(self, *, idle: bool) -> None:
        """Raise a breach if no answer can be expected any more; `idle`: a whole slice passed without a byte."""
        if not self.owed:
            if self._splitter.spoke_out_of_turn():
                raise self.breach("wrote more after its `quiet`, without a command", kind=BreachKind.TURN)
            if self._outgoing:
                raise self.breach("answered commands that it cannot have read", kind=BreachKind.TURN)
        elif not self._out_open or (idle and self._has_exited()):
            raise self._ended_early()
        elif self._deadline.passed:
            raise self.breach(f"gave no answer in {self._deadline.seconds:g} s", kind=BreachKind.HANG)

    @property
    def left_s(self) -> float:
        """Seconds until its answer is late."""
        return self._deadline.left_s

    def _require_running(self) -> None:
        if self.gone:
            raise self.breach("has ended before, and can get no more commands", kind=BreachKind.DEATH)

    def _ended_early(self) -> ProtocolBreach:
        """The error for a program whose output has ended: it died, or closed its output."""
        deadline = Deadline(SLICE_MS * 2 / 1000)
        while not self._has_exited() and not deadline.passed:
            self._poll_alone(5)
        self._read_rest()
        if not self._has_exited():
            return self.breach("closed its standard output", kind=BreachKind.DEATH)
        cut = " in the middle of a line" if self._splitter.cut_off else ""
        self.kill()
        return self.breach(f"died{cut} (status {self._child.code})", kind=BreachKind.DEATH)

    def _poll_alone(self, wait_ms: int) -> bool:
        """Read its output for a while, outside of a common poll."""
        poll = select.poll()
        for pipe, wanted in self.interests():
            if pipe != self._in:
                poll.register(pipe, wanted)
        ready = poll.poll(wait_ms)
        for pipe, _ in ready:
            self.serve(pipe)
        return bool(ready)

    def _read_rest(self) -> None:
        """Read what is left in its pipes; bounded, since a child of it may go on writing."""
        any(not self._poll_alone(0) for _ in range(2 * PIPE_BYTES // CHUNK + 2))

    def _write(self) -> None:
        while self._outgoing:
            head = self._outgoing[0]
            try:
                written = os.write(self._in, head)
            except BlockingIOError:
                return
            except OSError:  # it reads no more; its output and its end show why
                self._outgoing.clear()
                return
            if written == len(head):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = head[written:]

    def _read_answers(self) -> None:
        chunk = _read(self._out)
        self._out_open = chunk != b""
        if not chunk:
            return
        try:
            came = self._splitter.split(chunk)
        except AnswerLimit as flood:
            raise self.breach(str(flood), kind=BreachKind.FLOOD) from None
        if came:
            self._answered += came
            self._deadline = Deadline(self.limits.answer_s)
            if self._answered > self._told:
                self._answered = self._told
                raise self.breach("wrote a `quiet` without a command to answer", kind=BreachKind.TURN)

    def _has_exited(self) -> bool:
        """Whether it has ended; does not reap it, so its id keeps naming its process group."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self.gone or os.waitid(os.P_PID, self.pid, flags) is not None


def await_answers(*programs: Program, owing: int = 0) -> None:
    """Serve the pipes of all programs until each owes at most `owing` answers."""
    idle = False
    while True:
        for program in programs:
            program.check(idle=idle)
        if not any(program.owed > owing for program in programs):
            return
        poll = select.poll()
        for program in programs:
            for pipe, wanted in program.interests():
                poll.register(pipe, wanted)
        left_s = min(program.left_s for program in programs if program.owed)
        ready = poll.poll(min(SLICE_MS, round(left_s * 1000) + 1))
        idle = not ready
        for pipe, _ in ready:
            any(program.serve(pipe) for program in programs)


def _bounded(pipe: IO[bytes] | None) -> int:
    """Make the pipe non-blocking and as large as the kernel allows; its descriptor."""
    assert pipe is not None, "every pipe was asked for"
    os.set_blocking(pipe.fileno(), False)
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return pipe.fileno()


def _read(pipe: int) -> bytes | None:
    """The available bytes; None if there are none now, empty at the end."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None


def _named(argv: Sequence[str]) -> str:
    words: list[Any] = [*argv]
    return shortened(" ".join(str(word) for word in words)) or "(no program)"
