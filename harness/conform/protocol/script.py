"""A script: the lives of one operator, each from `open` to `close`, as commands that any system can execute.

A script is data. A call is referred to by its number, or by a `CallName` where numbers may differ between systems; a
restore refers to the snapshot, since each system has its own state. `ChoiceStream` and `draw_config` draw the
parts of random scripts: equal seeds and purposes draw the same; each configuration is legal, with small
numbers, so that instants and limits often coincide.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from harness.conform.protocol.driver import Command
from harness.system.choices import Choices
from harness.system.json_types import JsonView

FORMAT = "floodmark-script-1"
MODES = ("ordered", "unordered", "keyed")
KEY = "k"
"""The member of a drawn value that is its key in mode `keyed`."""


def value_key(value: object) -> bytes:
    """A value as a key: equal bytes for equal JSON; 1, 1.0 and true are three different values."""
    return msgspec.json.encode(value, order="deterministic")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallName:
    """A call without its number: the `nth` (from 1) of this value and attempt in its life."""

    value: bytes
    attempt: int
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One operator from `open` to `close`: its configuration and its commands."""

    config: Mapping[str, Any]
    now: int = 0
    restore: int | None = None
    """The id of a snapshot of an earlier life; ids are unique in the script."""
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Lives that follow each other in one process."""

    name: str
    """Its seed and number."""
    lives: tuple[Life, ...]

    @property
    def length(self) -> int:
        """The number of commands, including `open` and `close`."""
        return sum(len(life.commands) + 2 for life in self.lives)

    def with_life(self, index: int, life: Life) -> Script:
        """A copy with one life replaced."""
        return replace(self, lives=(*self.lives[:index], life, *self.lives[index + 1 :]))


def script_json(script: Script) -> JsonView:
    """The script as JSON that `tools.trials.differential` reads."""
    lives = [
        {
            "config": life.config,
            "now": life.now,
            "restore": life.restore,
            "commands": [_portable(command) for command in life.commands],
        }
        for life in script.lives
    ]
    return {"format": FORMAT, "name": script.name, "lives": lives}


def _portable(command: Command) -> Command:
    call = command.get("call")
    if not isinstance(call, CallName):
        return command
    return {
        **command,
        "call": {"value": json.loads(call.value), "attempt": call.attempt, "nth": call.nth},
    }


_FRESH = 1 << 120
_SPENT = 1 << 40
"""Below this the remaining randomness is no longer evenly distributed."""


class ChoiceStream:
    """A stream of small choices, drawn in batches from `Choices`. Mutable."""

    __slots__ = ("_choices", "_store")

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._store = 0

    def index(self, count: int) -> int:
        """A number from 0 to count-1, evenly distributed."""
        store = self._store
        if store < _SPENT:
            store = self._choices.index(_FRESH)
        self._store, drawn = divmod(store, count)
        return drawn

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.index(high - low + 1)


_ON_TIMEOUT: tuple[object, ...] = (
    "fail",
    "nothing",
    "nothing",
    {"results": []},
    {"results": []},
    {"results": ["late"]},
    {"results": ["late"]},
    {"results": ["late", "later"]},
    {"throw": "told to"},
)
_CAPACITIES = (1, 1, 2, 2, 3, 3, 4, 4, 4, 6)
_ON = (["error"], ["empty"], ["empty", "error"], ["error", "empty"])
_MULTIPLIERS = (1, 1.5, 2, 2.5, 1.3, 3, 0.5)


def draw_config(
    choices: ChoiceStream,
    *,
    mode: str,
    profile: str,
    abilities: Collection[str],
    reissued: bool,
    values: Collection[object],
) -> JsonView:
    """Draw a configuration; `reissued`: the life restores records whose order of re-issue is free."""
    config: dict[str, Any] = {
        "mode": mode,
        "capacity": _CAPACITIES[choices.index(len(_CAPACITIES))],
        "timeout_ms": choices.index(3) and choices.between(1, 14),
    }
    if mode == "keyed":
        config["key"] = KEY
    if profile != "strict" or choices.index(4) == 0:
        config["profile"] = profile
    if config["timeout_ms"] and choices.index(8):
        config["on_timeout"] = _ON_TIMEOUT[choices.index(len(_ON_TIMEOUT))]
    if config["timeout_ms"] and "retry" in abilities and choices.index(4):
        config["retry"] = _retry(choices, shared_delay=not reissued)
        config["timeout_ms"] += choices.index(16)  # so that there is often time for more than one attempt
    if values and choices.index(25) == 0:
        config["invoke_throws"] = [[*values][choices.index(len(values))]]
    return config


def _retry(choices: ChoiceStream, *, shared_delay: bool) -> JsonView:
    """Exponential delay only if every record's turn is fixed: in profile `flink` all records share one delay (A82)."""
    limits = {"max_retries": 1 + choices.index(3), "on": _ON[choices.index(len(_ON))]}
    if not shared_delay or choices.index(2):
        return {"strategy": "fixed", "delay_ms": choices.between(1, 8), **limits}
    return {
        "strategy": "exponential",
        "initial_ms": choices.between(1, 6),
        "max_ms": choices.between(3, 20),
        "multiplier": _MULTIPLIERS[choices.index(len(_MULTIPLIERS))],
        **limits,
    }
