"""Random histories that are legal: a small model of an operator, its sources, sink and coordinator.

It shares no code with the checkers, so what it never does wrong is what they must never convict. Everything is
drawn from one seed. A queue per attempt, checkpoints by a coordinator, crashes that leave zombies behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.judge.checkers.tests.legal_tables import drawn_tables, read_tables
from harness.judge.checkers.tests.modelled_parts import Attempt, Entry, Json, Saved, Settled, Subtask
from harness.system.choices import Choices

STEPS_MAX = 20_000
SLACK_MS = 1000
"""The model has no clock: an answer may take as long as a run."""


class Model:
    """One run. `lines` is header and events in the end."""

    def __init__(self, seed: int, **fixed: Any) -> None:
        self.choices = Choices(seed, "a legal history")
        self.mode = fixed.get("mode") or self.pick(["ordered", "unordered"])
        self.sink = fixed.get("sink") or self.pick(["rollback", "append", "atomic", "two-phase"])
        self.effects = fixed.get("effects") or self.pick([None, "records", "outputs"])
        self.coalesces = self.one_in(4) and not fixed.get("plain")
        self.plain = bool(fixed.get("plain"))
        self.crashes = 0 if fixed.get("calm") else self.choices.between(0, 4)
        self.capacity = self.choices.between(1, 6)
        self.slots = not self.one_in(4)
        self.events: list[Json] = []
        self.checkpoint = 0
        self.asked: set[int] = set()
        self.snapped: set[int] = set()
        self.faulty = self.one_in(2)
        drawing = Choices(seed, "tables of a legal history")
        self.tables = drawn_tables(drawing, self.sink, self.effects) if fixed.get("tables") else {}
        self.subtasks = [self._subtask(s) for s in range(self.pick([1, 1, 2, 2, 3]))]

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def _subtask(self, s: int) -> Subtask:
        source: list[Json] = []
        w = 0
        for pos in range(self.choices.between(4, 24)):
            if self.one_in(3):
                # A source may go back, unless its watermarks are to be told apart after coalescing.
                w += self.choices.between(1 if self.plain else 0 if self.coalesces else -1, 4)
                source.append({"w": w})
                continue
            record: Json = {"id": self.pick([s * 1000 + pos, f"r{s}/{pos}"])}
            record["yields"] = [f"{pos}.{j}" for j in range(self.pick([1, 1, 1, 0, 2, 3]))]
            if self.plain:
                record["yields"] = [f"{pos}.0"]
            record["told"] = bool(record["yields"]) and (self.plain or not self.one_in(4))
            if self.one_in(2):
                record["ts"] = self.pick([None, 5, pos])
            source.append(record)
        if self.one_in(2):
            source.append({"w": "end"})
        return Subtask(s=s, source=source, attempt=Attempt(a=0, pos=0))

    def note(self, k: str, **fields: Any) -> None:
        n = len(self.events) + 1
        self.events.append({"n": n, "t": n * 10, "k": k, **fields})

    def run(self) -> list[Json]:
        for subtask in self.subtasks:
            self._start(subtask, None)
        if self.faulty:
            self.note("fault", f="latency", phase="begin", stalls=False)
        for _ in range(STEPS_MAX):
            if all(subtask.ended and not subtask.commits for subtask in self.subtasks):
                break
            self._coordinate()
            self._step(self.pick(self.subtasks))
        else:
            raise AssertionError("the model does not come to its end")
        if self.faulty:
            self.note("fault", f="latency", phase="end", evidence={"slow": 3})
        self._read_effects()
        rows = read_tables(self.tables, self.subtasks, self.events, self.choices)
        for row in rows:
            self.note(**row)
        return [self.header(), *self.events]

    def header(self) -> Json:
        operator: Json = {"mode": self.mode, "capacity": self.capacity, "timeout_ms": 1, "max_tries": 3}
        if self.coalesces:
            operator["coalesces_watermarks"] = True
        if not self.slots:
            operator["watermark_slots"] = False
        header: Json = {"history": 1, "operator": operator, "sink": self.sink}
        header["bounds"] = {"timeout_slack": SLACK_MS}
        header |= {"tables": self.tables} if self.tables else {}
        return header | ({"effects": self.effects} if self.effects else {})

    def _coordinate(self) -> None:
        running = {subtask.s for subtask in self.subtasks if not subtask.ended}
        if not self.asked and running and self.one_in(12):
            self.checkpoint += self.choices.between(1, 2)
            self.asked = set(running)
            self.snapped = set()
        elif self.asked and self.asked <= self.snapped:
            if self.sink != "atomic" or self.one_in(2):
                self.note("done", c=self.checkpoint)
            for subtask in self.subtasks:
                if subtask.s in self.asked and self.sink != "atomic":
                    self._completed(subtask)
            self.asked = set()

    def _completed(self, subtask: Subtask) -> None:
        assert subtask.pending is not None
        subtask.completed.append(subtask.pending)
        subtask.pending = None
        subtask.since_completed = subtask.attempt.emitted
        if self.sink == "two-phase":
            subtask.commits += [(c, subtask.attempt.a) for c in subtask.attempt.queued]
        subtask.attempt.queued = []

    def _step(self, subtask: Subtask) -> None:
        if subtask.commits and self.one_in(3):
            c, a = subtask.commits.pop(0)
            self.note("commit", s=subtask.s, c=c, a=a)
        if subtask.zombies and self.one_in(3):
            self._haunt(subtask)
        if subtask.ended:
            return
        if self.crashes and self.one_in(25) and self._may_crash(subtask):
            self._crash(subtask)
        elif subtask.s in self.asked and subtask.s not in self.snapped and self.one_in(3):
            self._snap(subtask)
        else:
            self._work(subtask, subtask.attempt, live=True)

    def _work(self, subtask: Subtask, attempt: Attempt, *, live: bool) -> None:
        match self.choices.index(4):
            case 0:
                self._take(subtask, attempt)
            case 1:
                self._call(subtask, attempt)
            case 2:
                self._settle(subtask, attempt)
            case _:
                self._emit(subtask, attempt, live=live)
        if live:
            self._maybe_end(subtask)

    def _haunt(self, subtask: Subtask) -> None:
        zombie = self.pick(subtask.zombies)
        if self.one_in(6):
            self.note(self.pick(["kill", "close"]), s=subtask.s, a=zombie.a)
            subtask.zombies.remove(zombie)
        else:
            self._work(subtask, zombie, live=False)

    def _take(self, subtask: Subtask, attempt: Attempt) -> None:
        if len(attempt.queue) > self.capacity or attempt.pos >= len(subtask.source):
            return
        element = subtask.source[attempt.pos]
        if "w" not in element and any(entry.waits for entry in attempt.queue):
            return
        of = {"s": subtask.s, "a": attempt.a, "pos": attempt.pos}
        if "w" in element:
            self.note("wm", **of, w=element["w"])
        else:
            expect = {"expect": element["yields"]} if element["told"] else {}
            ts = {"ts": element["ts"]} if "ts" in element else {}
            self.note("in", **of, id=element["id"], **ts, **expect)
        attempt.queue.append(Entry(element=element, pos=attempt.pos))
        attempt.pos += 1

    def _call(self, subtask: Subtask, attempt: Attempt) -> None:
        idle = [e for e in attempt.queue if e.tries and not e.ready and not e.calling]
        first = next((i for i, e in enumerate(attempt.queue) if e.waits), None)
        if first is not None and self._has_room(attempt.queue[:first]):
            idle.append(attempt.queue[first])
        if idle:
            entry = self.pick(idle)
            entry.tries += 1
            entry.calling = True
            self.note("call", s=subtask.s, a=attempt.a, id=entry.element["id"], **{"try": entry.tries})

    def _has_room(self, admitted: list[Entry]) -> bool:
        """Whether one more may be called, with these ahead of it."""
        return sum(self.slots or not entry.is_mark for entry in admitted) < self.capacity

    def _settle(self, subtask: Subtask, attempt: Attempt) -> None:
        called = [e for e in attempt.queue if e.calling]
        if not called:
            return
        entry = self.pick(called)
        entry.calling = False
        record = entry.element
        fate = (
            "ok"
            if self.plain
            else self.pick(["ok"] * 6 + ["retry", "timeout", "error", "fail", "dead", "fatal"])
        )
        res = {"s": subtask.s, "a": attempt.a, "id": record["id"], "try": entry.tries}
        match fate:
            case "retry" if entry.tries < 3:
                self.note("res", **res, r=self.pick(["fail", "unknown"]), final=False)
            case "fatal" if attempt is subtask.attempt and self.crashes and self._may_crash(subtask):
                entry.outputs = []
                self.note("res", **res, r="fail", final=True)
                named = {"id": record["id"]} if self.one_in(2) else {}
                self.note("failed", s=subtask.s, a=attempt.a, error="the lookup failed", **named)
                self._crash(subtask)
            case "timeout":
                entry.outputs = [f"instead of {record['id']}"] * self.choices.index(3)
                entry.substitute = True
                self.note("res", **res, r="timeout", final=True, v=entry.outputs)
            case "error" | "fail":
                entry.outputs = []
                error: Json = {"error": "late"} if fate == "error" or self.one_in(2) else {}
                self.note("res", **res, r="timeout" if fate == "error" else "fail", **error, final=True)
                self._write_dead_letter(subtask, attempt, entry, error)
            case "dead":
                entry.outputs = []
                self._write_dead_letter(subtask, attempt, entry, {"error": "refused"})
            case _:
                entry.outputs = list(record["yields"])
                self.note("res", **res, r="ok", final=True, v=entry.outputs)

    def _write_dead_letter(self, subtask: Subtask, attempt: Attempt, entry: Entry, letter: Json) -> None:
        """Where its table is read, no snap holds a record whose letter has left."""
        self.note("dead", s=subtask.s, a=attempt.a, id=entry.element["id"])
        if any("dead" in table["holds"] for table in self.tables.values()):
            attempt.queue.remove(entry)
            live = attempt is subtask.attempt
            self._left(subtask, attempt, live=live)
            if live:
                subtask.settled.append(Settled(attempt.a, entry.element, [], letter=letter))

    def _emit(self, subtask: Subtask, attempt: Attempt, *, live: bool) -> None:
        queue = attempt.queue
        if not queue:
            return
        if queue[0].is_mark:
            while self.coalesces and len(queue) > 1 and queue[1].is_mark and not self.one_in(3):
                queue.pop(0)
            self.note("owm", s=subtask.s, a=attempt.a, w=queue.pop(0).element["w"])
            self._left(subtask, attempt, live=live)
            return
        segment = next((i for i, e in enumerate(queue) if e.is_mark), len(queue))
        ready = [e for e in queue[: 1 if self.mode == "ordered" else segment] if e.ready]
        if ready:
            entry = self.pick(ready)
            queue.remove(entry)
            record, outputs = entry.element, entry.outputs or []
            for j, v in enumerate(outputs):
                ts = {} if self.one_in(2) else {"ts": record.get("ts")}
                self.note("out", s=subtask.s, a=attempt.a, id=record["id"], j=j, v=v, **ts)
            self._left(subtask, attempt, live=live)
            if live:
                subtask.settled.append(Settled(attempt.a, record, outputs, entry.substitute))

    def _left(self, subtask: Subtask, attempt: Attempt, *, live: bool) -> None:
        attempt.emitted += 1
        subtask.since_completed += live

    def _maybe_end(self, subtask: Subtask) -> None:
        attempt = subtask.attempt
        if attempt.pos < len(subtask.source):
            return
        if not attempt.end:
            self.note("end", s=subtask.s, a=attempt.a)
            attempt.end = True
        shown_late = self.sink in {"atomic", "two-phase"} and (subtask.since_completed or subtask.commits)
        waiting = subtask.s in self.asked and subtask.s not in self.snapped
        if not attempt.queue and not shown_late and not waiting and subtask.pending is None:
            self.note("ended", s=subtask.s, a=attempt.a)
            subtask.ended = True

    def _snap(self, subtask: Subtask) -> None:
        attempt = subtask.attempt
        entries = list(attempt.queue)
        self.note(
            "snap", s=subtask.s, a=attempt.a, c=self.checkpoint, pos=attempt.pos,
            elements=[entry.stored() for entry in entries],
        )  # fmt: skip
        fresh = [Entry(element=e.element, pos=e.pos) for e in entries]
        subtask.pending = Saved(self.checkpoint, attempt.a, attempt.pos, fresh, len(subtask.settled))
        attempt.emitted = 0
        attempt.queued.append(self.checkpoint)
        self.snapped.add(subtask.s)
        if self.sink == "atomic":
            if self.crashes and self.one_in(10):
                self._crash(subtask)
                return
            named = {} if self.one_in(4) else {"a": attempt.a}
            self.note("commit", s=subtask.s, c=self.checkpoint, **named)
            self._completed(subtask)

    def _may_crash(self, subtask: Subtask) -> bool:
        return self.sink != "append" or not subtask.since_completed

    def _crash(self, subtask: Subtask) -> None:
        self.crashes -= 1
        if self.asked:
            self.note("abort", c=self.checkpoint)
            self.asked = set()
            for other in self.subtasks:
                other.pending = None
        if self.sink == "append" or self.one_in(2):
            self.note("kill", s=subtask.s, a=subtask.attempt.a)
        else:
            subtask.zombies.append(subtask.attempt)
        if self.sink == "rollback" and len(subtask.completed) > 1 and self.one_in(3):
            subtask.completed.pop()
        elif self.one_in(3):
            self._retire()
        self._start(subtask, subtask.completed[-1] if subtask.completed else None)

    def _retire(self) -> None:
        """Give up what no subtask needs any more."""
        kept = min(other.completed[-1].c if other.completed else 0 for other in self.subtasks)
        self.note("retire", c=kept - 1)
        for other in self.subtasks:
            other.completed = [saved for saved in other.completed if saved.c >= kept]

    def _start(self, subtask: Subtask, saved: Saved | None) -> None:
        a = subtask.attempt.a + self.choices.between(1, 2)
        pos = saved.pos if saved else 0
        attempt = Attempt(a=a, pos=pos)
        subtask.attempt = attempt
        subtask.settled = subtask.settled[: saved.settled if saved else 0]
        subtask.since_completed = 0
        self.note("start", s=subtask.s, a=a, pos=pos, **{"from": saved.c if saved else None})
        if saved:
            attempt.queue = list(self._shuffled([Entry(element=e.element, pos=e.pos) for e in saved.entries]))
            stored = [entry.stored() for entry in attempt.queue]
            self.note("restore", s=subtask.s, a=a, c=saved.c, elements=stored)

    def _shuffled(self, entries: list[Entry]) -> Iterator[Entry]:
        """In unordered mode records between two watermarks may be replayed in any order."""
        segment: list[Entry] = []
        for entry in [*entries, None]:
            if entry is None or entry.is_mark or self.mode == "ordered":
                while segment:
                    yield segment.pop(self.choices.index(len(segment)))
            if entry is not None and (entry.is_mark or self.mode == "ordered"):
                yield entry
            elif entry is not None:
                segment.append(entry)

    def _read_effects(self) -> None:
        if not self.effects:
            return
        seq = 0
        for subtask in self.subtasks:
            for settled in sorted(subtask.settled, key=lambda item: item.a):
                record, outputs = settled.record, settled.outputs
                may_miss = settled.substitute and "both" not in self.tables
                if not outputs or (may_miss and self.one_in(2)):
                    continue
                rows: list[Json] = [{"j": j, "v": v} for j, v in enumerate(outputs)]
                if self.effects == "records":
                    rows = [{"v": self.pick([outputs, outputs[0] if len(outputs) == 1 else outputs])}]
                for row in rows:
                    seq += self.choices.between(1, 3)
                    given = {"j": row.pop("j")} if "j" in row else {}
                    told = row if self.one_in(2) else {}
                    self.note(
                        "effect", s=subtask.s, id=record["id"], token=settled.a, seq=seq, **given, **told
                    )


def legal_history(seed: int, **fixed: Any) -> list[Json]:
    """Header and events; with tables, for every second seed, if they are asked for."""
    return Model(seed, **fixed).run()
