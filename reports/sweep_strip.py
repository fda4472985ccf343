"""The strip of a sweep: each crash point of a job against what its run showed.

Answers to the crash-point tables of file system testers (ALICE, CrashMonkey). Invariant: a point is a run that was
made, with the message that its evidence names; a run whose kill left no evidence is open, never good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.history.values import brief
from harness.scenario.outcome import RunOutcome
from reports.losses import words_of
from reports.reading import Tone, is_of_job, read_run

_KILL: Final = "kill_at_message"
_SINK: Final = "sink"
_LINKS: Final = (_SINK, "lookups")
_MOMENTS: Final = ("before", "after")
_LINE: Final = 60
"""Points in a line of text."""
_SIGNS: Final = {Tone.GOOD: ".", Tone.BAD: "X", Tone.OPEN: "?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StripPoint:
    """One run of a sweep: the job was killed before or after its n-th message over a link."""

    n: int
    moment: str
    run: int
    """The place of the run among all that are shown."""
    tone: Tone
    found: str
    """What was lost or doubled, in a few words; else the word of the verdict."""
    held: str
    """The message, as the evidence names it."""

    @property
    def told(self) -> str:
        where = self.held if self.held.startswith(self.moment) else f"{self.moment} message {self.n}"
        return f"killed {where}: {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """All points of one job and one link under one scenario."""

    scenario: str
    sut: str
    link: str
    rows: tuple[tuple[str, tuple[StripPoint, ...]], ...]
    """`before` and `after`, each with its points by n."""

    @property
    def points(self) -> tuple[StripPoint, ...]:
        return tuple(
            sorted((p for _, points in self.rows for p in points), key=lambda p: (p.n, p.moment == "after"))
        )

    def told_after(self, *, few: bool) -> Iterator[int]:
        """The runs of which their line in the strip says enough: of many, those that showed what an earlier one did."""
        seen: set[str] = set()
        for point in self.points:
            if point.found in seen and not few:
                yield point.run
            seen.add(point.found)

    @property
    def sentence(self) -> str:
        bad = sum(point.tone is Tone.BAD for point in self.points)
        undecided = sum(point.tone is Tone.OPEN for point in self.points)
        more = f", {undecided} showed nothing" if undecided else ""
        of_link = "" if self.link == _SINK else f" of the {self.link}' link"
        return f"{len(self.points)} crash points{of_link} tried: {bad} broke a promise{more}."


def crash_point_of(outcome: RunOutcome) -> tuple[int, str, str] | None:
    """The n, the moment and the link of a run whose only fault is a kill at a message; None of any other."""
    faults = outcome.plan.get("faults")
    if not is_of_job(outcome.level) or not isinstance(faults, list | tuple) or len(faults) != 1:
        return None
    (fault,) = faults
    when = fault.get("when") if isinstance(fault, Mapping) and fault.get("do") == _KILL else None
    link = next((link for link in _LINKS if isinstance(when, Mapping) and when.get(link) == "message"), None)
    if link is None or not isinstance(when, Mapping):
        return None
    return int(when.get("nth", 1)), str(when.get("moment", "before")), link


def point_in_words(outcome: RunOutcome) -> str:
    """` before message 3`, ` after lookups message 3`; empty: the run is no crash point."""
    point = crash_point_of(outcome)
    if point is None:
        return ""
    n, moment, link = point
    return f" {moment} message {n}" if link == _SINK else f" {moment} {link} message {n}"


def strips_of(outcomes: Sequence[RunOutcome], *, places: Sequence[int] | None = None) -> tuple[Strip, ...]:
    """One for each job, scenario and link of which at least two crash points were tried.

    `places`: the place of each outcome among all runs; None: they are all runs.
    """
    found: dict[tuple[str, str, str], list[StripPoint]] = {}
    for index, outcome in enumerate(outcomes):
        point = crash_point_of(outcome)
        if point is not None:
            place = index if places is None else places[index]
            n, moment, link = point
            found.setdefault((outcome.scenario, outcome.sut, link), []).append(
                _point(place, outcome, n, moment)
            )
    return tuple(
        Strip(
            scenario=scenario,
            sut=sut,
            link=link,
            rows=tuple(
                (moment, of_moment)
                for moment in _MOMENTS
                if (of_moment := tuple(sorted((p for p in points if p.moment == moment), key=lambda p: p.n)))
            ),
        )
        for (scenario, sut, link), points in found.items()
        if len(points) > 1
    )


def _point(index: int, outcome: RunOutcome, n: int, moment: str) -> StripPoint:
    reading = read_run(outcome)
    evidence = outcome.faults[0].evidence if outcome.faults else {}
    held = evidence.get("held", "")
    if held is None:
        held = ""
    return StripPoint(
        n=n,
        moment=moment,
        run=index,
        tone=reading.tone,
        found=words_of(outcome.judgement) or reading.word,
        held=held if isinstance(held, str) else brief(held, limit=80),
    )


def strip_lines(strip: Strip) -> Iterator[str]:
    """The strip as text: for each n `.` held, `X` broke a promise, `?` showed nothing; then all that did not hold."""
    yield f"sweep of {strip.scenario} with {strip.sut}: {strip.sentence}"
    for moment, points in strip.rows:
        for first in range(0, len(points), _LINE):
            part = points[first : first + _LINE]
            signs = "".join(_SIGNS[point.tone] for point in part)
            yield f"  {moment:>6}  n={part[0].n:<4} {signs}"
    for point in strip.points:
        if point.tone is not Tone.GOOD:
            yield f"    {point.told}"
