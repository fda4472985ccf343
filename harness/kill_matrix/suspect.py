"""A suspect: something to be convicted, the scenarios in which it can be, and who is meant to convict it.

Answers to a mutant in mutation testing. Invariant: a name that is no suspect is an error before anything runs, and a
user's own defect is judged as ours are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.defects import DEFECTS
from harness.errors import SutError, UsageError
from harness.scenario import Scenario
from harness.sut.registry import load_attribute
from harness.sut.variant import Variant

__all__ = ["OURS", "Suspect", "find_suspect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One defect, ready to be simulated."""

    name: str
    label: str
    """`M7`, or nothing."""
    about: str
    mirrors: str
    named: tuple[str, ...]
    """The invariants and checks meant for it; without any, whichever convicts it will do."""
    where: str
    """The scenarios in which it can show, in words."""
    applies: Callable[[Scenario], bool]
    variant: Variant
    scenario: str | None = None
    """Of the catalogue: it is tried there, and in no drawn scenario."""


def _ours(name: str) -> Suspect:
    defect = DEFECTS[name]
    return Suspect(
        name=name,
        label=defect.label,
        about=defect.about,
        mirrors=defect.mirrors,
        named=defect.convicted_by,
        where=defect.where,
        applies=defect.applies,
        variant=defect.variant,
        scenario=defect.tried_in,
    )


OURS = tuple(DEFECTS)
"""The names of all that are planted here, in the order of their numbers."""


def find_suspect(name: str) -> Suspect:
    """The planted defect `name`, or a user's own: `MODULE:ATTR`, a `Variant` or a `build_operator`."""
    if name in DEFECTS:
        return _ours(name)
    if ":" not in name:
        message = f"there is no mutant called {name!r}"
        raise UsageError(message, fix=f"MODULE:ATTR for your own, or one of: {', '.join(DEFECTS)}")
    return Suspect(
        name=name,
        label="",
        about="a defect of yours",
        mirrors="",
        named=(),
        where="anywhere",
        applies=lambda scenario: True,
        variant=_variant(load_attribute(name, option="--mutant", kind="ATTR"), name),
    )


def _variant(found: Any, name: str) -> Variant:
    if isinstance(found, Variant):
        return found
    if callable(found):
        return Variant(build_operator=found)
    message = f"--mutant {name} is {type(found).__name__}, neither a Variant nor a build_operator"
    raise SutError(message, fix="see harness/sut/variant.py for what a defect may replace")
