"""The conversation: reads commands, writes events, and ends the answer to each command with `quiet`.

Documented in `docs/reference/sut-protocol.md`. Invariant: any line is answered by documented events and exactly one
`quiet`; a refused command has changed nothing, and no mail has run for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from harness.sut.serve.attempt import AttemptPhase, CommandedAttempt, Unwound
from harness.sut.serve.config import (
    Code,
    CommandFields,
    CommandRefused,
    a_bool,
    a_list,
    a_text,
    a_whole,
    anything,
    one_of,
    operator_config,
)
from harness.sut.serve.line import object_of, written
from harness.sut.serve.saved_state import elements_of
from harness.sut.serve.systems import System
from harness.system.versions import VERSION
from reference_impl.elements import LatencyMarker, OperatorInput, Record, Watermark, WatermarkStatus

PROTOCOL = 1

_FEEDS = frozenset({"element", "watermark", "status", "marker", "end_input"})
_ALWAYS = frozenset({"complete", "fail", "advance", "snapshot", "stats", "close"})
_TAKEN = {
    AttemptPhase.OPEN: _FEEDS | _ALWAYS | {"notify"},
    AttemptPhase.ADMITTING: _ALWAYS,
    AttemptPhase.DRAINING: _ALWAYS,
    AttemptPhase.ENDED: _ALWAYS | {"notify"},
    AttemptPhase.FAILED: frozenset({"stats", "close"}),
}
"""The commands that each phase of an attempt accepts."""
_ABILITY = {"snapshot": "snapshot", "notify": "snapshot", "status": "status", "marker": "marker"}
"""The ability that a command needs."""
COMMANDS = _FEEDS | _ALWAYS | {"hello", "open", "notify"}
_WHOLE = a_whole()
_QUIET = written({"ev": "quiet"})


class _EndOfConversation(Exception):
    """The input has ended."""


def converse(system: System, *, read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
    """Answers each line of `read` by `write`, until the input ends."""
    _Conversation(system, read, write).run()


class _Conversation:
    """The state of a conversation. Mutable."""

    def __init__(self, system: System, read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
        self._system = system
        self._read = read
        self._write_line = write
        self._greeted = False
        self._attempt: CommandedAttempt | None = None
        self._closing = False

    def run(self) -> None:
        try:
            while True:
                self._take_turn()
        except _EndOfConversation:
            return
        finally:
            if self._attempt is not None:
                self._attempt.leave()

    def _take_turn(self) -> None:
        """Performs one command, and those that arrive while it waits inside the operator."""
        try:
            self._perform_next()
            if self._attempt is not None:
                self._attempt.run()
        except (Unwound, _EndOfConversation) as over:
            if isinstance(over, _EndOfConversation):
                raise
        except OSError:
            raise  # from the pipes; the operator uses no files
        except Exception as error:  # noqa: BLE001 - any error of the operator fails the task
            assert self._attempt is not None, "without an attempt there is no operator"
            self._attempt.failed_with(error)
        if self._closing and self._attempt is not None:
            self._attempt.close()
            self._attempt, self._closing = None, False
        self._write_line(_QUIET)

    def _next_command(self) -> None:
        """Called inside a yield: ends the present command and performs the next one."""
        self._write_line(_QUIET)
        self._perform_next()

    def _perform_next(self) -> None:
        """Reads commands until one is performed; answers refused ones."""
        while True:
            line = self._read()
            if not line:
                raise _EndOfConversation
            try:
                self._perform(object_of(line))
            except CommandRefused as refusal:
                self._write({"ev": "error", "error": refusal.code.value, "message": str(refusal)})
                self._write_line(_QUIET)
            else:
                return

    def _perform(self, raw: dict[str, Any]) -> None:
        command = raw.pop("cmd", None)
        if not isinstance(command, str) or command not in COMMANDS:
            raise CommandRefused(Code.UNKNOWN_COMMAND, f"there is no command {str(command)[:60]!r}")
        self._require_state(command)
        needed = _ABILITY.get(command)
        if needed is not None and needed not in self._system.abilities:
            raise CommandRefused(Code.UNSUPPORTED, f"{command!r} is not among the abilities of this operator")
        fields = CommandFields(command, raw)
        hold = fields.take_or("hold", default=False, check=a_bool)
        if self._attempt is None:
            self._begin(command, fields, hold=hold)
        else:
            self._drive(self._attempt, command, fields, hold=hold)

    def _require_state(self, command: str) -> None:
        if not self._greeted:
            taken, when = frozenset({"hello"}), "before `hello`"
        elif self._attempt is None:
            taken, when = frozenset({"open"}), "while nothing is open"
        else:
            taken, when = _TAKEN[self._attempt.phase], f"while the operator is {self._attempt.phase.value}"
        if command not in taken:
            raise CommandRefused(Code.BAD_STATE, f"{command!r} is out of order {when}")

    def _begin(self, command: str, fields: CommandFields, *, hold: bool) -> None:
        if command == "hello":
            self._greet(fields)
            return
        config = operator_config(fields.take("config", anything), self._system.abilities)
        now_ms = fields.take("now", _WHOLE)
        restored = elements_of(fields.take("restore", anything))
        fields.end()
        self._attempt = CommandedAttempt(
            self._system, config, now_ms=now_ms, write=self._write, next_command=self._next_command
        )
        self._attempt.holding = hold
        self._attempt.replay(restored)

    def _greet(self, fields: CommandFields) -> None:
        protocol = fields.take("protocol", _WHOLE)
        fields.end()
        if protocol != PROTOCOL:
            raise CommandRefused(Code.UNSUPPORTED, f"this program speaks protocol {PROTOCOL}, not {protocol}")
        self._greeted = True
        self._write(
            {
                "ev": "hello",
                "protocol": PROTOCOL,
                "name": self._system.name,
                "version": VERSION,
                "abilities": list(self._system.abilities),
            }
        )

    def _drive(self, attempt: CommandedAttempt, command: str, fields: CommandFields, *, hold: bool) -> None:
        act = self._understand(attempt, command, fields)
        fields.end()
        attempt.holding = hold
        act()

    def _understand(
        self, attempt: CommandedAttempt, command: str, fields: CommandFields
    ) -> Callable[[], None]:
        """Checks a command and returns its act, which has not run yet."""
        match command:
            case "element" | "watermark" | "status" | "marker":
                return partial(attempt.process, _element(command, fields))
            case "complete" | "fail":
                return _outcome(attempt, command, fields)
            case "advance":
                return partial(attempt.advance, fields.take("to", a_whole(at_least=attempt.now_ms)))
            case "snapshot":
                return partial(attempt.snapshot, fields.take("id", _WHOLE))
            case "notify":
                fields.take("id", _WHOLE)
                fields.take("outcome", one_of("complete", "abort"))
                return _nothing
            case _:
                return {"end_input": attempt.end_input, "stats": attempt.stats, "close": self._close}[command]

    def _close(self) -> None:
        """Unwinds to the outermost frame, because the operator may be waiting in a yield."""
        self._closing = True
        raise Unwound

    def _write(self, event: dict[str, Any]) -> None:
        self._write_line(written(event))


def _element(command: str, fields: CommandFields) -> OperatorInput:
    match command:
        case "element":
            value, ts = fields.take("value", anything), fields.take("ts", a_whole(or_null=True))
            return Record(value=value, timestamp=ts)
        case "watermark":
            return Watermark(timestamp=fields.take("ts", _WHOLE))
        case "status":
            return WatermarkStatus(idle=fields.take("idle", a_bool))
        case _:
            return LatencyMarker(id=fields.take("id", _WHOLE))


def _outcome(attempt: CommandedAttempt, command: str, fields: CommandFields) -> Callable[[], None]:
    call = fields.take("call", _WHOLE)
    if command == "complete":
        act = partial(attempt.complete, call, fields.take("results", a_list))
    else:
        act = partial(attempt.fail, call, fields.take("error", a_text))
    attempt.require_call(call)
    return act


def _nothing() -> None:
    """The act of `notify`: the operator does nothing on completed or aborted checkpoints."""
