"""The conversation: reads commands, writes events, and ends the answer to each command with `quiet`.

Documented in `docs/reference/sut-protocol.md`. Invariant: any line is answered by documented events and exactly one
`quiet`; a refused command has changed nothing, and no mail has run for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any

from harness.sut.serve.config import (
    Code,
    CommandFields,
    CommandRefused,
    OperatorConfig,
    a_bool,
    a_list,
    a_text,
    a_whole,
    a_whole_or_null,
    anything,
    one_of,
    operator_config,
)
from harness.sut.serve.line import elements_of, object_of, shown, written
from harness.sut.serve.systems import ScriptedFunction, System
from harness.system.json_types import Json
from harness.system.versions import VERSION
from reference_impl.elements import (
    LatencyMarker,
    OperatorInput,
    QueueElement,
    Record,
    Watermark,
    WatermarkStatus,
)
from reference_impl.errors import CallbackFailed, CallTimedOut, StreamElementFailed
from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.mailbox.mailbox import MIN_PRIORITY, Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers

_PRIORITY = 0
"""The operator's position in its chain; there is only one operator."""

Event = dict[str, Any]


class AttemptPhase(Enum):
    """The state of the attempt, which decides what commands it accepts."""

    OPEN = "open"
    ADMITTING = "waiting for capacity"
    DRAINING = "draining"
    ENDED = "at the end of its input"
    FAILED = "failed"


class Unwound(Exception):
    """Internal: the attempt is over, so calls that wait inside the operator are unwound."""


class CommandedAttempt:
    """An operator that is driven by commands. Mutable."""

    def __init__(
        self,
        system: System,
        config: OperatorConfig,
        *,
        now_ms: int,
        write: Callable[[Event], None],
        next_command: Callable[[], None],
    ) -> None:
        self.phase = AttemptPhase.OPEN
        self.holding = False
        """Whether the present command has `hold`, so that no mail runs."""
        self._write_event = write
        self._next_command = next_command
        self._loop = VirtualLoop(start_ms=now_ms)
        self._mailbox = Mailbox(loop=self._loop)
        executor = _CommandedExecutor(self._mailbox, _PRIORITY, self)
        self._timers = Timers(self._loop, executor)
        self.function = ScriptedFunction(config, self._write)
        self._advancing_to: int | None = None
        self._blocked = False
        """Whether `blocked` was sent and `unblocked` not yet."""
        self._due_snapshots: list[int] = []
        self._operator = system.build(
            config,
            function=self.function,
            executor=executor,
            timers=self._timers,
            emit=self._emit,
            fail=self.fail_task,
            probe=self.function,
        )

    @property
    def now_ms(self) -> int:
        """Virtual time."""
        return self._loop.now_ms()

    def replay(self, restored: Sequence[QueueElement]) -> None:
        """Opens the operator with the elements of a snapshot."""
        self._admit(lambda: self._operator.open(restored))

    def process(self, element: OperatorInput) -> None:
        """Passes an element of the source to the operator."""
        self._admit(lambda: self._operator.process(element))

    def advance(self, to_ms: int) -> None:
        """Advances the clock: with `hold` at once, otherwise timer by timer whenever the mailbox is empty.

        The first step belongs to the command: mail that is pending runs at that time, before its timers.
        """
        self._advancing_to = to_ms
        steps_on = self._step_time()
        while steps_on and self.holding:
            steps_on = self._step_time()

    def snapshot(self, number: int) -> None:
        """Takes a snapshot; while an element waits or the operator drains, directly after that."""
        self._due_snapshots.append(number)
        if self.phase in {AttemptPhase.OPEN, AttemptPhase.ENDED}:
            self._take_due_snapshots()

    def end_input(self) -> None:
        """Drains the operator and writes `ended`."""
        self.phase = AttemptPhase.DRAINING
        self._operator.end_input()
        self.phase = AttemptPhase.ENDED
        self._write({"ev": "ended"})
        self._take_due_snapshots()

    def stats(self) -> None:
        """Writes the present counters."""
        self._write_event(
            {
                "ev": "stats",
                "queue": len(self._operator),
                "calls_running": self.function.running,
                "timers": len(self._timers),
                "mails": len(self._mailbox),
                "now": self.now_ms,
            }
        )

    def close(self) -> None:
        """Releases everything and writes `closed` with what was left."""
        dropped = self.leave()
        self._write_event({"ev": "closed", "dropped_mails": dropped, "timers": len(self._timers)})

    def leave(self) -> int:
        """Releases everything without an event; returns the number of dropped mails."""
        self._operator.close()
        dropped = len(self._mailbox.close())
        self._loop.close()
        return dropped

    def run(self) -> None:
        """Runs mail and due timers until there are none, unless the command has `hold`."""
        while not self.holding:
            self._raise_if_failed()
            mail = self._mailbox.try_take(MIN_PRIORITY)
            if mail is not None:
                mail.action()
            elif not self._step_time():
                return

    def yield_(self, priority: int) -> None:
        """Runs one mail of at least `priority`. Without one, or with `hold`, ends the command and performs the next."""
        while True:
            self._raise_if_failed()
            mail = None if self.holding else self._mailbox.try_take(priority)
            if mail is not None:
                mail.action()
                return
            if self.holding or not self._step_time():
                if self.phase is AttemptPhase.ADMITTING and not self._blocked:
                    self._blocked = True
                    self._write({"ev": "blocked"})
                self._next_command()

    def _step_time(self) -> bool:
        """Advances the clock to the next due timer; False: there is none up to the target time."""
        to_ms = self.now_ms if self._advancing_to is None else self._advancing_to
        due_ms = self._timers.next_due_ms()
        if due_ms is None or due_ms > to_ms:
            self._loop.advance(to_ms)
            self._advancing_to = None
            return False
        self._loop.advance(due_ms)
        self._loop.run_ready()
        return True

    def _admit(self, admit: Callable[[], None]) -> None:
        self.phase = AttemptPhase.ADMITTING
        admit()
        self._raise_if_failed()
        self.phase = AttemptPhase.OPEN
        if self._blocked:
            self._blocked = False
            self._write({"ev": "unblocked"})
        self._take_due_snapshots()

    def _take_due_snapshots(self) -> None:
        due, self._due_snapshots = self._due_snapshots, []
        for number in due:
            elements = shown(self._operator.snapshot())
            self._write(
                {"ev": "snapshot", "id": number, "state": {"elements": elements}, "elements": elements}
            )

    def _emit(self, element: OperatorInput) -> None:
        match element:
            case Record():
                self._write({"ev": "emit", "value": element.value, "ts": element.timestamp})
            case Watermark():
                self._write({"ev": "watermark", "ts": element.timestamp})
            case WatermarkStatus():
                self._write({"ev": "status", "idle": element.idle})
            case _:
                self._write({"ev": "marker", "id": getattr(element, "id", None)})

    def _write(self, event: Event) -> None:
        """Writes an event, unless the attempt has failed."""
        if self.phase is not AttemptPhase.FAILED:
            self._write_event(event)

    def fail_task(self, error: BaseException) -> None:
        """Fails the task, for the operator or because a mail raised `error`."""
        if self.phase is AttemptPhase.FAILED:
            return
        self._write({"ev": "failed", "error": _kind(error), "message": _in_words(error)})
        self.phase = AttemptPhase.FAILED

    def _raise_if_failed(self) -> None:
        if self.phase is AttemptPhase.FAILED:
            raise Unwound


