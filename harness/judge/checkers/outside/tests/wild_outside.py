"""Random histories seen from outside that keep every rule: a job that mostly works, and now and then does anything.

The same seed gives the same history. A run is drawn step by step: offers, starts, transactions, exits, faults; then its
end, its readings, and a further start. Most transactions do what a right job does next; the others do harm.
"""

from __future__ import annotations

from typing import Any

from harness.system.choices import Draw

Json = dict[str, Any]
_VALUES = (["a"], ["b"], [1], [1.0], [None])
_FAULTS = ("kill", "cut")


def _header(draw: Draw) -> Json:
    claims: Json = {"delivery": draw.one_of("exactly-once", "exactly-once", "at-least-once", "at-most-once")}
    if draw.chance(600):
        claims["order"] = draw.one_of("none", "source", "key", "source")
    if draw.chance(400):
        claims["fenced"] = draw.chance(700)
    if draw.chance(600):
        claims["explained"] = True
    columns = draw.one_of(["id"], ["id"], ["id"], ["a", "b"])
    sink: Json = {
        "write": draw.one_of("append", "append", "replace", "upsert"),
        "id": columns,
        "values": ["v"],
    }
    if draw.chance(300):
        sink["j"] = "nr"
    if draw.chance(120):
        sink["changes"] = False
    header: Json = {
        "history": 1,
        "view": "outside",
        "claims": claims,
        "sink": sink,
        "expect_from": draw.one_of("given", "given", "calm", "none"),
        "partitions": draw.one_of(1, 1, 2),
    }
    if draw.chance(350):
        header["dead_letters"] = "dead"
    if draw.chance(700):
        header["bounds"] = {"recover": draw.one_of(0, 1, 2), "quiet": draw.one_of(0, 1, 2)}
    if draw.chance(200):
        header["expects"] = draw.one_of({"faults": ["kill"]}, {"records": 2}, {"starts": 2, "asked": 1}, {})
    if draw.chance(200):
        sink["rows"], sink["write"] = "key", "upsert"
        claims["delivery"] = "exactly-once"
        claims.pop("order", None)
        sink.pop("j", None)
        header.pop("dead_letters", None)
        header["expect_from"] = draw.one_of("given", "calm")
    if draw.chance(150):
        header["decisive"] = draw.one_of(["V8"], ["V13", "V1"], [], ["V23", "V2"])
    return header


