"""All checkers, in the order of `harness.history.invariants`, which names their classes."""

from __future__ import annotations

from importlib import import_module

from harness.history.invariants import CATALOGUE
from harness.judge.checkers.invariant import Invariant


def _checker(at: str) -> Invariant:
    module, _, name = at.partition(":")
    checker: Invariant = getattr(import_module(f"{__package__}.{module}"), name)()
    return checker


CHECKERS: tuple[Invariant, ...] = tuple(_checker(of.checker) for of in CATALOGUE.values() if of.checker)
