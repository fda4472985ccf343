"""Events of a history in words: one short line each, the same in every form of a report.

Invariant: only what the event itself says is said; a field that is missing is shown as `?`, for a report
must come out of any history that a checker has judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.explanation.event_lines import Json
from harness.visible import brief, visible

__all__ = ["describe_event", "element_ids"]

_ELEMENTS_SHOWN = 6


def describe_event(event: Json) -> str:
    """What happened, in at most a line."""
    words = _WORDS.get(str(event.get("k")), _other)
    return words(event)


def element_ids(event: Json) -> list[Any]:
    """The ids of the records that a `snap` or `restore` holds."""
    elements = event.get("elements")
    if not isinstance(elements, list):
        return []
    return [element["id"] for element in elements if isinstance(element, dict) and "id" in element]


def _named(event: Json, field: str) -> str:
    """An id, number or watermark as a reader writes it: a string keeps its quotes."""
    return brief(event[field], limit=48) if field in event else "?"


def _value(event: Json, field: str, before: str = " = ") -> str:
    return f"{before}{brief(event[field])}" if field in event else ""


def _held(event: Json) -> str:
    elements = event.get("elements")
    if not isinstance(elements, list):
        return "?"
    if not elements:
        return "nothing in flight"
    names = [_element(element) for element in elements[:_ELEMENTS_SHOWN]]
    more = len(elements) - len(names)
    return f"{len(elements)} in flight: " + ", ".join(names) + (f", and {more} more" if more else "")


def _element(element: object) -> str:
    if isinstance(element, dict) and "id" in element:
        return brief(element["id"], limit=24)
    if isinstance(element, dict) and "w" in element:
        return f"watermark {brief(element['w'], limit=24)}"
    return brief(element, limit=24)


def _start(event: Json) -> str:
    checkpoint = event.get("from")
    origin = "from the beginning" if checkpoint is None else f"from checkpoint {brief(checkpoint)}"
    return f"attempt {_named(event, 'a')} starts {origin}, source at position {_named(event, 'pos')}"


def _res(event: Json) -> str:
    last = ", final" if event.get("final") is True else ""
    word = visible(str(event.get("r", "?")))
    told = _value(event, "v") + _value(event, "error", ", error ")
    return f"outcome of record {_named(event, 'id')}, try {_named(event, 'try')}: {word}{last}{told}"


def _commit(event: Json) -> str:
    writer = f", written by attempt {_named(event, 'a')}" if "a" in event else ""
    return f"epoch {_named(event, 'c')} is committed{writer}"


def _fault(event: Json) -> str:
    if event.get("phase") == "begin":
        return f"fault {_named(event, 'f')} begins"
    return f"fault {_named(event, 'f')} has ended{_value(event, 'evidence', ', evidence ')}"


def _effect(event: Json) -> str:
    output = f"output {_named(event, 'j')} of " if "j" in event else ""
    return (
        f"row of {output}record {_named(event, 'id')} in the database's log, "
        f"commit {_named(event, 'seq')}, token {_named(event, 'token')}{_value(event, 'v')}"
    )


def _other(event: Json) -> str:
    return brief(dict(event), limit=100)


_WORDS: dict[str, Callable[[Json], str]] = {
    "start": _start,
    "restore": lambda e: f"checkpoint {_named(e, 'c')} is restored, {_held(e)}",
    "in": lambda e: (
        f"record {_named(e, 'id')} comes in at position {_named(e, 'pos')}{_value(e, 'expect', ', to yield ')}"
    ),
    "wm": lambda e: f"watermark {_named(e, 'w')} comes in at position {_named(e, 'pos')}",
    "call": lambda e: f"call for record {_named(e, 'id')}, try {_named(e, 'try')}",
    "res": _res,
    "out": lambda e: f"output {_named(e, 'j')} of record {_named(e, 'id')} leaves{_value(e, 'v')}",
    "owm": lambda e: f"watermark {_named(e, 'w')} leaves",
    "snap": lambda e: f"snapshot {_named(e, 'c')} at position {_named(e, 'pos')}, {_held(e)}",
    "dead": lambda e: f"record {_named(e, 'id')} goes to the dead letters",
    "failed": lambda e: f"the attempt reports its failure{_value(e, 'error', ': ')}",
    "end": lambda _: "the source is exhausted",
    "ended": lambda _: "the operator has drained",
    "close": lambda _: "the attempt is closed",
    "kill": lambda e: f"attempt {_named(e, 'a')} is dead: its process was reaped",
    "done": lambda e: f"checkpoint {_named(e, 'c')} is completed",
    "abort": lambda e: f"checkpoint {_named(e, 'c')} is given up",
    "retire": lambda e: f"no checkpoint up to {_named(e, 'c')} will be restored any more",
    "commit": _commit,
    "effect": _effect,
    "fault": _fault,
    "giveup": lambda e: f"the harness stopped waiting{_value(e, 'why', ': ')}",
}
