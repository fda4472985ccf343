"""Random scripts from a seed: each command is drawn by weight, and races are drawn as short bursts of held commands.

Answers to TigerBeetle's VOPR. Equal seed, number and settings give the same script in any process; a script is drawn
completely before anything is sent, so both systems get the same commands. `Belief` estimates the operator's state, so
that most commands have an effect. It is no model of the operator (mails, `hold` and quirks are left out), and no
verdict depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

from harness.conform.protocol.driver import Command
from harness.conform.protocol.script import KEY, MODES, ChoiceStream, Life, Script, draw_config, value_key
from harness.system.choices import Choices
from harness.system.json_types import Json, JsonView


class RecordStage(Enum):
    """The state of a record."""

    RUNNING = auto()
    BACKOFF = auto()
    DONE = auto()


class DrawnRecord:
    """A record, or without a value a watermark. Mutable."""

    __slots__ = ("attempt", "call", "deadline", "is_record", "retry_at", "stage", "value")

    def __init__(self, value: object, *, is_record: bool) -> None:
        self.value = value
        self.is_record = is_record
        self.stage = RecordStage.RUNNING if is_record else RecordStage.DONE
        self.attempt = 0
        self.call = 0
        self.deadline: int | None = None
        self.retry_at: int | None = None


class Belief:
    """An estimate of the operator's state. Mutable: updated with every command."""

    _FAR: ClassVar[int] = 1 << 60

    def __init__(self, config: JsonView, *, now: int) -> None:
        self.config = config
        self.now = now
        self.capacity: int = config["capacity"]
        self.timeout_ms: int = config["timeout_ms"]
        self.retry: Mapping[str, Any] | None = config.get("retry")
        self.queue: list[DrawnRecord] = []
        self.waiting: list[DrawnRecord] = []
        self.calls: list[DrawnRecord] = []
        self.failed = False
        self.draining = False

    @property
    def blocked(self) -> bool:
        """Whether an element waits for a slot."""
        return bool(self.waiting)

    @property
    def ended(self) -> bool:
        return self.draining and not self.queue

    @property
    def unfinished(self) -> list[DrawnRecord]:
        """The records with a slot and no outcome, oldest first."""
        return [entry for entry in self.queue if entry.stage is not RecordStage.DONE]

    def give(self, record: DrawnRecord) -> None:
        """An element or watermark arrives."""
        if self.waiting or len(self.queue) >= self.capacity:
            self.waiting.append(record)
        else:
            self._admit(record)
        self._emit()

    def outcome(self, call: int, kind: str) -> None:
        """A call ends with `value`, `empty` or `error`."""
        if not 1 <= call <= len(self.calls):
            return
        record = self.calls[call - 1]
        if record.stage is not RecordStage.RUNNING:
            return
        retry = self.retry
        retried = retry is not None and kind in retry["on"] and record.attempt <= retry["max_retries"]
        if retried and not self.draining:
            record.stage = RecordStage.BACKOFF
            record.retry_at = self.now + self._delay(record.attempt)
        elif kind == "error":
            self.failed = True
        else:
            self._finish(record)

    def advance(self, to: int) -> None:
        """Time advances to `to`."""
        while True:
            due = min((self._due(entry) for entry in self.queue), default=self._FAR)
            if due > to or self.failed:
                break
            self.now = max(self.now, due)
            for entry in list(self.queue):
                if self._due(entry) <= self.now:
                    self._fire(entry)
        self.now = max(self.now, to)

    def end_input(self) -> None:
        """The input ends: records in backoff are called a last time."""
        self.draining = True
        for entry in self.queue:
            if entry.stage is RecordStage.BACKOFF:
                self._call(entry)

    def _admit(self, record: DrawnRecord) -> None:
        self.queue.append(record)
        if record.is_record:
            record.deadline = self.now + self.timeout_ms if self.timeout_ms else None
            self._call(record)
            if record.value in self.config.get("invoke_throws", ()):
                self.failed = True

    def _call(self, record: DrawnRecord) -> None:
        record.stage = RecordStage.RUNNING
        record.retry_at = None
        record.attempt += 1
        self.calls.append(record)
        record.call = len(self.calls)

    def _delay(self, attempt: int) -> int:
        assert self.retry is not None, "only a retried record waits"
        if self.retry["strategy"] == "fixed":
            return int(self.retry["delay_ms"])
        grown = int(self.retry["initial_ms"] * self.retry["multiplier"] ** (attempt - 1))
        return grown if attempt == 1 else min(grown, int(self.retry["max_ms"]))

    def _due(self, entry: DrawnRecord) -> int:
        if entry.stage is RecordStage.DONE:
            return self._FAR
        return min(
            self._FAR if entry.deadline is None else entry.deadline,
            self._FAR if entry.retry_at is None else entry.retry_at,
        )

    def _fire(self, entry: DrawnRecord) -> None:
        if entry.deadline is None or entry.deadline > self.now:
            self._call(entry)
            return
        entry.deadline = None
        answer = self.config.get("on_timeout", "fail")
        if isinstance(answer, Mapping) and "results" in answer:
            self._finish(entry)
        elif answer == "nothing":
            entry.stage = RecordStage.RUNNING
            entry.retry_at = None
        else:
            self.failed = True

    def _finish(self, record: DrawnRecord) -> None:
        record.stage = RecordStage.DONE
        self._emit()

    def _emit(self) -> None:
        while self._emit_one():
            while self.waiting and len(self.queue) < self.capacity:
                self._admit(self.waiting.pop(0))

    def _emit_one(self) -> bool:
        waited_for: list[object] = []
        for place, entry in enumerate(self.queue):
            key = None
            if self.config["mode"] == "keyed":
                value = entry.value
                key = value_key(value[KEY] if isinstance(value, dict) and KEY in value else [value])
            is_next = key is None or key not in waited_for
            if entry.stage is RecordStage.DONE and is_next and (place == 0 or entry.is_record):
                del self.queue[place]
                return True
            if not entry.is_record or self.config["mode"] == "ordered":
                return False
            waited_for.append(key)
        return False


