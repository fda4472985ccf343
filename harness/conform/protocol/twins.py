"""Two systems under test that get the same commands at the same time.

Invariant: both get a command before either is waited for; when one breaks the protocol both are ended, and the error
says which one it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from harness.conform.protocol.driver import Command, ProgramDriver, command_line
from harness.conform.protocol.events import Event, Hello, ProtocolBreach
from harness.conform.protocol.program import Limits, await_answers

Lines = Sequence[tuple[Command, bytes]]
"""Commands with their lines."""


class SideBreach(Exception):
    """One of the two broke the protocol; both were killed."""

    def __init__(self, breach: ProtocolBreach, *, left: bool) -> None:
        super().__init__(str(breach))
        self.breach = breach
        self.left = left


class Twins:
    """A pair of running programs, as a context manager. Mutable: they can be restarted after a breach."""

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
