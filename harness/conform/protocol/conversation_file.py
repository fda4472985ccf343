"""The catalogue of conversations: one file each, in the form in which the protocol's page shows one.

Answers to Maelstrom's and TigerBeetle's habit of tests that are data. Invariant: a file says all that its test needs;
what a line may leave open is written in `conversations/README.md` and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from harness.system.json_types import Json

FOLDER = Path(__file__).with_name("conversations")
HELLO = '{"cmd":"hello","protocol":1}'
GREETING = '{"ev":"hello","protocol":1,"name":"...","version":"...","abilities":[]}'

_ABILITY_OF = {
    '"status"': "status",
    '"marker"': "marker",
    '"snapshot"': "snapshot",
    '"notify"': "snapshot",
    '"retry":{': "retry",
    '"unordered"': "unordered",
    '"keyed"': "keyed",
}
"""What a command line needs to be claimed, by what stands in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A command as its line, and the events that answer it, `quiet` left out."""

    told: str
    answer: Sequence[str]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFile:
    """A file of the catalogue."""

    name: str
    claim: str
    profiles: Sequence[str]
    not_for: Mapping[str, str]
    """Systems that this file is not for, each with the reason."""
    greeted: bool
    """Whether it says `hello` itself, and looks at what comes before."""
    exchanges: Sequence[Exchange]

    def needs(self, profile: str) -> list[str]:
        """The abilities that it takes."""
        told = "\n".join(exchange.told for exchange in self.exchanges)
        needed = [ability for word, ability in _ABILITY_OF.items() if word in told]
        return needed + ["flink-profile"] * (profile == "flink")


class ConversationScript:
    """Chooses the next command by the answers so far. Mutable."""

    def __init__(self, exchanges: Sequence[Exchange], *, profile: str) -> None:
        self._exchanges = exchanges
        self._profile = profile
        self._states: dict[str, str] = {}

    def line(self, index: int) -> str:
        """With the profile, and with the states that it restores."""
        line = self._exchanges[index].told
        if self._profile != "strict" and '"profile":' not in line:
            line = line.replace('"config":{', f'"config":{{"profile":"{self._profile}",')
        for number, state in self._states.items():
            line = line.replace(f'"state of snapshot {number}"', state)
        return line

    def learn(self, answer: Sequence[str]) -> None:
        """Keep the states of its snapshots."""
        for event in map(json.loads, answer):
            if event["ev"] == "snapshot":
                self._states[str(event["id"])] = json.dumps(event["state"])


def catalogue() -> list[ConversationFile]:
    """All files, in order of their names."""
    files = {
        path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.txt"))
    }
    return [conversation_in(path.read_text(encoding="utf-8"), name=name) for name, path in files.items()]


def conversation_in(text: str, *, name: str) -> ConversationFile:
    """A conversation as a file holds it."""
    lines = text.splitlines()
    head = [line[2:] for line in takewhile(lambda line: line.startswith("#"), lines)]
    fields = dict(line.split(": ", 1) for line in head if line.startswith(("profiles: ", "not for ")))
    greeted = "greeting: in the file" in head
    spoken = [Exchange(told=HELLO, answer=(GREETING,), line=0)] if not greeted else []
    return ConversationFile(
        name=name,
        claim=" ".join(line for line in head if line.partition(": ")[0] not in {*fields, "greeting"}),
        profiles=fields.get("profiles", "strict").split(", "),
        greeted=greeted,
        not_for={key.removeprefix("not for "): why for key, why in fields.items() if key != "profiles"},
        exchanges=[*spoken, *_exchanges(lines)],
    )


def _exchanges(lines: Sequence[str]) -> Iterator[Exchange]:
    told, told_at, answer = "", 0, list[str]()
    for number, line in enumerate(lines, start=1):
        match line[:1]:
            case ">":
                if told_at:
                    yield Exchange(told=told, answer=tuple(answer), line=told_at)
                told, told_at, answer = line[2:], number, []
            case "<":
                answer.append(line[2:])
            case "#" | "":
                continue
            case _:
                raise ValueError(f"line {number} is no command, event or comment: {line!r}")
    if told_at:
        yield Exchange(told=told, answer=tuple(answer), line=told_at)


_NUMBERED = {"stats": "mails", "closed": "dropped_mails"}
_FREE_TEXTS = {"message", "state", "name", "version", "abilities"}


class Transcript:
    """What must be the same in two answers, answer after answer. Mutable: it knows what waits, and the mode.

    Written apart from `harness.conform.protocol.comparison`, so that neither hides a mistake of the other. Free are:
    where `blocked` and `unblocked` stand, and calls among emissions where something waited; the order of a snapshot
    inside a segment; texts; how many mails, if any; whatever else a failing command did, and the counts of what has
    failed. All else is compared to the letter.
    """

    def __init__(self) -> None:
        self._blocked = False
        self._failed = False
        self._ordered = True

    def take(self, told: str, answer: Sequence[str]) -> list[str]:
        """The next answer, as texts of which equal ones mean the same."""
        if '"open"' in told:
            self._ordered = '"ordered"' in told
            self._failed = self._failed and '"bad-state"' in "".join(answer)
        events = [json.loads(line) for line in answer]
        kinds = [event["ev"] for event in events]
        if "failed" in kinds:
            self._failed = True
            return [_text(event) for event in events if event["ev"] == "failed"]
        if self._failed and kinds in (["stats"], ["closed"]):
            return kinds
        waited = self._blocked or "blocked" in kinds
        self._blocked = (self._blocked or "blocked" in kinds) and not {"unblocked", "closed"} & {*kinds}
        told_events = [self._plain(event) for event in events if event["ev"] not in {"blocked", "unblocked"}]
        if waited:  # by its place among calls and among the rest, but not among both
            told_events.sort(key=lambda event: event["ev"] == "call")
        return [*map(_text, told_events), f"blocked: {self._blocked}"]

    def _plain(self, event: Json) -> Json:
        if event["ev"] == "snapshot":
            event["elements"] = list(self._in_segments(event["elements"]))
        number = _NUMBERED.get(event["ev"])
        if number is not None:
            event[number] = "some" if event[number] else "none"
        return event

    def _in_segments(self, elements: Sequence[Json]) -> Iterator[str]:
        segment = list[str]()
        for element in elements:
            segment.append(_text(element))
            if self._ordered or "value" not in element:
                yield from sorted(segment[:-1])
                yield segment[-1]
                segment = []
        yield from sorted(segment)


def _text(event: Json) -> str:
    """Equal for equal values only: 1, 1.0 and true are three."""
    return json.dumps({key: value for key, value in event.items() if key not in _FREE_TEXTS}, sort_keys=True)