COMMANDS_MIN = 10
COMMANDS_MAX = 50
"""Most commands of a script; a burst that has begun may exceed it."""
LIVES_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """What scripts may use: the common abilities of both systems."""

    modes: tuple[str, ...]
    """The modes to choose from for a script's first life."""
    profile: str
    abilities: frozenset[str]


def draw_script(seed: int, number: int, *, settings: ScriptSettings) -> Script:
    """Draw script `number` of a seed."""
    return _Author(ChoiceStream(Choices(seed, f"script {number}")), settings).write(
        f"seed {seed}, script {number}"
    )


class _Author:
    """Draws one script. Mutable."""

    def __init__(self, choices: ChoiceStream, settings: ScriptSettings) -> None:
        self._choices = choices
        self._settings = settings
        self._left = choices.between(COMMANDS_MIN, COMMANDS_MAX)
        self._elements = 0
        self._snapshots = 0
        self._saved: list[tuple[int, str, list[DrawnRecord]]] = []
        self._markers = 0
        self._written: list[Command] = []
        self._belief: Belief = Belief({"capacity": 1, "timeout_ms": 0, "mode": "ordered"}, now=0)

    def write(self, name: str) -> Script:
        modes = self._settings.modes
        mode = modes[self._choices.index(len(modes))]
        lives = [self._life(mode, restore=None)]
        while self._left > 0 and len(lives) < LIVES_MAX:
            saved = [entry for entry in self._saved if entry[2]] or self._saved
            others = [one for one in MODES if one != mode and one in self._settings.abilities] or [mode]
            if self._choices.index(4) == 0:
                mode = others[self._choices.index(len(others))]
            restored = saved[self._choices.index(len(saved))] if saved and self._choices.index(5) else None
            lives.append(self._life(mode, restore=restored))
        return Script(name=name, lives=tuple(lives))

    def _life(self, mode: str, *, restore: tuple[int, str, list[DrawnRecord]] | None) -> Life:
        entries = restore[2] if restore else []
        config = draw_config(
            self._choices,
            mode=mode,
            profile=self._settings.profile,
            abilities=self._settings.abilities,
            reissued=restore is not None and restore[1] != "ordered",
            values=[entry.value for entry in entries] + [self._elements + 1, self._elements + 4],
        )
        now = self._choices.between(-3, 20) if self._choices.index(3) == 0 else 0
        self._belief = Belief(config, now=now)
        for entry in entries:
            self._belief.give(DrawnRecord(entry.value, is_record=entry.is_record))
        self._written = []
        stay = self._choices.between(8, 40)
        while self._left > 0 and stay > 0:
            table = self._FREELY
            if self._belief.failed:
                table = self._AFTER_FAILURE
            elif self._belief.blocked or self._belief.draining:
                table = self._WHILE_WAITING
            before = len(self._written)
            table[self._choices.index(len(table))](self)
            stay -= len(self._written) - before
            if self._belief.failed or self._belief.ended:
                stay = min(stay, 1 + self._choices.index(3))
        return Life(
            config=config, now=now, restore=restore[0] if restore else None, commands=tuple(self._written)
        )

    def _write(self, command: Json, *, hold: bool | None = None) -> None:
        if self._choices.index(5) == 0 if hold is None else hold:
            command["hold"] = True
        elif self._choices.index(40) == 0:
            command["hold"] = False
        self._written.append(command)
        self._left -= 1

    # ---------------------------------------------------------------- single commands

    def _element(self, *, hold: bool | None = None) -> None:
        self._elements += 1
        is_keyed = self._belief.config["mode"] == "keyed" and self._choices.index(5)
        value: object = (
            {KEY: self._choices.index(3), "n": self._elements}
            if is_keyed
            else _value(self._elements, self._choices)
        )
        ts = None if self._choices.index(8) == 0 else self._choices.between(-2, 60)
        self._write({"cmd": "element", "value": value, "ts": ts}, hold=hold)
        self._belief.give(DrawnRecord(value, is_record=True))

    def _watermark(self, *, hold: bool | None = None) -> None:
        self._write({"cmd": "watermark", "ts": self._choices.between(-1, 60)}, hold=hold)
        self._belief.give(DrawnRecord(None, is_record=False))

    def _status(self) -> None:
        if "status" not in self._settings.abilities:
            return self._watermark()
        self._write({"cmd": "status", "idle": self._choices.index(2) == 0})
        return self._belief.give(DrawnRecord(None, is_record=False))

    def _marker(self) -> None:
        if "marker" in self._settings.abilities:
            self._markers += 1
            self._write({"cmd": "marker", "id": self._markers})

    def _outcome(self, call: int | None = None, *, hold: bool | None = None) -> None:
        """A call completes or fails; a failure without retry is rare, since it ends the life."""
        if call is None and (call := self._some_call()) is None:
            return self._element(hold=hold) if self._may_add else self._advance(hold=hold)
        retry = self._belief.retry
        bad = retry is not None and "error" in retry["on"]
        if self._choices.index(20) < (9 if bad else 1):
            self._write({"cmd": "fail", "call": call, "error": "told to"}, hold=hold)
            return self._belief.outcome(call, "error")
        count = (0, 0, 1, 1, 1, 1, 2, 3)[self._choices.index(8)]
        results = [f"{call}.{len(self._written)}.{place}" for place in range(count)]
        self._write({"cmd": "complete", "call": call, "results": results}, hold=hold)
        return self._belief.outcome(call, "value" if results else "empty")

    def _advance(self, *, hold: bool | None = None) -> None:
        """Advance to an instant at which something is due, one before or after it, or beyond several."""
        belief = self._belief
        dues = [due for entry in belief.unfinished for due in (entry.deadline, entry.retry_at) if due]
        if dues and self._choices.index(6):
            due = min(dues) if self._choices.index(2) else dues[self._choices.index(len(dues))]
            to = due + (0, 0, 0, -1, 1)[self._choices.index(5)]
        else:
            to = belief.now + self._choices.between(0, 9)
        to = max(to, belief.now)
        self._write({"cmd": "advance", "to": to}, hold=hold)
        belief.advance(to)

    def _snapshot(self, *, hold: bool | None = None) -> None:
        if "snapshot" not in self._settings.abilities:
            return
        self._snapshots += 1
        self._write({"cmd": "snapshot", "id": self._snapshots}, hold=hold)
        if not self._belief.blocked and not self._belief.failed:
            self._saved.append((self._snapshots, self._belief.config["mode"], list(self._belief.queue)))

    def _notify(self) -> None:
        id_ = self._choices.between(0, self._snapshots + 1)
        self._write({"cmd": "notify", "id": id_, "outcome": ("complete", "abort")[self._choices.index(2)]})

    def _stats(self) -> None:
        self._write({"cmd": "stats"})

    def _end_input(self) -> None:
        """Likely while a record is in backoff; else rarely early in a life."""
        backoff = any(entry.stage is RecordStage.BACKOFF for entry in self._belief.queue)
        if backoff or (len(self._written) > 4 and self._choices.index(2)):  # noqa: PLR2004 - that is young
            self._write({"cmd": "end_input"})
            self._belief.end_input()

    def _illegal(self) -> None:
        command = _ILLEGAL[self._choices.index(len(_ILLEGAL))]
        self._written.append({**command})
        self._left -= 1

    # -------------------------------------------------------------------------- races

    def _race(self) -> None:
        """Two to four commands about one record, all but the last held, so that their mails compete."""
        unfinished = self._belief.unfinished
        if not unfinished:
            return self._outcome()
        record = unfinished[self._choices.index(len(unfinished))]
        count = self._choices.between(2, 4)
        for place in range(count):
            held = place + 1 < count and self._choices.index(8) > 0
            self._contender(record, hold=held)
        return None

    def _backlog(self) -> None:
        """Finish the records behind the oldest, youngest first; then one outcome releases them all."""
        running = [entry for entry in self._belief.unfinished if entry.stage is RecordStage.RUNNING]
        if len(running) == 1 and self._may_add:
            return self._watermark() if self._belief.queue[-1].is_record else self._element()
        for record in reversed(running[1:]):
            self._write({"cmd": "complete", "call": record.call, "results": [f"{record.call}.back"]})
            self._belief.outcome(record.call, "value")
        return self._outcome(running[0].call) if running else self._element() if self._may_add else None

    def _contender(self, record: DrawnRecord, *, hold: bool) -> None:
        drawn = self._choices.index(16)
        due = record.retry_at if record.stage is RecordStage.BACKOFF and drawn % 2 else record.deadline
        if drawn < 6 or (drawn < 11 and due is None):  # noqa: PLR2004 - weights
            earlier = [place for place, owner in enumerate(self._belief.calls, 1) if owner is record]
            self._outcome(earlier[self._choices.index(len(earlier))] if earlier else None, hold=hold)
        elif drawn < 11 and due is not None:  # noqa: PLR2004 - weights
            to = max(due + (0, 0, 0, 0, -1, 1)[self._choices.index(6)], self._belief.now)
            self._write({"cmd": "advance", "to": to}, hold=hold)
            self._belief.advance(to)
        elif drawn < 13:  # noqa: PLR2004 - weights
            self._snapshot(hold=hold)
        elif not self._may_add:
            self._write({"cmd": "stats"}, hold=hold)
        elif drawn < 15:  # noqa: PLR2004 - weights
            self._element(hold=hold)
        elif self._choices.index(2):
            self._write({"cmd": "end_input"}, hold=hold)
            self._belief.end_input()
        else:
            self._watermark(hold=hold)

    def _some_call(self) -> int | None:
        """Mostly a running call; else a finished one, an earlier attempt, or sometimes one that does not exist."""
        running = [entry.call for entry in self._belief.unfinished if entry.stage is RecordStage.RUNNING]
        if running and self._choices.index(8):
            return running[self._choices.index(len(running))]
        known = len(self._belief.calls) + (self._choices.index(6) == 0)
        return 1 + self._choices.index(known) if known and self._choices.index(3) == 0 else None

    @property
    def _may_add(self) -> bool:
        return not (self._belief.blocked or self._belief.draining or self._belief.failed)

    # ------------------------------------------------------------------------- weights

    _FREELY: ClassVar[_Table] = (
        *(_element,) * 30,
        *(_outcome,) * 20,
        *(_advance,) * 13,
        *(_race,) * 12,
        *(_backlog,) * 3,
        *(_watermark,) * 7,
        *(_snapshot,) * 6,
        *(_status,) * 3,
        *(_stats,) * 3,
        *(_marker,) * 2,
        *(_notify,) * 2,
        *(_end_input,) * 4,
        _illegal,
    )
    _WHILE_WAITING: ClassVar[_Table] = (
        *(_outcome,) * 26,
        *(_advance,) * 12,
        *(_race,) * 10,
        *(_backlog,) * 4,
        *(_snapshot,) * 5,
        *(_stats,) * 3,
        _element,
        _marker,
        _notify,
        _illegal,
    )
    _AFTER_FAILURE: ClassVar[_Table] = (
        *(_stats,) * 3,
        _snapshot,
        _outcome,
        _notify,
    )


