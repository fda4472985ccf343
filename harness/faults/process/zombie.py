"""`zombie`: a worker is stopped and taken for dead; when its successor has written, it wakes, and goes on as if alone.

Answers to a process that a long pause made lose its lease. Evidence: an event of the old attempt after the start of
the new one, and the old one tried to commit; what became of that is said, and V13 judges it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from harness.clock import Deadline, wait_until
from harness.faults.fault import Site
from harness.faults.found import Line, attempt_of, is_speech
from harness.faults.kind import FaultKind
from harness.faults.process.suspension import awaited, suspended
from harness.faults.seen import Evidence, Seen
from harness.faults.workers import Succession
from harness.scenario import Fault

__all__ = ["KIND", "Zombie"]

_SUCCESSOR_S = 20.0
"""The longest that the old one is kept asleep beyond its time because the new one has not committed."""
_LAST_WORDS_S = 10.0
"""How long the old one may take to find out that it was replaced; then it is ended with the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zombie:
    """Of `subtask`."""

    subtask: int

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """It wakes when the block ends, but not before its successor has committed once."""
        who = awaited(partial(site.workers.process, self.subtask))
        if who is None:
            yield
            return
        succession: Succession | None = None
        try:
            with suspended(who, site.found):
                succession = site.workers.supersede(self.subtask)
                yield
                committed = partial(_has_committed, succession)
                wait_until(committed, deadline=Deadline(_SUCCESSOR_S))
                site.found(what="successor", commits=succession.successor_commits())
        finally:
            if succession is not None:
                wait_until(succession.old_one_is_over, deadline=Deadline(_LAST_WORDS_S))

    def evidence(self, seen: Seen) -> Evidence:
        """Who it was, who came, how many events of the old one followed, and what became of its commit."""
        stopped = seen.fact("stopped")
        if stopped is None or not seen.events:  # what makes it a zombie comes after its time
            return {}
        who = attempt_of(stopped["pid"], stopped["started"], seen.events)
        if who is None:
            return {}
        subtask, attempt = who
        mine = [line for line in seen.events if line.get("s") == subtask]
        successor = next((line for line in mine if line["k"] == "start" and line["a"] > attempt), None)
        if successor is None:
            return {}
        after = [
            line
            for line in mine
            if line.get("a") == attempt and line["t"] > successor["t"] and is_speech(line)
        ]
        commit = _commit_of(after)
        if commit is None:
            return {}
        return {
            "subtask": subtask,
            "attempt": attempt,
            "successor": successor["a"],
            "events_after_its_start": len(after),
            "commit": commit,
        }


def _has_committed(succession: Succession) -> bool:
    return succession.successor_commits() > 0


def _commit_of(after: Sequence[Line]) -> str | None:
    """What became of the commit that the old attempt tried; None: it tried none."""
    if any(line["k"] == "commit" for line in after):
        return "accepted"
    if any(line["k"] == "failed" and "Fenced" in line["error"] for line in after):
        return "refused"
    return "unanswered" if any(line["k"] == "~committing" for line in after) else None


def _made(fault: Fault, _seed: int) -> Zombie:
    assert fault.subtask is not None, "a scenario's zombie names its subtask"
    return Zombie(subtask=fault.subtask)


KIND = FaultKind(
    name="zombie",
    about="The worker of one subtask is stopped and replaced; it wakes once its successor has committed.",
    evidence="The old attempt wrote events after the new one's start, and tried to commit: refused, if all is well.",
    outside=_made,
    stalls=True,
)
