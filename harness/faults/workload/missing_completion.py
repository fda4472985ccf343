"""`missing_completion`: the adapter loses the completion of the first call of a record, or of several in a row.

Evidence: the attempt's note that an answer had come, and was lost.
"""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.workload.calls import measured_calls

__all__ = ["KIND"]

KIND = FaultKind(
    name="missing_completion",
    about="The adapter never completes calls, although their answers came.",
    evidence="The answer of a call that was picked came, and was passed on to nobody.",
    found=measured_calls,
)
