"""The counterexample of a run: the events of the record that the banner names, as steps for the timeline.

Answers to the marked operations of a Porcupine or Jepsen timeline. Invariant: each step is an event of the history;
its name (`e1`) is the one that the explanation gives the same event, so that text and drawing can link to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from harness.history.values import visible
from reports.conviction import AnomalyStory
from reports.history_view import Line

_STEPS: Final = 12
_LET: Final = re.compile(r"(e\d+) = .*\(event (\d+)[,)]", re.DOTALL)
_NAME: Final = re.compile(r"\b(e\d+)\b")
_SAVES: Final = frozenset({"snap", "commit"})
_ENDS: Final = frozenset({"kill", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event on the timeline."""

    n: int
    at_s: float
    s: int | None
    label: str
    name: str
    """Its name in the explanation: `e1`; empty if it has none."""
    told: str
    """The event in words, with its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """The steps of one anomaly, in the order of the history."""

    subject: str
    steps: tuple[Step, ...]

    @property
    def names(self) -> dict[str, int]:
        return {step.name: step.n for step in self.steps if step.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where the names in an explanation lead on a page."""

    names: frozenset[str]
    marks: dict[str, str]
    """The links from *Let* to the marks on the timeline."""
    lines: dict[str, str]
    """The links from *Then* to the lines of *Let*."""

    @classmethod
    def of(cls, told: Counterexample, anchor: str) -> Links:
        return cls(
            names=frozenset(told.names),
            marks={name: f"#{anchor}-at-{n}" for name, n in told.names.items()},
            lines={name: f"#{anchor}-{name}" for name in told.names},
        )


def counterexample_of(story: AnomalyStory) -> Counterexample | None:
    """The steps of a story; None if no event of it is known."""
    found = [_LET.match(line) for line in (story.explanation.let if story.explanation else ())]
    names = {int(let[2]): let[1] for let in found if let is not None}
    lines = list(_chosen(story.lineage or tuple(line for line in story.around if line.marked), names))
    steps = tuple(
        Step(
            n=line.n,
            at_s=line.at_s,
            s=line.s,
            label=line.label,
            name=names.get(line.n, ""),
            told=f"{line.at_s:.4f} s: {line.text}",
        )
        for line in lines
    )
    return (
        Counterexample(subject=story.subject.partition(",")[0] or story.kind, steps=steps) if steps else None
    )


def _chosen(lines: Sequence[Line], names: dict[int, str]) -> Iterator[Line]:
    """At most `_STEPS` events: those that the explanation names, then the first of the others."""
    restored = {(line.s, line.a) for line in lines if line.label.startswith("restore")}
    ended = next((line.n for line in lines if line.label in _ENDS), lines[-1].n + 1 if lines else 0)
    last = {_kind(line): line.n for line in lines if _kind(line) in _SAVES and line.n < ended}
    kept = [line for line in lines if line.n in names or line.marked or not _idle(line, last, restored)]
    cited = [line for line in kept if line.n in names or line.marked][:_STEPS]
    others = [line for line in kept if line not in cited][: _STEPS - len(cited)]
    yield from sorted([*cited, *others], key=lambda line: line.n)


def _idle(line: Line, last: dict[str, int], restored: set[tuple[int | None, int | None]]) -> bool:
    """Whether the event says nothing of the record's fate.

    Of the snapshots and commits only the last before the first death matters; a start is told by its restore.
    """
    kind = _kind(line)
    if kind in _SAVES:
        return last.get(kind) != line.n
    return kind == "start" and (line.s, line.a) in restored


def _kind(line: Line) -> str:
    return line.label.partition(" ")[0]


def linked(line: str, targets: dict[str, str]) -> Markup:
    """A line of an explanation in which each name that has a target (`e1`: `#run-1-at-7`) is a link to it."""
    parts: list[Markup] = []
    for part in _NAME.split(visible(line)):
        target = targets.get(part)
        parts.append(escape(part) if target is None else Markup('<a href="{}">{}</a>').format(target, part))
    return Markup("").join(parts)
