"""Checks the `config` of an `open` command field by field, and defines the refusal of a command.

Every field is required unless the protocol's page names a default; a field that is missing, unknown, of a wrong type or
not supported by the system is refused by name. Invariant: a refusal has a protocol code and a sentence, is raised
before the operator gets the command, and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar, cast

from harness.system.json_types import Json
from reference_impl.operator.build import Mode
from reference_impl.operator.retry import (
    NO_RETRY,
    ExponentialBackoff,
    FixedDelay,
    RetryStrategy,
    any_error,
    empty_result,
)


class Code(StrEnum):
    """The error codes of the protocol."""

    NOT_JSON = "not-json"
    UNKNOWN_COMMAND = "unknown-command"
    BAD_STATE = "bad-state"
    UNSUPPORTED = "unsupported"
    BAD_ARGUMENT = "bad-argument"
    UNKNOWN_CALL = "unknown-call"


class CommandRefused(Exception):
    """The command is answered with an error and not performed."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


_T = TypeVar("_T")
_SHOWN_MAX = 60
"""How many characters of a wrong value an error shows."""


class CommandFields:
    """The fields of one object. Mutable: taken fields are removed."""

    def __init__(self, where: str, fields: Mapping[str, object]) -> None:
        self._where = where
        self._left = dict(fields)

    def take(self, name: str, check: Callable[[str, object], _T]) -> _T:
        """The value of a required field."""
        if name not in self._left:
            raise CommandRefused(Code.BAD_ARGUMENT, f"{self._where} lacks the field {name!r}")
        return check(f"{self._where}: {name}", self._left.pop(name))

    def take_or(self, name: str, default: _T, check: Callable[[str, object], _T]) -> _T:
        """The value of an optional field."""
        return self.take(name, check) if name in self._left else default

    def end(self) -> None:
        """Refuses fields that were not taken."""
        for name in self._left:
            raise CommandRefused(Code.BAD_ARGUMENT, f"{self._where} has no field {name!r}")


def anything(where: str, value: object) -> object:
    """Any JSON value."""
    del where
    return value


