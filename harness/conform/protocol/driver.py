"""Drives one system under test: sends commands and returns the validated events of each answer.

Answers to Maelstrom's client of a node. Invariant: every returned event was checked in shape (`events`) and in place
(`conversation`); after a `ProtocolBreach` the program and its process group are gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from harness.conform.protocol.conversation import PROTOCOL, Conversation, ConversationPhase, Misplaced
from harness.conform.protocol.events import (
    BreachKind,
    ErrorAnswer,
    Event,
    Hello,
    MalformedEvent,
    ProtocolBreach,
    read_event,
    shortened,
)
from harness.conform.protocol.program import Limits, Program, await_answers

Command = Mapping[str, Any]
"""One command as it is written: `{"cmd": "watermark", "ts": 3}`."""

_encode = msgspec.json.Encoder().encode


class ProgramDriver:
    """A conversation with one program, as a context manager.

    It ends the program in order, or kills it after an error.
    """

    def __init__(self, argv: Sequence[str], *, limits: Limits | None = None) -> None:
        self.program = Program(argv, limits=limits or Limits())
        self.conversation = Conversation()
        self._expected: list[tuple[Command, bytes]] = []
        self._validated_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.program.gone:
            self.program.end()
        else:
            self.program.kill()

    def greet(self) -> Hello:
        """Send `hello` (once); returns the system's answer."""
        for answer in self.tell({"cmd": "hello", "protocol": PROTOCOL}):
            if isinstance(answer, Hello):
                return answer
            said = answer.message if isinstance(answer, ErrorAnswer) else "nothing"
            raise self.program.breach(f"refuses `hello`: {said}", kind=BreachKind.STATE)
        raise AssertionError("a `hello` without its event is a breach")

    def tell(self, command: Command) -> list[Event]:
        """Send one command; returns its events."""
        return self.tell_all([command])[0]

    def tell_all(self, commands: Sequence[Command]) -> list[list[Event]]:
        """Send all commands before the first answer is read; returns the events of each."""
        self.program.listen()
        self.send([(command, command_line(command)) for command in commands])
        await_answers(self.program)
        return self.receive(len(commands))

    def tell_raw(self, line: bytes) -> list[Event]:
        """Send a line that need not be a command; only a refusal is a correct answer."""
        self.program.listen()
        self.send([({}, line)])
        await_answers(self.program)
        return self.receive(1)[0]

    def tell_line(self, line: str) -> list[str]:
        """Send a line as it stands, be it a command or not; returns the lines of its answer, validated."""
        self.program.listen()
        sent = line.encode() + b"\n"
        self.program.feed(sent, commands=1)
        await_answers(self.program)
        (answer,) = self.program.take(1)
        self._validated(command_in(line), sent, answer)
        return [event.decode() for event in answer]

    def send(self, commands: Sequence[tuple[Command, bytes]]) -> None:
        """Send commands with their lines, without waiting; follow with `await_answers` and `receive`."""
        self._expected.extend(commands)
        self.program.feed(b"".join([line for _, line in commands]), commands=len(commands))

    def receive(self, count: int) -> list[list[Event]]:
        """The first `count` answers that have come, validated."""
        answers = self.program.take(count)
        asked, self._expected = self._expected[: len(answers)], self._expected[len(answers) :]
        return [self._validated(*ask, lines) for ask, lines in zip(asked, answers, strict=True)]

    def _validated(self, command: Command, sent: bytes, lines: list[bytes]) -> list[Event]:
        line = b""
        self._validated_count += 1
        try:
            events = [read_event(line := raw) for raw in lines]
            self.conversation.follow(command, events)
        except MalformedEvent as error:
            what, kind = f"wrote a line that is not an event ({error})", BreachKind.NONSENSE
        except Misplaced as error:
            what, kind = f"wrote an event that is not allowed here: {error}", BreachKind.STATE
        else:
            return events
        what = f"{what}; the command was {shortened(sent.strip())}"
        raise self.program.breach(what, kind=kind, line=line, command=self._validated_count)

    @property
    def phase(self) -> ConversationPhase:
        """The state of the conversation."""
        return self.conversation.phase


def command_in(line: str) -> Command:
    """The command that a line is; empty for one that can only be refused."""
    try:
        command = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return command if isinstance(command, dict) else {}


def command_line(command: Command) -> bytes:
    """The line of a command."""
    return _encode(command) + b"\n"


Lines = Sequence[tuple[Command, bytes]]
"""Commands with their lines."""


class SideBreach(Exception):
    """One of the two broke the protocol; both were killed."""

    def __init__(self, breach: ProtocolBreach, *, left: bool) -> None:
        super().__init__(str(breach))
        self.breach = breach
        self.left = left


class Twins:
    """A pair of running programs, as a context manager. Mutable: they can be restarted after a breach.

    Both get a command before either is waited for.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str], *, limits: Limits | None = None) -> None:
        self._argvs = (left, right)
        self._limits = limits
        self.hellos: tuple[Hello, Hello]
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.left.program.end()
                self.right.program.end()
        finally:
            self.kill()

    def start(self) -> None:
        """Start both and send `hello`."""
        self.left = ProgramDriver(self._argvs[0], limits=self._limits)
        try:
            self.right = ProgramDriver(self._argvs[1], limits=self._limits)
        except ProtocolBreach:
            self.left.program.kill()
            raise
        try:
            self.hellos = (self.left.greet(), self.right.greet())
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        self.left.program.kill()
        self.right.program.kill()

    def send(self, left: Lines, right: Lines) -> None:
        """Send commands to both, without waiting."""
        self.left.send(left)
        self.right.send(right)

    def receive(self, count: int, *, owing: int = 0) -> tuple[list[list[Event]], list[list[Event]]]:
        """Wait for the first `count` answers of both; up to `owing` later ones may still be missing."""
        try:
            await_answers(self.left.program, self.right.program, owing=owing)
            return self.left.receive(count), self.right.receive(count)
        except ProtocolBreach as breach:
            broken_left = self.left.program.gone
            self.kill()
            raise SideBreach(breach, left=broken_left) from breach

    def tell(self, left: Command, right: Command) -> tuple[list[Event], list[Event]]:
        """Send one command to each; returns both answers."""
        self.send([(left, command_line(left))], [(right, command_line(right))])
        ours, theirs = self.receive(1)
        return ours[0], theirs[0]
