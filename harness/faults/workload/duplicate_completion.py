"""`duplicate_completion`: the adapter completes the first call of a record, or of several in a row, two times.

Evidence: the attempt's note that the handle was used a second time, after the first use went through.
"""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.workload.calls import measured_calls

__all__ = ["KIND"]

KIND = FaultKind(
    name="duplicate_completion",
    about="The adapter completes calls twice.",
    evidence="The handle of a call that was picked was used a second time.",
    found=measured_calls,
)
