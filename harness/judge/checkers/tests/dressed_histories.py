"""Legal histories with all that a header may claim and an event may carry, and still legal.

The model of `legal_histories` moves the elements; here they get keys, nonces, threads and mails, uneven times, gaps in
the numbering, bounds that they just keep, expectations that they just meet, and faults with evidence.
"""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.legal_claims import with_legal_claims
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.system.choices import Choices

Json = dict[str, Any]
OF_THE_MAILBOX = {"call", "res", "out", "owm", "snap"}
KEYS = [None, 0, 0.0, "k", ["k"], {"a": 1}]


def dressed_history(seed: int, **fixed: Any) -> list[Json]:
    """Header and events."""
    return _Dresser(seed).dress(legal_history(seed, tables=True, **fixed))


class _Dresser:
    def __init__(self, seed: int) -> None:
        self.choices = Choices(seed, "what a legal history carries")
        self.keyed, self.nonced, self.threaded = (self.one_in(2) for _ in range(3))

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def dress(self, lines: list[Json]) -> list[Json]:
        header = {**lines[0], "operator": dict(lines[0]["operator"])}
        events = [dict(event) for event in lines[1:]]
        if self.keyed:
            self._key(header["operator"], events)
        if self.nonced:
            self._nonces(events)
        self._threads(events)
        events = self._closed(self._faults(events))
        if "tables" in header or self.one_in(4):
            # Else it stays one of form 1.0, which the screen may acquit.
            header, events = with_legal_claims(header, events, Choices(self.choices.seed, "legal claims"))
        events = self._numbered(events)
        lasts_ms = events[-1]["t"] // 1000 + 1
        header["bounds"] = {"timeout_slack": lasts_ms, "recover": self.choices.between(0, 5)}
        if self.one_in(2):
            header["bounds"] |= {"watermark_hold": lasts_ms, "checkpoint_gap": lasts_ms}
        if self.one_in(2):
            header["expects"] = self._just_met(events)
        return [header, *events]

    def _key(self, operator: Json, events: list[Json]) -> None:
        """An unordered operator may only claim to keep an order that no two records have."""
        operator["per_key_order"] = True
        keys: dict[Any, Any] = {}
        for event in events:
            if event["k"] == "in" and event["id"] not in keys:
                few = self.pick(KEYS) if operator["mode"] == "ordered" else ["own", event["id"]]
                keys[event["id"]] = {} if self.one_in(4) else {"key": few}
            if event["k"] == "in":
                event.update(keys[event["id"]])

    def _nonces(self, events: list[Json]) -> None:
        sent: dict[Any, Any] = {}
        for number, event in enumerate(events):
            call = tuple(event.get(name) for name in ("s", "a", "id", "try"))
            if event["k"] == "call" and not self.one_in(6):
                event["nonce"] = sent[call] = self.pick([number, float(number), f"nonce {number}", [number]])
            elif event["k"] == "res" and call in sent and not self.one_in(4):
                event["nonce"] = sent[call]

    def _threads(self, events: list[Json]) -> None:
        for event in events:
            if self.threaded and "a" in event and event["k"] != "commit":
                own = f"task {event['s']}/{event['a']}"
                if not self.one_in(3):
                    event["thread"] = own if event["k"] in OF_THE_MAILBOX else self.pick([own, "source"])
            if self.one_in(8):
                event["mail"] = self.choices.index(9)

    def _faults(self, events: list[Json]) -> list[Json]:
        """Some that overlap, some that stop the operator, one that may last for ever."""
        for number in range(self.choices.index(3)):
            first, last = sorted(self.choices.index(len(events) + 1) for _ in range(2))
            begin = {"k": "fault", "f": self.pick(["cut", "pause"]), "phase": "begin"}
            stalls = {"stalls": True} if begin["f"] == "pause" else {}
            end = {"k": "fault", "f": begin["f"], "phase": "end", "evidence": {"bytes": number + 1}}
            ends = [] if self.one_in(6) else [end]
            events = [*events[:first], begin | stalls, *events[first:last], *ends, *events[last:]]
        return events

    def _closed(self, events: list[Json]) -> list[Json]:
        """What has ended may be closed, or reaped."""
        kept: list[Json] = []
        for event in events:
            kept.append(event)
            if event["k"] == "ended" and self.one_in(2):
                of = {"s": event["s"], "a": event["a"]}
                kept += [{"k": k, **of} for k in self.pick([["close"], ["kill"], ["close", "kill"]])]
        return kept

    def _numbered(self, events: list[Json]) -> list[Json]:
        n, t = self.choices.between(-5, 5), self.choices.index(1000)
        numbered = []
        for event in events:
            n += self.pick([1, 1, 1, 7])
            t += self.pick([0, 0, 10, 300, 2000])
            numbered.append({**event, "n": n, "t": t})
        return numbered

    def _just_met(self, events: list[Json]) -> Json:
        return {
            "records": len({event["id"] for event in events if event["k"] == "in"}),
            "restores": sum(event["k"] == "restore" for event in events),
            "faults": [event["f"] for event in events if event["k"] == "fault"],
        }
