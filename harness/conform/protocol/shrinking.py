"""Shrinks the script of a difference: fewer lives and commands, a simpler operator, simpler commands.

Answers to delta debugging as in QuickCheck. Calls are first named by their record, so that removing a command does not
change what the others refer to. Invariant: the returned script was run and shows the same kind of difference; the
number of runs is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.conform.protocol.comparison import ComparedCommand, DifferingScript
from harness.conform.protocol.driver import Command, Twins
from harness.conform.protocol.events import FunctionCall
from harness.conform.protocol.lockstep import is_of_a_drain, run_lockstep
from harness.conform.protocol.script import CallName, Life, Script, value_key
from harness.system.json_types import JsonView

RUNS_MAX = 3_000
"""Most runs for one difference; each takes some milliseconds."""


def shrink(twins: Twins, found: DifferingScript, *, runs_max: int = RUNS_MAX) -> DifferingScript:
    """A smaller difference of the same kind; `found` itself if it does not happen again."""
    again = run_lockstep(twins, found.script)
    if again is None or again.mismatch.kind is not found.mismatch.kind:
        return found
    return _Shrinking(twins, again, runs_max).smallest()


class _Shrinking:
    """The best script so far and the remaining runs. Mutable."""

    def __init__(self, twins: Twins, found: DifferingScript, runs_max: int) -> None:
        self._twins = twins
        self._best = found
        self._left = runs_max

    def smallest(self) -> DifferingScript:
        self._try(_by_name(self._best))
        helped = True
        while self._left > 0 and helped:
            helped = False
            for plainer in (_fewer_lives, _fewer_commands, _plainer_lives, _plainer_commands, _plain_values):
                # The first candidate that still differs is taken, and those of this kind are made from it again.
                while self._left > 0 and any(self._try(script) for script in plainer(self._best.script)):
                    helped = True
        return self._best

    def _try(self, script: Script) -> bool:
        if self._left <= 0 or script == self._best.script:
            return False
        self._left -= 1
        found = run_lockstep(self._twins, script)
        if found is None or found.mismatch.kind is not self._best.mismatch.kind:
            return False
        self._best = found
        return True


def _by_name(found: DifferingScript) -> Script:
    """The script up to its difference, as it was sent, with each call named by its record."""
    lives = [
        replace(life, commands=tuple(_named([told for told in found.exchanges if told.life == place])))
        for place, life in enumerate(found.script.lives[: found.life + 1])
    ]
    return replace(found.script, lives=tuple(lives))


def _named(exchanges: Sequence[ComparedCommand]) -> Iterator[Command]:
    """The commands of one life between `open` and `close`."""
    names: dict[int, CallName] = {}
    times: Counter[tuple[bytes, int]] = Counter()
    for place, exchange in enumerate(exchanges):
        command = exchange.left_command
        call = command.get("call")
        if place and command.get("cmd") != "close" and not is_of_a_drain(command):
            yield {**command, "call": names[call]} if type(call) is int and call in names else command
        for event in exchange.left:
            if type(event) is FunctionCall:
                key = (value_key(event.value), event.attempt)
                times[key] += 1
                names[event.call] = CallName(value=key[0], attempt=key[1], nth=times[key])


def _fewer_lives(script: Script) -> Iterator[Script]:
    for place in range(len(script.lives) - 1):
        yield replace(script, lives=script.lives[:place] + script.lives[place + 1 :])


def _fewer_commands(script: Script) -> Iterator[Script]:
    for place, life in enumerate(script.lives):
        size = len(life.commands)
        while size:
            for start in range(0, len(life.commands), size):
                rest = life.commands[:start] + life.commands[start + size :]
                yield script.with_life(place, replace(life, commands=rest))
            size //= 2


def _plainer_lives(script: Script) -> Iterator[Script]:
    for place, life in enumerate(script.lives):
        if life.restore is not None:
            yield script.with_life(place, replace(life, restore=None))
        for config in _plainer_configs(life.config):
            yield script.with_life(place, replace(life, config=config))
        if life.now:
            moved = [
                {**command, "to": command["to"] - life.now} if type(command.get("to")) is int else command
                for command in life.commands
            ]
            yield script.with_life(place, replace(life, now=0, commands=tuple(moved)))
        timeout_ms = life.config.get("timeout_ms", 0)
        yield from (
            script.with_life(place, _sooner(life, less)) for less in (timeout_ms // 2, 1) if less < timeout_ms
        )


def _sooner(life: Life, by_ms: int) -> Life:
    """A shorter timeout; later `advance` commands are moved by the same amount."""
    config = {**life.config, "timeout_ms": life.config["timeout_ms"] - by_ms}
    due = life.now + life.config["timeout_ms"]
    moved = [
        {**command, "to": command["to"] - by_ms}
        if type(to := command.get("to")) is int and to >= due - 1
        else command
        for command in life.commands
    ]
    return replace(life, config=config, commands=tuple(moved))


def _plainer_configs(config: JsonView) -> Iterator[JsonView]:
    for key in ("retry", "invoke_throws", "on_timeout", "profile"):
        if key in config:
            yield {name: value for name, value in config.items() if name != key}
    if config.get("retry") is None and config.get("timeout_ms"):
        yield {**config, "timeout_ms": 0}
    if config.get("mode") == "unordered":
        yield {**config, "mode": "ordered"}
    if config.get("mode") == "keyed":
        yield {name: value for name, value in config.items() if name != "key"} | {"mode": "ordered"}
    for capacity in range(1, config.get("capacity", 1)):
        yield {**config, "capacity": capacity}
    retry = config.get("retry") or {}
    for key in retry:
        if key != "strategy" and retry[key] != 1 and not isinstance(retry[key], list):
            yield {**config, "retry": {**retry, key: 1}}
    if retry.get("strategy") == "exponential":
        kept = {key: retry[key] for key in ("max_retries", "on")}
        yield {**config, "retry": {"strategy": "fixed", "delay_ms": retry["initial_ms"], **kept}}
    for word in retry.get("on", ()) if len(retry.get("on", ())) > 1 else ():
        yield {**config, "retry": {**retry, "on": [word]}}
    if config.get("on_timeout") not in (None, "nothing", {"results": []}):
        yield {**config, "on_timeout": {"results": []}}


def _plainer_commands(script: Script) -> Iterator[Script]:
    for place, life in enumerate(script.lives):
        for index, command in enumerate(life.commands):
            for plainer in _plainer(command):
                told = (*life.commands[:index], plainer, *life.commands[index + 1 :])
                yield script.with_life(place, replace(life, commands=told))


def _plainer(command: Command) -> Iterator[Command]:
    if "hold" in command:
        yield {key: value for key, value in command.items() if key != "hold"}
    if command.get("results") not in (None, [], ["r"]):
        yield {**command, "results": []}
        yield {**command, "results": ["r"]}
    if command.get("cmd") in {"element", "watermark"} and command.get("ts") not in (0, None):
        yield {**command, "ts": 0}
    to = command.get("to")
    if command.get("cmd") == "advance" and type(to) is int:
        yield from ({**command, "to": less} for less in (to // 2, to - 1) if 0 <= less < to)


def _plain_values(script: Script) -> Iterator[Script]:
    """Replace every element's value by its position, from 1."""
    values = [
        command["value"]
        for life in script.lives
        for command in life.commands
        if command.get("cmd") == "element" and "value" in command
    ]
    plain = {value_key(value): place for place, value in enumerate(values, 1)}
    lives = [
        replace(life, commands=tuple(_renamed(told, plain) for told in life.commands))
        for life in script.lives
    ]
    thrown = [
        replace(life, config={**life.config, "invoke_throws": _throws(life, plain)})
        if "invoke_throws" in life.config
        else life
        for life in lives
    ]
    if any(value_key(value) != value_key(place) for place, value in enumerate(values, 1)):
        yield replace(script, lives=tuple(thrown))


def _throws(life: Life, plain: Mapping[bytes, int]) -> list[object]:
    return [plain.get(value_key(value), value) for value in life.config["invoke_throws"]]


def _renamed(command: Command, plain: Mapping[bytes, int]) -> Command:
    call = command.get("call")
    if isinstance(call, CallName) and call.value in plain:
        return {**command, "call": replace(call, value=value_key(plain[call.value]))}
    if command.get("cmd") == "element" and "value" in command:
        return {**command, "value": plain[value_key(command["value"])]}
    return command
