"""The faults by the name that scenarios use: what each does, and the evidence that it must leave.

Answers to Toxiproxy's list of toxics, by intent instead of mechanism. Invariant: a fault that a scenario can
name is here, and its evidence is something a run records, never the wish (V23).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULTS", "FaultKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of fault."""

    name: str
    about: str
    """What it does, one sentence."""
    evidence: str
    """What must be found in the run, or the run is vacuous."""


_ALL = (
    FaultKind(
        name="latency",
        about="Everything that crosses the link arrives later, by `delay` give or take `jitter`.",
        evidence="Calls that began under it took longer in the median, by at least half the delay.",
    ),
    FaultKind(
        name="blackhole",
        about="The link swallows what crosses it: connections stay open and nothing answers.",
        evidence="Calls that began under it timed out or lost their connection, and none was answered.",
    ),
    FaultKind(
        name="down",
        about="The link stops listening: live connections are cut, new ones refused.",
        evidence="Connections were lost when it began, or refused while it lasted, with their error codes.",
    ),
    FaultKind(
        name="reset",
        about="The link goes on listening, and every connection is reset at its next bytes.",
        evidence="Connections were lost while it lasted, with their error codes.",
    ),
    FaultKind(
        name="kill_worker",
        about="The worker of one subtask dies by SIGKILL, once, at the named phase.",
        evidence="The attempt is silent after the kill, its process is gone, and a next attempt started.",
    ),
)

FAULTS: dict[str, FaultKind] = {kind.name: kind for kind in _ALL}
