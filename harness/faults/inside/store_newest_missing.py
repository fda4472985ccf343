"""`store_newest_missing`: the newest parts of a subtask in the checkpoint store are gone.

Evidence: a later restore met that very file and passed it over.
"""

from __future__ import annotations

from harness.faults.inside.store_files import find_damage
from harness.faults.kind import FaultKind

__all__ = ["KIND"]

KIND = FaultKind(
    name="store_newest_missing",
    about="The newest part of a subtask in the checkpoint store, or its newest `times`, is gone.",
    evidence="A restore looked for that file, did not find it, and went back to an older checkpoint.",
    found=find_damage,
)