def _value(number: int, choices: ChoiceStream) -> object:
    """Every element of a script has a different value, mostly a plain number."""
    match choices.index(30):
        case 0:
            return {"n": number, "of": [None, True]}
        case 1:
            return [number, "é\n"]
        case 2:
            return number + 0.5
        case 3:
            return f"v{number}"
        case _:
            return number


_Table = tuple[Callable[[_Author], None], ...]
FLAWED: tuple[Command, ...] = (
    {},
    {"cmd": "dance"},
    {"cmd": 7},
    {"cmd": "element", "value": 1},
    {"cmd": "element", "value": 1, "ts": "3"},
    {"cmd": "element", "value": 1, "ts": 1.5},
    {"cmd": "watermark", "ts": None},
    {"cmd": "watermark", "ts": 1, "more": 1},
    {"cmd": "watermark", "ts": 1, "hold": 1},
    {"cmd": "status", "idle": 0},
    {"cmd": "complete", "call": 1, "results": None},
    {"cmd": "complete", "call": True, "results": []},
    {"cmd": "fail", "call": 1, "error": 5},
    {"cmd": "advance", "to": -1_000},
    {"cmd": "advance", "to": True},
    {"cmd": "snapshot"},
    {"cmd": "notify", "id": 1, "outcome": "perhaps"},
    {"cmd": "hello", "protocol": 1},
    {"cmd": "open", "config": {}, "now": 0, "restore": None},
)
"""Commands with a flaw; their refusal may name the flaw or the state."""
_ILLEGAL: tuple[Command, ...] = (
    *FLAWED,
    {"cmd": "complete", "call": 9_999, "results": []},
    {"cmd": "complete", "call": 0, "results": []},
    {"cmd": "fail", "call": 9_999, "error": "x"},
)
