"""Small histories of runs that rescale: legal ones, whose subtasks are dealt anew once or twice.

`rescaled_history` draws them; `test_two_judges` mutates them blindly, so that both judges read what is broken alike.
"""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    commit,
    done,
    ended,
    event,
    history,
    left,
    owm,
    snap,
    start,
    took,
    wm,
)
from harness.system.choices import Choices

Json = dict[str, Any]
SINKS = ["rollback", "rollback", "atomic", "two-phase"]
PARTS = 3


class _Subtask:
    """One subtask of a generation. Mutable: what it has in flight, and where it stands."""

    def __init__(self, run: _Run, s: int, parts: list[int], share: list[Json], *, origin: int | None) -> None:
        self.run, self.s, self.a, self.parts = run, s, 1, parts
        self.share, self.origin = share, origin
        self.queue = list(share)
        self.pos = len(share)
        self.at = {part: run.places[part] for part in parts}

    def of(self) -> Json:
        return {"s": self.s, "a": self.a}

    def begins(self) -> None:
        self.run.note({**start(self.origin, self.pos), **self.of()})
        if self.origin is not None:
            self.run.note({**event("restore", c=self.origin, elements=self.share), **self.of()})
        for element in self.share:
            if "id" in element:
                self.run.note({**called(element["id"]), **self.of()})

    def takes(self) -> None:
        if self.run.choices.index(4) == 0:
            self.run.w += 1 + self.run.choices.index(2)
            self.run.note({**wm(self.run.w, self.pos), **self.of()})
            self.queue.append({"w": self.run.w, "pos": self.pos})
        elif self.parts:
            self.takes_from(self.parts[self.run.choices.index(len(self.parts))])
            return
        else:
            return
        self.pos += 1

    def reads_on(self) -> None:
        """To where any subtask has read its partitions."""
        for part in self.parts:
            while self.at[part] < self.run.read.get(part, 0):
                self.takes_from(part)

    def takes_from(self, part: int) -> None:
        record = part * 100 + self.at[part]
        told = {"key": part, "part": part, "at": self.at[part]} if self.run.tells_places else {"key": part}
        self.run.note({**took(record, self.pos, ts=record, **told), **self.of()})
        self.run.note({**called(record), **self.of()})
        self.at[part] += 1
        self.run.read[part] = max(self.at[part], self.run.read.get(part, 0))
        self.queue.append({"id": record})
        self.pos += 1

    def emits(self) -> None:
        """The first element of the queue leaves."""
        if not self.queue:
            return
        element = self.queue.pop(0)
        if "w" in element:
            self.run.note({**owm(element["w"]), **self.of()})
            return
        for told in (answered(element["id"]), left(element["id"])):
            self.run.note({**told, **self.of()})

    def snaps(self, c: int) -> None:
        self.run.note({**snap(c, self.pos, *self.queue), **self.of()})
        if self.run.sink == "atomic":
            self.run.note({**commit(c, a=self.a), "s": self.s})


