"""The faults by the name that scenarios use: what each does, how it is done, and the evidence that it must leave.

Answers to Toxiproxy's list of toxics, by intent instead of mechanism. Invariant: a fault that a scenario can
name is here, and its evidence is something a run records, never the wish (V23).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.faults.database.kinds import DATABASE
from harness.faults.inside.kinds import INSIDE
from harness.faults.kind import FaultKind
from harness.faults.network.kinds import NETWORK
from harness.faults.network.packet_kinds import PACKETS
from harness.faults.process.kinds import PROCESS
from harness.faults.workload.kinds import WORKLOAD
from harness.scenario import FaultName
from harness.scenario_fault_kinds import FAULT_FORMS

__all__ = ["FAULTS"]

_KINDS: Mapping[FaultName, FaultKind] = {
    kind.name: kind for kind in (*NETWORK, *PACKETS, *DATABASE, *PROCESS, *INSIDE, *WORKLOAD)
}

FAULTS: Mapping[str, FaultKind] = {name: _KINDS[name] for name in FAULT_FORMS if name in _KINDS}
"""In the order in which scenarios list them."""
