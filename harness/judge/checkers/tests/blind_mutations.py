"""Blind mutations of a history: events swapped, dropped, doubled, given each other's fields.

They mean nothing; many break the format. What is left shows whether two judges read the page alike.
"""

from __future__ import annotations

from typing import Any

from harness.system.choices import Choices

Json = dict[str, Any]


def mutated(lines: list[Json], choices: Choices, *, most: int = 4) -> list[Json]:
    """The same history after a few mutations, numbered again."""
    header, events = dict(lines[0]), [dict(event) for event in lines[1:]]
    for _ in range(choices.between(1, most)):
        _mutate(events, choices)
    if most > 1 and choices.index(3) == 0:
        header["sink"] = ["rollback", "append", "atomic", "two-phase"][choices.index(4)]
    return renumbered([header, *events])


def renumbered(lines: list[Json]) -> list[Json]:
    """In the order given; an event that was moved back in time comes when the one before it does."""
    t = 0
    numbered = [lines[0]]
    for n, event in enumerate(lines[1:], start=1):
        t = max(t, event.get("t", 0))
        numbered.append({**event, "n": n, "t": t})
    return numbered


def _mutate(events: list[Json], choices: Choices) -> None:
    here, there = choices.index(len(events)), choices.index(len(events))
    match choices.index(7):
        case 0:
            events[here], events[there] = events[there], events[here]
        case 1 if len(events) > 2:
            del events[here]
        case 2:
            events.insert(there, dict(events[here]))
        case 3:
            shared = [name for name in events[here] if name in events[there] and name != "k"]
            name = shared[choices.index(len(shared))]
            events[here] = {**events[here], name: events[there][name]}
        case 4 if events[here]["k"] in {"snap", "restore"} and events[here]["elements"]:
            elements = list(events[here]["elements"])
            elements.append(elements.pop(choices.index(len(elements))))
            events[here] = {**events[here], "elements": elements + elements[: choices.index(2)]}
        case 5 if events[here]["k"] == "snap":
            events[here] = {**events[here], "pos": events[here]["pos"] + choices.between(-1, 1)}
        case _:
            telling = [i for i, e in enumerate(events) if e["k"] in {"out", "owm", "snap", "res"}]
            if len(telling) > 1:
                at = choices.index(len(telling) - 1)
                one, two = telling[at], telling[at + 1]
                events[one], events[two] = events[two], events[one]
