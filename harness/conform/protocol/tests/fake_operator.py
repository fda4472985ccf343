"""A small operator that speaks the protocol, with a defect or an odd but legal habit planted by name.

No retry, no status: just enough for scripts to find each defect. Run as a program by `test_differential.py`; it knows
nothing of the harness. Invariant: without a plant it is right, and so it is with each habit.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

DEFECTS = {
    "drops the second result",
    "forgets the timestamp",
    "completes in order of arrival",
    "lets a key overtake itself",
    "lets a watermark overtake",
    "tells a whole value as a float",
    "fires a timer late",
    "times out a completed record",
    "forgets completed records in a snapshot",
    "stores the waiting element",
    "miscounts the queue",
    "names the wrong refusal",
    "names the wrong failure",
    "is never blocked by a watermark",
    "leaves a timer behind",
    "replays one element twice",
    "dies at a snapshot",
    "numbers calls from 2",
    "accepts anything when blocked",
}
HABITS = {
    "lists a segment backwards",
    "counts many mails",
    "says other words",
    "fails late",
    "says unblocked early",
    "writes blanks and other orders",
}


YOUTH = range(5, 20)


class Stop(Exception):
    """The task has failed: no mail runs any more."""


class Refusal(Exception):
    """The command is refused."""


class Entry:
    """A record or a watermark."""

    def __init__(self, element: dict[str, Any]) -> None:
        self.element = element
        self.is_record = "value" in element
        self.flag = not self.is_record
        self.results: list[Any] | None = None if self.is_record else []
        self.finished = 0


class Operator:
    """One life."""

    def __init__(self, command: dict[str, Any], plant: str, say: Callable[..., None], life: int) -> None:
        self.life = life
        self.config, self.now, self.plant, self.say = command["config"], command["now"], plant, say
        self.queue: list[Entry] = []
        self.waiting: deque[Entry] = deque()
        self.calls: list[Entry] = []
        self.mails: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[int, Entry]] = []
        self.due_snapshots: list[int] = []
        self.finished = 0
        self.blocked = self.draining = self.ended = self.failed = False
        self.restored = command["restore"] or []

    def replay(self) -> None:
        restored, plant = self.restored, self.plant
        if plant == "replays one element twice" and len(restored) > self.config["capacity"]:
            restored = [*restored, restored[-1]]
        for element in restored:
            self.give(Entry(element))

    def give(self, entry: Entry) -> None:
        if self.waiting or not self.room(entry):
            self.waiting.append(entry)
        else:
            self.admit(entry)

    def room(self, entry: Entry) -> bool:
        free = not entry.is_record and self.plant == "is never blocked by a watermark"
        return free or len(self.queue) < self.config["capacity"]

    def admit(self, entry: Entry) -> None:
        self.queue.append(entry)
        if not entry.is_record:
            if self.plant == "lets a watermark overtake" and len(self.queue) > 2:
                self.queue[-2:] = [entry, self.queue[-2]]
            return self.emit_one()
        if self.config["timeout_ms"]:
            self.timers.append((self.now + self.config["timeout_ms"], entry))
        self.calls.append(entry)
        value = entry.element["value"]
        if self.plant == "tells a whole value as a float" and type(value) is int:
            value = float(value)
        first = 2 if self.plant == "numbers calls from 2" else 1
        self.say(ev="call", call=len(self.calls) + first - 1, value=value, attempt=1)
        if entry.element["value"] in self.config.get("invoke_throws", []):
            self.fail("callback-error")
        return None

    def fail(self, error: str) -> None:
        self.failed = True
        wrong = self.plant == "names the wrong failure"
        words = "IT FAILED" if self.plant == "says other words" else "it failed"
        self.say(ev="failed", error="internal" if wrong else error, message=words)
        raise Stop

    def emittable(self) -> Entry | None:
        if self.config["mode"] == "ordered" or not self.queue or not self.queue[0].is_record:
            return self.queue[0] if self.queue and self.queue[0].results is not None else None
        size = next((place for place, entry in enumerate(self.queue) if not entry.is_record), len(self.queue))
        ready = [entry for entry in self.queue[:size] if entry.results is not None]
        if self.plant == "completes in order of arrival":
            return ready[0] if ready else None
        if self.config["mode"] == "keyed" and self.plant != "lets a key overtake itself":
            return self.next_of_a_key(self.queue[:size])
        return min(ready, key=lambda entry: entry.finished, default=None)

    def next_of_a_key(self, segment: list[Entry]) -> Entry | None:
        """The entry that has waited longest since it and all before it of its key were complete."""
        released: list[tuple[int, Entry]] = []
        for place, entry in enumerate(segment):
            line = [one for one in segment[: place + 1] if self.key(one) == self.key(entry)]
            if all(one.results is not None for one in line):
                released.append((max(one.finished for one in line), entry))
        return min(released, key=lambda one: one[0], default=(0, None))[1]

    def key(self, entry: Entry) -> str:
        value, member = entry.element["value"], self.config["key"]
        return json.dumps(value[member] if type(value) is dict and member in value else [value])

    def emit_one(self) -> None:
        entry = self.emittable()
        if entry is None:
            return
        self.queue.remove(entry)
        if not entry.is_record:
            self.say(ev="watermark", ts=entry.element["watermark"])
        results = entry.results or []
        for result in results[:1] if self.plant == "drops the second result" else results:
            forgets = self.plant == "forgets the timestamp"
            self.say(ev="emit", value=result, ts=None if forgets else entry.element["ts"])
        if self.emittable() is not None:
            self.mails.append(self.emit_one)

    def complete(self, entry: Entry, results: list[Any]) -> None:
        if not entry.flag:
            entry.flag = True
            self.mails.append(lambda: self.completed(entry, results))

    def completed(self, entry: Entry, results: list[Any]) -> None:
        if self.plant != "leaves a timer behind":
            self.timers = [(due, other) for due, other in self.timers if other is not entry]
        self.finished += 1
        entry.finished, entry.results = self.finished, results
        self.emit_one()

    def time_out(self, entry: Entry) -> None:
        if entry.flag and not (self.plant == "times out a completed record" and entry.results is None):
            return
        self.say(ev="timeout", value=entry.element["value"])
        answer = self.config.get("on_timeout", "fail")
        if answer == "fail" or "throw" in answer:
            self.fail("timeout" if answer == "fail" else "callback-error")
        elif answer != "nothing":
            self.complete(entry, answer["results"])

    def advance(self, to: int, *, hold: bool) -> None:
        late = self.plant == "fires a timer late"
        while due := [due for due, _ in self.timers if due < to + (not late)]:
            self.now = max(self.now, min(due))
            fired = [entry for due, entry in self.timers if due <= self.now]
            self.timers = [(due, entry) for due, entry in self.timers if due > self.now]
            for entry in fired:
                self.mails.append(lambda entry=entry: self.time_out(entry))  # type: ignore[misc]
            if not hold:
                self.run()
        self.now = to

    def run(self) -> None:
        while True:
            self.admit_waiting()
            if not self.mails:
                return
            self.mails.popleft()()

    def admit_waiting(self) -> None:
        while self.waiting and self.room(self.waiting[0]):
            entry = self.waiting.popleft()
            if self.plant == "says unblocked early" and self.blocked and not self.waiting:
                self.waits(value=False)
            self.admit(entry)
            if self.blocked and not self.waiting:
                self.waits(value=False)
            self.take_snapshots()

    def waits(self, *, value: bool) -> None:
        self.blocked = value
        self.say(ev="blocked" if value else "unblocked")

    def take_snapshots(self) -> None:
        while self.due_snapshots and not self.waiting and not (self.draining and not self.ended):
            self.snapshot(self.due_snapshots.pop(0))

    def snapshot(self, id_: int) -> None:
        if self.plant == "dies at a snapshot" and id_ > 3:
            sys.exit(9)
        forgets = self.plant == "forgets completed records in a snapshot"
        entries = [entry for entry in self.queue if not forgets or entry.results is None]
        if self.plant == "lists a segment backwards" and self.config["mode"] == "unordered":
            entries = backwards(entries)
        elements = [entry.element for entry in entries]
        self.say(ev="snapshot", id=id_, state=elements, elements=elements)

    def end(self) -> None:
        """After each command: what is to be said of how it stands."""
        if self.waiting and not self.blocked:
            self.waits(value=True)
        if self.draining and not self.ended and not self.queue:
            self.ended = True
            self.say(ev="ended")
        self.take_snapshots()

    def perform(self, command: dict[str, Any], *, hold: bool) -> None:
        name = command["cmd"]
        if name in {"complete", "fail"}:
            self.outcome(command)
        elif name == "element":
            self.give_or_run({"value": command["value"], "ts": command["ts"]}, hold=hold)
        elif name == "watermark":
            self.give_or_run({"watermark": command["ts"]}, hold=hold)
        elif name == "marker":
            self.say(ev="marker", id=command["id"])
        elif name == "advance":
            self.advance(command["to"], hold=hold)
        elif name == "end_input":
            self.draining = True
        elif name == "snapshot":
            self.due_snapshots.append(command["id"])
            if self.plant == "stores the waiting element" and self.waiting:
                self.queue.append(self.waiting.popleft())
            self.take_snapshots()

    def give_or_run(self, element: dict[str, Any], *, hold: bool) -> None:
        entry = Entry(element)
        if not hold and not self.room(entry):
            self.waiting.append(entry)
        else:
            self.give(entry)

    def outcome(self, command: dict[str, Any]) -> None:
        entry = self.calls[command["call"] - 1]
        if command["cmd"] == "complete":
            self.complete(entry, command["results"])
        elif not entry.flag:
            entry.flag = True
            if self.plant != "fails late":
                self.fail("user-error")
            self.mails.append(lambda: self.fail("user-error"))

    def counters(self) -> dict[str, Any]:
        mails = len(self.mails) * (5 if self.plant == "counts many mails" else 1)
        return {
            "queue": len(self.queue) + self.miscount(),
            "calls_running": sum(not entry.flag for entry in self.queue),
            "timers": len(self.timers),
            "mails": mails,
            "now": self.now,
        }

    def miscount(self) -> int:
        young = self.plant == "miscounts in its youth" and self.life in YOUTH
        return int(young or (self.plant == "miscounts the queue" and len(self.queue) > 2))


def backwards(entries: list[Entry]) -> list[Entry]:
    """Each segment's records the other way round."""
    listed: list[Entry] = []
    segment: list[Entry] = []
    for entry in entries:
        if entry.is_record:
            segment.insert(0, entry)
        else:
            listed += [*segment, entry]
            segment = []
    return listed + segment


