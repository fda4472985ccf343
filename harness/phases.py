"""The phases: the named points in the life of an attempt, in the order in which it meets them.

Answers to the places at which Flink's own tests kill a task. Invariant: this list alone says which phases there are, by
which recorded events each is shown, and what a task needs to reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["NOT_RECORDED", "PHASES", "PHASE_FORMS", "PhaseForm", "PhaseName"]

PhaseName = Literal[
    "open", "restore.begin", "restore.mid", "restore.end", "accept", "wm", "timer", "call", "result", "emit",
    "align", "snap.begin", "snap.mid", "snap.end", "ack", "commit.pre", "commit.post", "notify", "drain", "close",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseForm:
    """What is known of one phase."""

    shown_by: tuple[str, ...] = ()
    """The kinds of recorded events that show that it was reached; none: it needs a note of its own."""
    needs: Literal["", "coordination", "task", "inputs"] = ""
    """`coordination`: a sink that is told of completed checkpoints; `task`: keyed state; `inputs`: more than one."""


PHASE_FORMS: Mapping[PhaseName, PhaseForm] = {
    "open": PhaseForm(shown_by=("start",)),
    "restore.begin": PhaseForm(),
    "restore.mid": PhaseForm(),
    "restore.end": PhaseForm(),
    "accept": PhaseForm(shown_by=("in", "wm")),
    "wm": PhaseForm(shown_by=("owm",)),
    "timer": PhaseForm(needs="task"),
    "call": PhaseForm(shown_by=("call",)),
    "result": PhaseForm(shown_by=("res",)),
    "emit": PhaseForm(shown_by=("out",)),
    "align": PhaseForm(needs="inputs"),
    "snap.begin": PhaseForm(),
    "snap.mid": PhaseForm(),
    "snap.end": PhaseForm(shown_by=("snap",)),
    "ack": PhaseForm(needs="coordination"),
    "commit.pre": PhaseForm(),
    "commit.post": PhaseForm(),  # `commit` is written behind it, and may be missing
    "notify": PhaseForm(needs="coordination"),
    "drain": PhaseForm(shown_by=("end",)),
    "close": PhaseForm(shown_by=("ended",)),
}

PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
NOT_RECORDED = frozenset(name for name, form in PHASE_FORMS.items() if not form.shown_by)
"""The phases that need a note of their own."""