class _Run:
    """One run while it is drawn. Mutable."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.header = _header(draw)
        self.is_calm = draw.chance(500)
        """Whether its job does harm seldom."""
        self.events: list[Json] = []
        self.t = 0
        self.pos = [0, 0]
        self.offers: list[Json] = []
        self.starts = 0
        self.alive: list[int] = []
        self.faults: list[str] = []
        self.tx = 0
        self.rows: list[Json] = []
        """What the table holds."""
        self.has_j = "j" in self.header["sink"]
        self.of_keys = self.header["sink"].get("rows") == "key"
        self.due: list[Json] = []
        """The expected rows, where rows are of keys."""
        self.logs = self.header["sink"].get("changes", True)

    def add(self, kind: str, **fields: Any) -> None:
        self.t += self.draw.one_of(0, 0, 1, 500, 1000, 2000)
        self.events.append({"n": len(self.events) + 1, "t": self.t, "k": kind, **fields})

    def id(self, number: int) -> Any:
        return number if len(self.header["sink"]["id"]) == 1 else [number, "x"]

    def offer(self) -> None:
        draw = self.draw
        part = draw.index(self.header["partitions"])
        self.pos[part] += draw.one_of(1, 1, 2)
        number = len(self.offers) + 1
        offer: Json = {"part": part, "pos": self.pos[part], "id": number if self.of_keys else self.id(number)}
        if draw.chance(600):
            offer["key"] = draw.one_of("k", "k", None, 1)
        if draw.chance(150):
            offer["fails"] = True
        elif draw.chance(100):
            offer["fails"] = False
        if self.of_keys:
            if draw.chance(600):
                row = {"id": self.id(draw.one_of(1, 2, 3)), "v": draw.one_of(*_VALUES)}
                self.due.append(row)
                self.add("expect", **row)
        elif self.header["expect_from"] != "none" and not offer.get("fails") and draw.chance(850):
            offer["expect"] = [draw.one_of(*_VALUES) for _ in range(draw.one_of(0, 1, 1, 1, 2, 3, 6))]
        if draw.chance(80):
            offer["sentinel"] = draw.chance(900)
        self.offers.append(offer)
        self.add("offer", **offer)

    def start(self) -> None:
        self.starts += 1
        self.alive.append(self.starts)
        self.add("start", start=self.starts)

    def exit(self, **how: Any) -> None:
        if not self.alive:
            return
        start = self.alive.pop(self.draw.index(len(self.alive)))
        how = how or self.draw.one_of(
            {"code": 0}, {"code": 1}, {"signal": 9}, {"code": 0, "by": "harness"}, {"by": "harness"},
            {"signal": 9, "by": "kill"}, {"code": 3, "by": "outside"}, {"code": 1, "by": "nobody"},
        )  # fmt: skip
        self.add("exit", start=start, **how)

    def fault(self) -> None:
        draw = self.draw
        if self.faults and draw.chance(600):
            end: Json = {"evidence": draw.one_of({"pid": 1}, {"pid": 1}, {"pid": 1}, {})}
            if draw.chance(100):
                end["error"] = draw.one_of(None, "it failed")
            self.add("fault", f=self.faults.pop(draw.index(len(self.faults))), phase="end", **end)
            return
        self.faults.append(draw.one_of(*_FAULTS))
        can = {"can": draw.one_of(["exit"], [])} if draw.chance(300) else {}
        self.add("fault", f=self.faults[-1], phase="begin", **can)

    def wanted(self) -> list[Json]:
        """The rows that a right job would still write."""
        have = [*self.rows]
        found = []
        if self.of_keys:
            for row in self.due:
                if row in have:
                    have.remove(row)
                else:
                    found.append(row)
            return found
        for offer in self.offers:
            for j, v in enumerate(offer.get("expect", [["a"]])):
                row = self.row(offer["id"], j, v)
                if row in have:
                    have.remove(row)
                elif not offer.get("fails"):
                    found.append(row)
        return found

    def row(self, id_: Any, j: int, v: Any) -> Json:
        return {"id": id_, **({"j": j} if self.has_j else {}), "v": v}

    def any_row(self) -> Json:
        draw = self.draw
        ids = [one["id"] for one in (self.due if self.of_keys else self.offers)] or [self.id(1)]
        odd = None if len(self.header["sink"]["id"]) == 1 else [1, None]
        id_ = draw.one_of(*ids, *ids, *ids, self.id(77), odd) if draw.chance(300) else draw.one_of(*ids)
        return self.row(id_, draw.one_of(0, 0, 1, 2), draw.one_of(*_VALUES))

    def change(self) -> Json:
        """One row of the log, applied."""
        draw = self.draw
        wanted = self.wanted()
        dice = draw.index(67 if self.is_calm and wanted else 100)
        if dice < 65 and wanted:
            row = wanted[0] if draw.chance(800) else draw.one_of(*wanted)
            olds = [
                one for one in self.rows if self.of_keys and one["id"] == row["id"] and one not in self.due
            ]
            if olds and draw.chance(800):
                self.rows[self.rows.index(olds[0])] = row
                return {"op": "update", **row, "was": olds[0]}
            if self.of_keys and draw.chance(300):
                row = {**row, "v": draw.one_of(*_VALUES)}
            self.rows.append(row)
            return {"op": "insert", **row}
        if dice < 75 and self.rows:
            row = draw.one_of(*self.rows)
            self.rows.append(row)
            return {"op": "insert", **row}
        if dice < 85 and self.rows:
            return {"op": "delete", **self.rows.pop(draw.index(len(self.rows)))}
        if dice < 95 and self.rows:
            was = self.rows.pop(draw.index(len(self.rows)))
            now = was if draw.chance(400) else {**was, "v": draw.one_of(*_VALUES)}
            now = self.any_row() if draw.chance(200) else now
            self.rows.append(now)
            return {"op": "update", **now, "was": was}
        row = self.any_row()
        if draw.chance(50):
            if row in self.rows:
                self.rows.remove(row)
            return {"op": "delete", **row}
        self.rows.append(row)
        return {"op": "insert", **row}

    def transaction(self, *, is_open: bool = False) -> None:
        draw = self.draw
        if not self.logs or not (self.offers or draw.chance(50)):
            return
        self.tx += draw.one_of(1, 1, 5)
        writer: Json = {}
        if self.starts and draw.chance(900):
            writer["start"] = draw.one_of(*range(1, self.starts + 1)) if draw.chance(250) else self.starts
            writer["session"] = draw.one_of(None, 4)
        before = [*self.rows]
        changes = [self.change() for _ in range(draw.one_of(1, 1, 2, 3))]
        for number, change in enumerate(changes, start=1):
            last = (
                {"last": True} if number == len(changes) and not is_open else draw.one_of({}, {"last": False})
            )
            self.add("row", tx=self.tx, **change, **writer, **last)
        if is_open:
            self.rows = before

    def reading(self, number: int) -> None:
        draw = self.draw
        if not self.logs and number == 1:
            self.rows = [row for row in self.wanted() if draw.chance(900)]
        rows = [*self.rows]
        if draw.chance(120) and rows:
            rows.pop(draw.index(len(rows)))
        if draw.chance(80):
            rows.append(self.any_row())
        for row in rows:
            self.add("table", reading=number, **row)
        dead = 0
        if "dead_letters" in self.header:
            for offer in self.offers:
                times = (
                    draw.one_of(1, 1, 1, 2, 0) if offer.get("fails") else draw.one_of(0, 0, 0, 0, 0, 0, 0, 1)
                )
                for _ in range(times):
                    dead += 1
                    self.add("dead", reading=number, id=offer["id"])
            if draw.chance(50):
                dead += 1
                self.add("dead", reading=number, id=self.id(66))
        logged = sum(event["k"] == "row" for event in self.events)
        parts = [("table", len(rows)), ("log", logged), ("dead", dead)]
        for of, count in parts if draw.chance(500) else parts[::-1]:
            claimed = (
                of == "table"
                or (of == "log" and self.logs)
                or (of == "dead" and "dead_letters" in self.header)
            )
            if claimed and draw.chance(950):
                self.add("read", reading=number, of=of, rows=count + draw.one_of(*(0,) * 40, 1))

    def step(self) -> None:
        dice = self.draw.index(100)
        if dice < 30:
            self.offer()
        elif dice < 40:
            self.start()
        elif dice < 75:
            self.transaction()
        elif dice < 82:
            self.exit()
        elif dice < 92:
            self.fault()
        else:
            self.add("asked", key=self.draw.one_of(1, "k"))

    def finish(self) -> None:
        draw = self.draw
        for _ in range(draw.one_of(20, 20, 2)):
            if draw.chance(850) and self.wanted():
                self.transaction()
        for _ in range(draw.one_of(0, 4)):
            if self.faults:
                self.fault()
        often = ("exit", "exit", "file", "all-rows") if self.of_keys else ("settled",)
        how = draw.one_of("exit", "file", "all-rows", "settled", "giveup", "giveup", "", *often)
        if how == "exit" and draw.chance(800):
            self.exit(code=draw.one_of(0, 0, 0, 0, 0, 1), **draw.one_of({}, {}, {}, {"by": "harness"}))
        if how == "giveup" and draw.chance(500):
            self.exit(code=1)
        self.t += draw.one_of(0, 1000, 3000)
        if how == "giveup":
            self.add("giveup", why="no progress")
        elif how:
            self.add("finished", how=how)
        for _ in range(draw.one_of(0, 0, 0, 1, 2)):
            draw.one_of(self.transaction, self.exit, self.start)()
        self.read_and_restart()

    def read_and_restart(self) -> None:
        draw = self.draw
        if draw.chance(920):
            self.reading(1)
        if draw.chance(350):
            if draw.chance(800):
                self.start()
            for _ in range(draw.one_of(0, 0, 1)):
                self.transaction()
            if draw.chance(900):
                self.reading(2)
        if draw.chance(50):
            self.transaction(is_open=True)


def wild_outside(seed: int) -> list[Json]:
    """The lines of one random history that keeps every rule."""
    draw = Draw(seed, "histories seen from outside")
    run = _Run(draw)
    if draw.chance(900):
        run.start()
    for _ in range(draw.between(2, 22)):
        run.step()
    run.finish()
    first, step = draw.one_of((1, 1), (0, 1), (10, 10), (-9, 3))
    return [run.header, *({**event, "n": first + at * step} for at, event in enumerate(run.events))]


def mutated_outside(lines: list[Json], seed: int) -> list[Json]:
    """The same history after a few blind changes, numbered again; it may break rules."""
    draw = Draw(seed, "blind changes")
    header, events = {**lines[0]}, [dict(event) for event in lines[1:]]
    for _ in range(draw.one_of(1, 1, 2)):
        if not events:
            break
        here, there = draw.index(len(events)), draw.index(len(events))
        match draw.index(5):
            case 0:
                events[here], events[there] = events[there], events[here]
            case 1:
                del events[here]
            case 2:
                events.insert(there, dict(events[here]))
            case 3:
                shared = [name for name in events[here] if name in events[there] and name not in {"k", "n"}]
                name = draw.one_of(*shared, "t")
                events[here] = {**events[here], name: events[there].get(name)}
            case _:
                name = draw.one_of(*events[here])
                if name not in {"k", "n"}:
                    events[here] = {other: value for other, value in events[here].items() if other != name}
    times = sorted(event.get("t") or 0 for event in events)
    events = [
        {**event, "n": n, "t": t} for n, (t, event) in enumerate(zip(times, events, strict=True), start=1)
    ]
    return [header, *events]
