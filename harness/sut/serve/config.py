"""The `config` of an `open`: what the operator is to be, checked field by field.

Invariant: every field is required unless a default is named on the protocol's page; an unknown one is refused, and
so is what the system does not claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.sut.serve.fields import Fields, a_list, a_text, a_whole, canonical, one_of
from harness.sut.serve.refusal import Code, Refusal
from reference_impl.operator.build import Mode
from reference_impl.operator.retry import (
    NO_RETRY,
    ExponentialBackoff,
    FixedDelay,
    RetryStrategy,
    any_error,
    empty_result,
)

__all__ = ["OnTimeout", "OperatorConfig", "operator_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTimeout:
    """What the timeout handler does: fail the call, answer with results, nothing, or throw a text."""

    kind: Literal["fail", "results", "nothing", "throw"]
    results: Sequence[Any] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """A checked `config`."""

    mode: Mode
    capacity: int
    timeout_ms: int
    on_timeout: OnTimeout
    retry: RetryStrategy
    invoke_throws: frozenset[str]
    """Values whose invocation raises, each in its canonical form."""
    profile: str


def operator_config(raw: Any, abilities: Sequence[str]) -> OperatorConfig:
    """What `raw` says, or a refusal that names the field."""
    fields = Fields("config", _object("config", raw))
    config = OperatorConfig(
        mode=_mode(fields.take("mode", one_of("ordered", "unordered"))),
        capacity=fields.take("capacity", a_whole(at_least=1)),
        timeout_ms=fields.take("timeout_ms", a_whole(at_least=0)),
        on_timeout=fields.take_or("on_timeout", OnTimeout(kind="fail"), _on_timeout),
        retry=fields.take_or("retry", NO_RETRY, _retry),
        invoke_throws=frozenset(map(canonical, fields.take_or("invoke_throws", [], a_list))),
        profile=fields.take_or("profile", "strict", one_of("strict", "flink")),
    )
    fields.end()
    if config.retry is not NO_RETRY and config.timeout_ms == 0:
        raise Refusal(Code.BAD_ARGUMENT, "config: retry needs a timeout_ms above 0")
    _require_claimed(config, abilities)
    return config


def _require_claimed(config: OperatorConfig, abilities: Sequence[str]) -> None:
    needed: list[str] = [config.mode]
    needed += ["retry"] * (config.retry is not NO_RETRY)
    needed += ["flink-profile"] * (config.profile == "flink")
    for ability in needed:
        if ability not in abilities:
            raise Refusal(
                Code.UNSUPPORTED, f"config: {ability!r} is not among the abilities of this operator"
            )


def _mode(word: str) -> Mode:
    return "ordered" if word == "ordered" else "unordered"


def _on_timeout(where: str, raw: Any) -> OnTimeout:
    if isinstance(raw, str):
        word = one_of("fail", "nothing")(where, raw)
        return OnTimeout(kind="fail" if word == "fail" else "nothing")
    fields = Fields(where, _object(where, raw))
    if isinstance(raw, dict) and "throw" in raw:
        answer = OnTimeout(kind="throw", text=fields.take("throw", a_text))
    else:
        answer = OnTimeout(kind="results", results=fields.take("results", a_list))
    fields.end()
    return answer


def _retry(where: str, raw: Any) -> RetryStrategy:
    if raw is None:
        return NO_RETRY
    fields = Fields(where, _object(where, raw))
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


def _on(where: str, raw: Any) -> list[str]:
    words = [one_of("empty", "error")(where, word) for word in a_list(where, raw)]
    if not words or len(set(words)) != len(words):
        raise Refusal(Code.BAD_ARGUMENT, f"{where} must hold 'empty', 'error' or both, once each")
    return words


def _multiplier(where: str, raw: Any) -> float:
    if type(raw) not in {int, float} or not raw > 0:
        raise Refusal(Code.BAD_ARGUMENT, f"{where} must be a number above 0")
    number: float = raw
    return number


def _object(where: str, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Refusal(Code.BAD_ARGUMENT, f"{where} must be an object")
    return raw
