"""The implementations of the operator that can stand side by side, by name, with the command that serves each.

Invariant: what cannot be served here is a WorldError that names the command which gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.conform.oracle.program import FLINKS
from harness.conform.oracle.provide import find_oracle
from harness.conform.script_difference import serving_command
from harness.world.settings import WorldSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One that is ours to serve."""

    label: str
    asks: str
    system: str = ""
    """Its name for `floodmark sut serve`."""
    flink: str = ""
    """The release of a real Flink; empty for the others."""


BESIDE: Mapping[str, Implementation] = {
    "reference": Implementation(label="reference, strict", asks="strict", system="reference"),
    "reference-flink": Implementation(label="reference, flink", asks="flink", system="reference"),
    "flip-12": Implementation(label="FLIP-12's design", asks="strict", system="reference-emitter"),
    **{
        f"flink-{line}": Implementation(label=f"Flink {release}", asks="flink", flink=release)
        for line, release in FLINKS.items()
    },
}
"""The implementations that `floodmark conform --beside` accepts."""


def command_of(one: Implementation, settings: WorldSettings) -> Sequence[str]:
    """The command line that serves it. Raises WorldError if it is not set up."""
    return find_oracle(settings, version=one.flink) if one.flink else serving_command(one.system)