class _Run:
    """A history in the making. Mutable."""

    def __init__(self, seed: int) -> None:
        self.choices = Choices(seed, "histories that rescale")
        self.told: list[Json] = []
        self.places = dict.fromkeys(range(PARTS), 0)
        self.read: dict[int, int] = {}
        self.w = 0
        self.numbers = 0
        self.sink = SINKS[self.choices.index(len(SINKS))]
        self.tells_places = self.choices.index(3) > 0

    def note(self, told: Json) -> None:
        self.told.append(told)

    def dealt(self, count: int) -> list[list[int]]:
        """The partitions of each of `count` subtasks."""
        return [[part for part in range(PARTS) if part * count // PARTS == index] for index in range(count)]

    def generation(self, shares: list[list[Json]], *, origin: int | None) -> list[_Subtask]:
        dealt = self.dealt(len(shares))
        subtasks = []
        for parts, share in zip(dealt, shares, strict=True):
            placed = [{**e, "pos": place} if "w" in e else e for place, e in enumerate(share)]
            subtasks.append(_Subtask(self, self.numbers, parts, placed, origin=origin))
            self.numbers += 1
        for one in subtasks:
            one.begins()
        return subtasks

    def works(self, subtasks: list[_Subtask]) -> None:
        for _ in range(self.choices.between(2, 8) * len(subtasks)):
            one = subtasks[self.choices.index(len(subtasks))]
            if self.choices.index(5) < 3:
                one.takes()
            else:
                one.emits()

    def rescales(self, subtasks: list[_Subtask], c: int) -> list[_Subtask]:
        for one in subtasks:
            one.snaps(c)
            self.places |= one.at
        stored = [element for one in subtasks for element in one.queue]
        if self.sink != "atomic":
            self.note(done(c))
        if self.sink == "two-phase":
            for one in subtasks:
                self.note({**commit(c, a=one.a), "s": one.s})
        if self.sink == "rollback" and self.choices.index(2):
            before = dict(self.places)
            self.works(subtasks)  # beyond the checkpoint: taken back
            self.places = before
        for one in subtasks:
            if self.choices.index(2):
                self.note(event("close", **one.of()))
        count = self.choices.between(1, 3)
        size = -(-len(stored) // count)
        shares = [stored[size * index : size * (index + 1)] for index in range(count)]
        of = [one.s for one in subtasks]
        self.note({"k": "rescale", "c": c, "of": of, "to": list(range(self.numbers, self.numbers + count))})
        return self.generation(shares, origin=c)


def rescaled_history(seed: int) -> list[Json]:
    """A legal history with one or two rescales, perhaps broken off."""
    run = _Run(seed)
    subtasks = run.generation([[]] * run.choices.between(1, 2), origin=None)
    for c in range(1, 2 + run.choices.index(2)):
        run.works(subtasks)
        subtasks = run.rescales(subtasks, c)
    run.works(subtasks)
    for one in subtasks:
        one.reads_on()
        while one.queue:
            one.emits()
        one.snaps(9)
    if run.sink != "atomic":
        run.note(done(9))
    if run.sink == "two-phase":
        for one in subtasks:
            run.note({**commit(9, a=one.a), "s": one.s})
    for one in subtasks:
        run.told += [{**told, **one.of()} for told in ended()]
    told = run.told[: run.choices.between(3, len(run.told))] if run.choices.index(6) == 0 else run.told
    return history(
        told, sink=run.sink, operator={"mode": ["ordered", "unordered"][run.choices.index(2)], "capacity": 99}
    )


def wrongly_rescaled(seed: int) -> list[Json]:
    """One whose rescale goes wrong: in a share, a start, a partition, or the `rescale` itself."""
    choices = Choices(seed, "what goes wrong at a rescale")
    header, *events = [dict(told) for told in rescaled_history(seed)]
    for _ in range(choices.between(1, 2)):
        _go_wrong(events, choices)
    return [header, *({**told, "n": n} for n, told in enumerate(events, start=1))]


def _go_wrong(events: list[Json], choices: Choices) -> None:
    def one_of(*kinds: str) -> int | None:
        places = [i for i, e in enumerate(events) if e["k"] in kinds]
        return places[choices.index(len(places))] if places else None

    what = choices.index(9)
    at = one_of(
        *(("restore",) if what < 5 else ("start",) if what == 5 else ("in",) if what == 6 else ("rescale",))
    )
    if at is None:
        return
    told = events[at]
    elements = list(told.get("elements", ()))
    match what:
        case 0 if elements:
            del elements[choices.index(len(elements))]
        case 1 if elements:
            elements.insert(choices.index(len(elements)), elements[choices.index(len(elements))])
        case 2:
            elements.reverse()
        case 3:
            elements.insert(
                choices.index(len(elements) + 1), {"id": choices.index(4) * 100 + choices.index(4)}
            )
        case 4:
            elements.insert(
                choices.index(len(elements) + 1), {"w": choices.index(4), "pos": choices.index(4)}
            )
        case 5 if told["from"] is not None:
            told["pos"] += choices.between(-1, 1)
        case 6 if "at" in told:
            told[["at", "part"][choices.index(2)]] = choices.index(3)
        case 7:
            told["c"] += choices.between(-1, 1)
        case 8:
            to = choices.index(len(events))
            events.insert(to, events.pop(at))
            return
    events[at] = {**told, "elements": elements} if told["k"] == "restore" else told
