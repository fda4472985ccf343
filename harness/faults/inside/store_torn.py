"""`store_torn`: the newest parts of a subtask in the checkpoint store lose their second half.

Evidence: a later restore met that very file and passed it over.
"""

from __future__ import annotations

from harness.faults.inside.store_files import find_damage
from harness.faults.kind import FaultKind

__all__ = ["KIND"]

KIND = FaultKind(
    name="store_torn",
    about="The newest part of a subtask in the checkpoint store, or its newest `times`, loses its second half.",
    evidence="A restore met that file, found it torn, and went back to an older checkpoint.",
    found=find_damage,
)
