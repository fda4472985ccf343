"""Claims of form 1.1 that a legal history keeps: acknowledgements, causes, results by key, versions, expectations.

It shares no code with the checkers. Tables are the model's own (`legal_tables`).
"""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.modelled_parts import Json
from harness.system.choices import Choices


def with_legal_claims(header: Json, events: list[Json], choices: Choices) -> tuple[Json, list[Json]]:
    """Header and events with more, not numbered yet."""
    claims = _Claims(choices)
    for add in (claims.acknowledge, claims.explain, claims.key_and_version, claims.source):
        if claims.one_in(2):
            header, events = add(header, events)
    return header, events


class _Claims:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def acknowledge(self, header: Json, events: list[Json]) -> tuple[Json, list[Json]]:
        """Every snap, before its attempt does anything else; some acknowledgements come twice."""
        told: list[Json] = []
        for event in events:
            told.append(event)
            if event["k"] == "snap":
                ack = {"k": "ack", **{name: event[name] for name in ("s", "a", "c")}}
                told += [ack] * self.pick([1, 1, 1, 2])
        return header, told

    def explain(self, header: Json, events: list[Json]) -> tuple[Json, list[Json]]:
        """By name, by a fault that lasts as long as the run, or by a failure that was asked for."""
        operator = {**header["operator"], "on_error": "fail", "on_timeout": "dead"}
        header = {**header, "operator": operator, "explained": self.pick(["alone", "together"])}
        if self.one_in(3):
            begin = {"k": "fault", "f": "storm", "phase": "begin", "can": ["failed", "kill", "start", "res"]}
            return header, [begin, *events]
        named = [{"k": "fault", "f": "storm", "phase": "begin"}, *events]
        end = {"k": "fault", "f": "storm", "phase": "end", "evidence": {"killed": 1}}
        told = [*named, end] if self.one_in(2) else named
        return header, [self._by(event, told[:i]) for i, event in enumerate(told)]

    def _by(self, event: Json, before: list[Json]) -> Json:
        cause = {"by": self.pick(["outside", "planted", "storm"])}
        own = [e for e in before if e.get("s") == event.get("s") and "a" in e]
        latest = max((e["a"] for e in own if e["k"] == "start"), default=0)
        over = any(e["a"] == latest and e["k"] in {"ended", "failed", "kill"} for e in own)
        match event["k"]:
            case "res" if event["final"] and event["r"] == "fail":
                return {**event, **cause}
            case "failed":
                # Its record's failure comes right before it, and was asked for.
                return event if self.one_in(2) else {**event, **cause}
            case "kill":
                return {**event, **cause}
            case "start" if own and not over:
                return {**event, **cause}
            case _:
                return event

    def key_and_version(self, header: Json, events: list[Json]) -> tuple[Json, list[Json]]:
        """One change after the other, of every key; records of one key have equal results."""
        told: list[Json] = []
        ver, changing, known = 0, False, {}
        for event in events:
            if self.one_in(20) and event["k"] not in {"row", "read"}:
                ver += 0 if changing else self.choices.between(1, 2)
                phase = "end" if changing else "begin"
                changing = not changing
                told.append({"k": "change", "phase": phase, "ver": ver})
            call = tuple(event.get(name) for name in ("s", "a", "id", "try"))
            if event["k"] == "call":
                known[call] = ver
            told.append(event)
            if event["k"] == "res" and event["r"] == "ok" and call in known and not self.one_in(4):
                begun = [e["ver"] for e in told if e["k"] == "change" and e["ver"] >= known[call]]
                told[-1] = {**event, "ver": self.pick([known[call], ver, *begun])}
        if all("key" not in e for e in events):
            told = [self._key(event) for event in told]
        own = all(e["key"] == ["own", e["id"]] for e in told if "key" in e)
        return {**header, "versions": True, "by_key": own}, told

    def _key(self, event: Json) -> Json:
        return {**event, "key": ["own", event["id"]]} if event["k"] == "in" else event

    def source(self, header: Json, events: list[Json]) -> tuple[Json, list[Json]]:
        """Given, but for histories that never have an `expect`."""
        return {**header, "expect_from": self.pick(["given", "calm"])}, events
