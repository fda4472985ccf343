"""The witnesses of a fault: those without whose word there would be no evidence of it (T10).

Answers to cross-examination: what each witness recorded is withheld in turn, and the evidence is asked for again.
Invariant: a name is never claimed, only found; a fault with one witness is believed on that one's word alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.faults.real.evidence import Evidence, RecordedFault, Seen, is_speech
from harness.history.notes import Acted, Dies, Line, Measured, Stops, Withheld

PROXY: Final = "the proxy's log"
CLIENTS: Final = "the clients' calls and errors"
ATTEMPTS: Final = "the attempts' journals"
HARNESS: Final = "the harness, which reaps processes"
FAULT: Final = "the fault itself"
_NOTED: Final[Mapping[str, str]] = {
    "server": "the server",
    "process": "the operating system",
    "job": "the operating system",
}
"""The source of a fault's notes, by what the fault acts on; for every other fault, the fault itself."""
_OWN: Final = Acted | Measured | Dies | Stops
"""The notes that a fault makes about itself inside an attempt."""


def witnesses_of(evidence: Callable[[Seen], Evidence], seen: Seen, *, by: str) -> tuple[str, ...]:
    """Who is needed for what `evidence` finds in `seen`; `by`: what the fault acts on (`Fault.by`)."""
    noted = _NOTED.get(by, FAULT)

    def holds_without(names: Collection[str]) -> bool:
        rest: dict[str, Any] = {}
        if PROXY in names and seen.log is not None:
            rest["log"] = ()
        if CLIENTS in names:
            rest |= {"calls": (), "losses": (), "errors": ()}
        if noted in names:
            rest["facts"] = ()
        elif PROXY in names:  # which told the fault what it held
            rest["facts"] = [fact for fact in seen.facts if "held" not in fact]
        if HARNESS in names:
            rest["failed_starts_us"] = ()
        rest["events"] = _without(seen.events, names)
        return bool(evidence(replace(seen, **rest)))

    return _needed(holds_without, (PROXY, CLIENTS, noted, ATTEMPTS, HARNESS))


def witnesses_of_found(
    found: Callable[[Sequence[Line]], RecordedFault | None], lines: Sequence[Line]
) -> tuple[str, ...]:
    """As `witnesses_of`, for a fault that attempts perform themselves."""

    def holds_without(names: Collection[str]) -> bool:
        shown = found(_without(lines, names))
        return shown is not None and bool(shown.evidence)

    return _needed(holds_without, (FAULT, ATTEMPTS, HARNESS))


def _without(lines: Sequence[Line], names: Collection[str]) -> Sequence[Line]:
    withheld = [line for line in lines if _writer(line) not in names]
    return withheld or [Withheld()]  # where there is no line at all, the run still goes on


def _writer(line: Line) -> str:
    if isinstance(line, _OWN):
        return FAULT
    return ATTEMPTS if is_speech(line) else HARNESS


def _needed(holds_without: Callable[[Collection[str]], bool], names: Sequence[str]) -> tuple[str, ...]:
    """The witnesses without which the evidence fails; if one is needed and not enough, also those that complete it."""
    needed = [name for name in names if not holds_without({name})]
    if len(needed) == 1:
        others = [name for name in names if name not in needed]
        if not holds_without(others):
            needed += [name for name in others if holds_without([other for other in others if other != name])]
    return tuple(needed)
