"""What replaces a sink or a pool at level sim while those are simulated classes: the table's variants, adapted.

Answers to `harness.defects`, where every defect is named. Invariant: only the parts that a simulated class stands in
for differ from the table's; with the real classes at level sim, this module goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.defects import DEFECTS
from harness.defects.checkpoints import reading_backwards
from harness.mutants.of_clients import (
    answering_after_close,
    cancelling_nothing,
    losing_rows,
    reusing_cancelled,
)
from harness.mutants.of_sinks import (
    assuming_committed,
    checking_before,
    committing_again,
    committing_at_snapshot,
    committing_blindly,
    keeping_output,
    unfenced,
    writing_at_once,
)
from harness.sut.variant import HONEST, Variant, same

__all__ = ["simulated", "variant_of"]

_SINKS: Mapping[str, Any] = {
    "state-read-backwards": reading_backwards,
    "output-not-rolled-back": keeping_output,
    "zombie-accepted": unfenced,
    "fence-checked-before": checking_before,
    "insert-without-key": same,
    "commits-at-snapshot": committing_at_snapshot,
    "commits-again": committing_again,
    "commits-blindly": committing_blindly,
    "assumes-committed": assuming_committed,
    "sink-outside-transaction": writing_at_once,
}
_CLIENTS: Mapping[str, Any] = {
    "late-results": cancelling_nothing,
    "emits-after-close": answering_after_close,
    "loss-is-no-row": losing_rows,
    "cancelled-connection-reused": reusing_cancelled,
}


def variant_of(name: str | None) -> Variant:
    """What the defect `name` replaces at level sim."""
    return HONEST if name is None else simulated(name, DEFECTS[name].variant)


def simulated(name: str, variant: Variant) -> Variant:
    """`variant` of the defect `name`, for simulated sinks and clients."""
    if name in _SINKS:
        return replace(variant, sink=_SINKS[name], coordination=same)
    if name in _CLIENTS:
        return replace(variant, client=_CLIENTS[name], pool=same, lookup=same)
    return variant
