"""Planted defects: variants of the reference operator, each wrong in one way, to be convicted by a checker.

An operator's module has a `build_operator` like the honest one's (`reference_impl.async_wait_build`); those of the
mailbox are Flink's own, era by era.
Invariant: a mutant differs from the reference in the one thing that its name says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reference_impl.async_wait_build import BuildOperator
from reference_impl.mutants import snapshot_omits_completed, unordered_emission, watermarks_at_once
from reference_impl.mutants.mailbox_eras import MAILBOXES

__all__ = ["BUILDERS", "MAILBOXES"]

BUILDERS: Mapping[str, BuildOperator] = MappingProxyType(
    {
        "snapshot-omits-completed": snapshot_omits_completed.build_operator,
        "unordered-emission": unordered_emission.build_operator,
        "watermarks-at-once": watermarks_at_once.build_operator,
    }
)
"""Each planted defect by name."""
