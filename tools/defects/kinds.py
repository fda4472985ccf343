"""The kinds of planted defects beside those that name who convicts them: of one part, and strangers'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.sut.defects.defect import EVERY_LEVEL, Applies, Defect, anywhere
from harness.sut.variant import Variant
from harness.system.levels import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDefect:
    """A planted defect of one part of the reference, which only a property test of that part convicts."""

    name: str
    about: str
    """What is wrong, as half a sentence."""
    mirrors: str
    """The ticket, or the mistake, that it stands for."""
    replaces: str
    """The part of `reference_impl` in whose place `wrong` is used, by name."""
    statements: tuple[str, ...]
    """The statements of the specification that it breaks, such as C21 (`docs/reference/statements.md`)."""
    wrong: Any
    """The wrong class, or a function that builds one: a test hands it in where the reference has `replaces`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A planted defect of somebody who has not looked at the checkers: its author names a promise, and no invariant.

    `tools/defects/strangers_trial.py` shows which invariant convicts it, and compares that with `convicted_by`.
    """

    name: str
    about: str
    """What is wrong, as half a sentence."""
    component: str
    """The part of the system that is wrong, in a word or two."""
    breaks: str
    """The promise that its author expects it to break, as half a sentence."""
    variant: Variant
    """The parts of a run that it replaces."""
    where: str = "anywhere"
    """What a scenario must have so that it can show, in words."""
    applies: Applies = anywhere
    """The same as a question about a scenario."""
    levels: tuple[Level, ...] = EVERY_LEVEL
    """The levels at which it can show; none: no run of the harness reaches it."""
    scenario: str | None = None
    """A scenario of the catalogue in which its history, or its tables, differ from the reference's."""
    settings: tuple[str, ...] = ()
    """Settings of that scenario with which it shows (`--set`)."""
    survives: str | None = None
    """Why it may survive a trial; None: it may not."""
    convicted_by: tuple[str, ...] = ()
    """The invariants of its first conviction in a trial, of which at least one must fail; empty: it survived."""

    @property
    def defect(self) -> Defect:
        """As `--mutant` takes it."""
        names = ("name", "about", "convicted_by", "variant", "where", "applies", "levels", "scenario")
        return Defect(**{name: getattr(self, name) for name in names})