class _CommandedExecutor(MailboxExecutor):
    """The operator's executor; a yield of a blocked operator performs the next command."""

    __slots__ = ("_at_least", "_attempt")

    def __init__(self, mailbox: Mailbox, priority: int, attempt: CommandedAttempt) -> None:
        super().__init__(mailbox, priority)
        self._attempt = attempt
        self._at_least = priority

    def yield_(self) -> None:
        self._attempt.yield_(self._at_least)


def _kind(error: BaseException) -> str:
    match error:
        case StreamElementFailed():
            return "timeout" if isinstance(error.__cause__, CallTimedOut) else "user-error"
        case CallbackFailed():
            return "callback-error"
        case _:
            return "internal"


def _in_words(error: BaseException) -> str:
    cause = error.__cause__
    return f"{type(error).__name__}: {error}" + (f" ({type(cause).__name__}: {cause})" if cause else "")


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
            self._attempt.fail_task(error)
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

    def _perform(self, raw: Json) -> None:
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
            act = self._understand(self._attempt, command, fields)
            fields.end()
            self._attempt.holding = hold
            act()

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
                return lambda: None  # the operator does nothing on completed or aborted checkpoints
            case _:
                return {"end_input": attempt.end_input, "stats": attempt.stats, "close": self._close}[command]

    def _close(self) -> None:
        """Unwinds to the outermost frame, because the operator may be waiting in a yield."""
        self._closing = True
        raise Unwound

    def _write(self, event: Json) -> None:
        self._write_line(written(event))


def _element(command: str, fields: CommandFields) -> OperatorInput:
    match command:
        case "element":
            value, ts = fields.take("value", anything), fields.take("ts", a_whole_or_null)
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
        act = partial(attempt.function.complete, call, fields.take("results", a_list))
    else:
        act = partial(attempt.function.fail, call, fields.take("error", a_text))
    attempt.function.require(call)
    return act