WAITING = {"complete", "fail", "advance", "snapshot", "close", "stats"}
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "hello": {"protocol": (int,)},
    "open": {"config": (dict,), "now": (int,), "restore": (list, type(None))},
    "element": {"value": (object,), "ts": (int, type(None))},
    "watermark": {"ts": (int,)},
    "marker": {"id": (int,)},
    "complete": {"call": (int,), "results": (list,)},
    "fail": {"call": (int,), "error": (str,)},
    "advance": {"to": (int,)},
    "snapshot": {"id": (int,)},
    "notify": {"id": (int,), "outcome": (str,)},
    "end_input": {},
    "close": {},
    "stats": {},
}


class Server:
    """The conversation."""

    def __init__(self, plant: str) -> None:
        self.plant = plant
        self.operator: Operator | None = None
        self.lives = 0
        self.said: list[str] = []

    def say(self, **event: Any) -> None:
        odd = self.plant == "writes blanks and other orders"
        self.said.append(json.dumps(dict(reversed(event.items())) if odd else event))

    def serve(self) -> None:
        for line in sys.stdin:
            self.said.clear()
            try:
                self.answer(json.loads(line))
            except Refusal as refusal:
                self.say(ev="error", error=str(refusal), message="refused")
            except Stop:
                pass
            sys.stdout.write("".join(f"{said}\n" for said in self.said) + '{"ev":"quiet"}\n')
            sys.stdout.flush()

    def answer(self, command: dict[str, Any]) -> None:
        name = command.get("cmd")
        self.require(command, name)
        hold = command.get("hold", False)
        if name == "hello":
            abilities = ["ordered", "unordered", "keyed", "snapshot", "marker"]
            self.say(ev="hello", protocol=1, name="fake", version="0", abilities=abilities)
            return
        if name == "open":
            self.lives += 1
            self.operator = Operator(command, self.plant, self.say, self.lives)
            self.operator.replay()
            self.operator.run()
            self.operator.end()
            return
        operator = self.operator
        assert operator is not None, "required above"
        if name == "close":
            self.operator = None
            self.say(ev="closed", dropped_mails=len(operator.mails), timers=len(operator.timers))
            return
        if name == "stats":
            self.say(ev="stats", **operator.counters())
        if operator.failed:
            return
        operator.perform(command, hold=hold)
        if not hold:
            operator.run()
        operator.end()

    def require(self, command: dict[str, Any], name: object) -> None:
        if not isinstance(name, str) or (name not in FIELDS and name != "status"):
            raise Refusal("unknown-command")
        if name == "status":
            raise Refusal("unsupported")
        fields = FIELDS[name]
        if set(command) - {"cmd", "hold"} != set(fields) or type(command.get("hold", False)) is not bool:
            raise Refusal("bad-argument")
        for field, kinds in fields.items():
            wrong = not isinstance(command[field], kinds) or isinstance(command[field], bool)
            if wrong and kinds != (object,):
                raise Refusal("bad-argument")
        operator = self.operator
        if (operator is None) != (name in {"hello", "open"}):
            raise Refusal("bad-state")
        if operator is None:
            return
        self.require_state(operator, name)
        if name == "notify" and command["outcome"] not in {"complete", "abort"}:
            raise Refusal("bad-argument")
        if name == "advance" and command["to"] < operator.now:
            raise Refusal("bad-argument")
        if name in {"complete", "fail"} and not 1 <= command["call"] <= len(operator.calls):
            raise Refusal("bad-argument" if self.plant == "names the wrong refusal" else "unknown-call")

    def require_state(self, operator: Operator, name: str) -> None:
        allowed = True
        if operator.failed:
            allowed = name in {"stats", "close"}
        elif operator.draining or (operator.blocked and self.plant != "accepts anything when blocked"):
            allowed = name in WAITING or (operator.ended and name == "notify")
        if not allowed:
            raise Refusal("bad-state")


if __name__ == "__main__":
    Server(" ".join(sys.argv[1:])).serve()
