"""The systems that this project serves: name, abilities and builder of each.

Invariant: a command that needs an unlisted ability is refused before the operator gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypedDict, Unpack

from harness.sut.serve.config import OperatorConfig, key_of
from harness.sut.serve.scripted_function import ScriptedFunction
from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.flip12.wait_operator import build_operator as build_emitter_operator
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import build_operator
from reference_impl.operator.quirks import FLINK_1_20, PROFILES, STRICT, Quirks


class ServedOperator(Protocol):
    """The operator methods that a conversation uses."""

    def open(self, restored: Sequence[QueueElement] = ()) -> None:
        """Opens the operator and replays a snapshot."""

    def process(self, element: OperatorInput) -> None:
        """Takes one element."""

    def snapshot(self) -> Sequence[QueueElement]:
        """The elements in the operator's queue."""

    def end_input(self) -> None:
        """Drains the operator."""

    def close(self) -> None:
        """Releases all resources."""

    def __len__(self) -> int: ...


class Collaborators(TypedDict):
    """The collaborators of an operator in a conversation."""

    function: ScriptedFunction
    executor: MailboxExecutor
    timers: Timers
    emit: Callable[[OperatorInput], None]
    fail: Callable[[BaseException], None]
    probe: ScriptedFunction


class BuildServed(Protocol):
    """Builds an operator for a conversation."""

    def __call__(self, config: OperatorConfig, **around: Unpack[Collaborators]) -> ServedOperator:
        """Builds the operator for `config`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One built-in system under test."""

    name: str
    abilities: Sequence[str]
    build: BuildServed


def _build_reference(
    config: OperatorConfig, *, quirks: Quirks | None = None, **around: Unpack[Collaborators]
) -> ServedOperator:
    """Shows the given `quirks`, whatever the configuration's profile."""
    return build_operator(
        mode=config.mode,
        capacity=config.capacity,
        timeout_ms=config.timeout_ms,
        retry=config.retry,
        quirks=PROFILES[config.profile] if quirks is None else quirks,
        key_of=None if config.key is None else partial(key_of, member=config.key),
        **around,
    )


def _build_emitter(config: OperatorConfig, **around: Unpack[Collaborators]) -> ServedOperator:
    """Without `retry` and `quirks`, which this system does not support and so refuses."""
    return build_emitter_operator(
        mode=config.mode, capacity=config.capacity, timeout_ms=config.timeout_ms, **around
    )


_OF_REFERENCE = (
    "ordered",
    "unordered",
    "keyed",
    "retry",
    "snapshot",
    "status",
    "marker",
    "flink-profile",
)
_QUIRKS: Mapping[str, Quirks] = {
    "A76": Quirks(late_outcome_counts_for_next_attempt=True),
    "A80": Quirks(timeout_outcome_is_judged=True),
    "A81": Quirks(attempt_outcome_beats_timeout=True),
    "A82": Quirks(backoff_is_shared=True),
    "A86": Quirks(last_calls_follow_registration=True),
}
QUIRK_SYSTEMS: Mapping[str, str] = MappingProxyType(
    {statement: f"reference-{statement.lower()}" for statement in _QUIRKS}
)
"""The reference with one quirk of Flink, by the statement's number; with it a difference from Flink is named."""


def _of_quirks(name: str, quirks: Quirks) -> System:
    """The reference with exactly these quirks, whatever profile a configuration asks for."""
    return System(name=name, abilities=_OF_REFERENCE, build=partial(_build_reference, quirks=quirks))


SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "reference": System(name="reference", abilities=_OF_REFERENCE, build=_build_reference),
        "reference-emitter": System(
            name="reference-emitter",
            abilities=("ordered", "unordered", "snapshot", "marker"),
            build=_build_emitter,
        ),
        "reference-flink-1.20": _of_quirks("reference-flink-1.20", FLINK_1_20),
        "reference-strict": _of_quirks("reference-strict", STRICT),
        **{name: _of_quirks(name, _QUIRKS[statement]) for statement, name in QUIRK_SYSTEMS.items()},
    }
)
"""The systems by name."""
