"""The systems that this project serves: each a name, its abilities, and how its operator is built.

Invariant: an ability that is not listed is refused before the operator hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypedDict, Unpack

from harness.sut.serve.config import OperatorConfig
from harness.sut.serve.scripted_function import ScriptedFunction
from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.flip12.wait_operator import build_operator as build_emitter_operator
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import build_operator
from reference_impl.operator.quirks import PROFILES

__all__ = ["SYSTEMS", "BuildServed", "ServedOperator", "Surroundings", "System"]


class ServedOperator(Protocol):
    """What a conversation asks of an operator."""

    def open(self, restored: Sequence[QueueElement] = ()) -> None:
        """Replay a snapshot."""

    def process(self, element: OperatorInput) -> None:
        """Take an element in."""

    def snapshot(self) -> Sequence[QueueElement]:
        """What it holds."""

    def end_input(self) -> None:
        """Drain."""

    def close(self) -> None:
        """Release everything."""

    def __len__(self) -> int: ...


class Surroundings(TypedDict):
    """What an operator of a conversation works with."""

    function: ScriptedFunction
    executor: MailboxExecutor
    timers: Timers
    emit: Callable[[OperatorInput], None]
    fail: Callable[[BaseException], None]
    probe: ScriptedFunction


class BuildServed(Protocol):
    """Builds an operator for a conversation."""

    def __call__(self, config: OperatorConfig, **around: Unpack[Surroundings]) -> ServedOperator:
        """An operator as `config` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system under test that is part of this project."""

    name: str
    abilities: Sequence[str]
    build: BuildServed


def _build_reference(config: OperatorConfig, **around: Unpack[Surroundings]) -> ServedOperator:
    return build_operator(
        mode=config.mode,
        capacity=config.capacity,
        timeout_ms=config.timeout_ms,
        retry=config.retry,
        quirks=PROFILES[config.profile],
        **around,
    )


def _build_emitter(config: OperatorConfig, **around: Unpack[Surroundings]) -> ServedOperator:
    """Without `retry` and `quirks`: what is not claimed was refused."""
    return build_emitter_operator(
        mode=config.mode, capacity=config.capacity, timeout_ms=config.timeout_ms, **around
    )


SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "reference": System(
            name="reference",
            abilities=("ordered", "unordered", "retry", "snapshot", "status", "marker", "flink-profile"),
            build=_build_reference,
        ),
        "reference-emitter": System(
            name="reference-emitter",
            abilities=("ordered", "unordered", "snapshot", "marker"),
            build=_build_emitter,
        ),
    }
)
"""Each by the name that `--sut` takes."""