def a_bool(where: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def a_text(where: str, value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _wrong(where, "a string", value)
    return value


def a_list(where: str, value: object) -> list[object]:
    """An array."""
    if not isinstance(value, list):
        raise _wrong(where, "an array", value)
    return value


def a_whole(*, at_least: int | None = None) -> Callable[[str, object], int]:
    """A whole number of at least `at_least`."""

    def check(where: str, value: object) -> int:
        if type(value) is not int or (at_least is not None and value < at_least):
            limit = "" if at_least is None else f" of at least {at_least}"
            raise _wrong(where, f"a whole number{limit}", value)
        return value

    return check


def a_whole_or_null(where: str, value: object) -> int | None:
    """A whole number, or null."""
    if value is None or type(value) is int:
        return value
    raise _wrong(where, "a whole number or null", value)


def one_of(*choices: str) -> Callable[[str, object], str]:
    """One of the given words."""

    def check(where: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(where, " or ".join(map(repr, choices)), value)
        return value

    return check


def canonical(value: object) -> str:
    """A text that is equal only for equal JSON values; 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def _wrong(where: str, wanted: str, value: object) -> CommandRefused:
    shown = repr(value)
    if len(shown) > _SHOWN_MAX:
        shown = shown[:_SHOWN_MAX] + "..."
    return CommandRefused(Code.BAD_ARGUMENT, f"{where} must be {wanted}, not {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTimeout:
    """What the timeout handler does: fail the call, complete it with results, do nothing, or raise an error."""

    kind: Literal["fail", "results", "nothing", "throw"]
    results: Sequence[object] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """A checked `config`."""

    mode: Mode
    key: str | None
    """Mode `keyed`: the member of a record's value that is its key."""
    capacity: int
    timeout_ms: int
    on_timeout: OnTimeout
    retry: RetryStrategy
    invoke_throws: frozenset[str]
    """The canonical forms of the values whose invocation raises."""
    profile: str


def key_of(value: object, *, member: str) -> str:
    """The key of a record: that member of its value; a value that is no object, or lacks the member, is its own key."""
    if isinstance(value, dict) and member in value:
        return canonical([value[member]])
    return canonical(value)


def operator_config(raw: object, abilities: Sequence[str]) -> OperatorConfig:
    """Checks `raw`; raises a `CommandRefused` that names the wrong field."""
    fields = CommandFields("config", _object("config", raw))
    mode = cast("Mode", fields.take("mode", one_of("ordered", "unordered", "keyed")))
    config = OperatorConfig(
        mode=mode,
        key=fields.take("key", a_text) if mode == "keyed" else None,
        capacity=fields.take("capacity", a_whole(at_least=1)),
        timeout_ms=fields.take("timeout_ms", a_whole(at_least=0)),
        on_timeout=fields.take_or("on_timeout", OnTimeout(kind="fail"), _on_timeout),
        retry=fields.take_or("retry", NO_RETRY, _retry),
        invoke_throws=frozenset(map(canonical, fields.take_or("invoke_throws", list[object](), a_list))),
        profile=fields.take_or("profile", "strict", one_of("strict", "flink")),
    )
    fields.end()
    if config.retry is not NO_RETRY and config.timeout_ms == 0:
        raise CommandRefused(Code.BAD_ARGUMENT, "config: retry needs a timeout_ms above 0")
    needed: list[str] = [config.mode]
    needed += ["retry"] * (config.retry is not NO_RETRY)
    needed += ["flink-profile"] * (config.profile == "flink")
    for ability in needed:
        if ability not in abilities:
            raise CommandRefused(
                Code.UNSUPPORTED, f"config: {ability!r} is not among the abilities of this operator"
            )
    return config


def _on_timeout(where: str, raw: object) -> OnTimeout:
    if isinstance(raw, str):
        word = one_of("fail", "nothing")(where, raw)
        return OnTimeout(kind="fail" if word == "fail" else "nothing")
    fields = CommandFields(where, _object(where, raw))
    if isinstance(raw, dict) and "throw" in raw:
        answer = OnTimeout(kind="throw", text=fields.take("throw", a_text))
    else:
        answer = OnTimeout(kind="results", results=fields.take("results", a_list))
    fields.end()
    return answer


def _retry(where: str, raw: object) -> RetryStrategy:
    if raw is None:
        return NO_RETRY
    fields = CommandFields(where, _object(where, raw))
    strategy = fields.take("strategy", one_of("fixed", "exponential"))
    judged = fields.take("on", _on)
    predicates: dict[str, Any] = {
        "on_result": empty_result if "empty" in judged else None,
        "on_error": any_error if "error" in judged else None,
    }
    positive = a_whole(at_least=1)
    retries = fields.take("max_retries", positive)
    made: RetryStrategy
    if strategy == "fixed":
        made = FixedDelay(max_retries=retries, delay_ms=fields.take("delay_ms", positive), **predicates)
    else:
        made = ExponentialBackoff(
            max_retries=retries,
            initial_ms=fields.take("initial_ms", positive),
            max_ms=fields.take("max_ms", positive),
            multiplier=fields.take("multiplier", _multiplier),
            **predicates,
        )
    fields.end()
    return made


def _on(where: str, raw: object) -> list[str]:
    words = [one_of("empty", "error")(where, word) for word in a_list(where, raw)]
    if not words or len(set(words)) != len(words):
        raise CommandRefused(Code.BAD_ARGUMENT, f"{where} must hold 'empty', 'error' or both, once each")
    return words


def _multiplier(where: str, raw: object) -> float:
    if not (type(raw) is int or type(raw) is float) or not raw > 0:
        raise CommandRefused(Code.BAD_ARGUMENT, f"{where} must be a number above 0")
    return raw


def _object(where: str, raw: object) -> Json:
    if not isinstance(raw, dict):
        raise CommandRefused(Code.BAD_ARGUMENT, f"{where} must be an object")
    return raw
