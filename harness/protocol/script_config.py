"""The configurations that random scripts are run with: small numbers, so that instants and limits coincide.

Invariant: equal seeds draw equal configurations; each is legal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from harness.protocol.dice import Dice

__all__ = ["draw_config"]

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
    choices: Dice,
    *,
    mode: str,
    profile: str,
    abilities: Collection[str],
    reissued: bool,
    values: Collection[object],
) -> Mapping[str, Any]:
    """One configuration; `reissued`: it restores records whose order of re-issue is free."""
    config: dict[str, Any] = {
        "mode": mode,
        "capacity": _CAPACITIES[choices.index(len(_CAPACITIES))],
        "timeout_ms": choices.index(3) and choices.between(1, 14),
    }
    if profile != "strict" or choices.index(4) == 0:
        config["profile"] = profile
    if config["timeout_ms"] and choices.index(8):
        config["on_timeout"] = _ON_TIMEOUT[choices.index(len(_ON_TIMEOUT))]
    if config["timeout_ms"] and "retry" in abilities and choices.index(4):
        config["retry"] = _retry(choices, shared_delay=not reissued)
        config["timeout_ms"] += choices.index(16)  # so that more than one attempt often fits
    if values and choices.index(25) == 0:
        config["invoke_throws"] = [[*values][choices.index(len(values))]]
    return config


def _retry(choices: Dice, *, shared_delay: bool) -> Mapping[str, Any]:
    """Exponential only where every record's turn is fixed: under `flink` all share one delay (A82)."""
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
