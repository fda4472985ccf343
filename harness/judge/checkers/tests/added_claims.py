"""Claims of form 1.1 added to any history: tables and their rows, acknowledgements, causes, keys and versions.

The rows are those that a correct sink would leave, then some are dropped, doubled, altered or made up; likewise the
rest: how often something is wrong is drawn for each history, and may be never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.judge.second_judge import ABSENT, Page
from harness.system.choices import Choices

Json = dict[str, Any]

KEYS = [1, 1.0, "k"]
ERRORS = ["late", "boom", None]
CAUSES = ["outside", "planted", "cut", "pause", "latency", "nothing"]
CLAIMS = {"tables", "explained", "expect_from", "by_key", "versions", "raised", "substitute"}
NEW_KINDS = {"row", "read", "ack", "change"}
"""Of what the history had of them, nothing stays."""
KINDS = ["failed", "kill", "start", "res"]


def with_claims(lines: list[Json], seed: int) -> list[Json]:
    """The same history with more in its header and more events, numbered again."""
    return _Claimer(lines, seed).claim()


class _Claimer:
    """One history in the making. Mutable."""

    def __init__(self, lines: list[Json], seed: int) -> None:
        self.choices = Choices(seed, "claims of form 1.1")
        self.wrong_in = self.pick([0, 0, 20, 8, 3])
        """One in so many things is wrong; 0: none."""
        kept = {name: value for name, value in lines[0].items() if name not in CLAIMS}
        self.header: Json = {**kept, "operator": dict(lines[0]["operator"])}
        self.events = [dict(event) for event in lines[1:] if event["k"] not in NEW_KINDS]

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def wrong(self) -> bool:
        return self.wrong_in > 0 and self.one_in(self.wrong_in)

    def maybe(self, name: str, among: list[Any], chance: int = 2) -> Json:
        return {name: self.pick(among)} if self.one_in(chance) else {}

    def claim(self) -> list[Json]:
        if self.one_in(3):
            self._explain()
        if self.one_in(3):
            self._declare()
        if self.one_in(3):
            self._acknowledge()
        if self.one_in(3):
            self._end_twice()
        if self.one_in(3):
            self._key_and_version()
        if self.one_in(4):
            self._say_where_expectations_come_from()
        self._number()
        if not self.one_in(4):
            self._tables()
            self._number()
        return [self.header, *self.events]

    def _number(self) -> None:
        """Anew, in the order given; what has no time comes with what is before it."""
        t, first = 0, min((e["n"] for e in self.events if "n" in e), default=1)
        numbered = []
        for n, event in enumerate(self.events, start=first):
            t = max(t, event.get("t", t))
            numbered.append({**event, "n": n, "t": t})
        self.events = numbered

    def _insert(self, after: Callable[[Json], list[Json]]) -> None:
        self.events = [new for event in self.events for new in [event, *after(event)]]

    # Causes.

    def _explain(self) -> None:
        self.header["explained"] = self.pick(["alone", "together"])
        operator = self.header["operator"]
        operator |= self.maybe("on_error", ["fail", "fail", "dead"], 1)
        operator |= self.maybe("on_timeout", ["fail", "fail", "dead", "substitute"], 1)
        clear = self.pick([1, 2, 5])
        for event in self.events:
            if event["k"] in {"failed", "kill", "start", "res"} and self.one_in(clear):
                event["by"] = self.pick(["outside", *CAUSES])
            elif event["k"] == "fault" and event["phase"] == "begin":
                event.update(
                    self.maybe("can", [[], ["kill"], ["failed", "res"], ["res"], ["start"], KINDS], 1)
                )
                event.update(self.maybe("s", [0, 0, 1], 3))
        if self.one_in(2):
            self.header["bounds"] = {**self.header.get("bounds", {}), "recover": self.pick([0, 1, 3])}

    # Policies.

    def _declare(self) -> None:
        """What errors and timeouts yield, mostly as the history has it."""
        operator, late = self.header["operator"], [e for e in self.events if e.get("r") == "timeout"]
        operator |= self.maybe("on_error", ["fail", "dead"], 1)
        operator |= self.maybe("on_timeout", ["fail", "dead", "substitute"], 1)
        if operator["on_timeout"] == "substitute" and not self.one_in(4):
            yields = [e.get("v", []) for e in late if "error" not in e]
            self.header["substitute"] = self.pick(
                [*yields, ["none"]] if self.wrong_in else [*yields[:1], ["none"]][:1]
            )
        self.header["raised"] = True
        bounds = self.header.get("bounds", {})
        self.header["bounds"] = {**bounds, **self.maybe("service_after", [0, 0, 1])}
        for event in self.events:
            if event["k"] != "res" or self.wrong():
                continue
            if event["r"] == "fail" or "error" in event:
                event.setdefault("error", "boom")
                event["raised"] = event["error"]
            elif self.wrong():
                event["raised"] = self.pick(ERRORS)

    # Checkpoints.

    def _acknowledge(self) -> None:
        """Each snap of the newest attempt, some late or by another attempt."""

        def ack(event: Json) -> list[Json]:
            if event["k"] == "snap" and not self.wrong():
                return [{"k": "ack", **{name: event[name] for name in ("s", "a", "c")}}]
            if event["k"] == "start" and self.wrong_in and self.one_in(3):
                return [{"k": "ack", "s": event["s"], "a": 1, "c": self.pick([1, 2, 3])}]
            return []

        self._insert(ack)

    def _end_twice(self) -> None:
        def other_end(event: Json) -> list[Json]:
            if event["k"] in {"done", "abort"} and self.wrong_in and self.one_in(3):
                return [{"k": self.pick(["done", "abort", "abort"]), "c": event["c"]}]
            if event["k"] == "snap" and self.one_in(8):
                return [{"k": "abort", "c": event["c"]} for _ in range(self.pick([1, 1, 2]))]
            return []

        self._insert(other_end)

    # Values.

    def _key_and_version(self) -> None:
        self.header |= self.maybe("by_key", [True, True, False]) | self.maybe("versions", [True, True, False])
        keys: dict[Any, Json] = {}
        for event in self.events:
            if event["k"] == "in":
                given = {name: event[name] for name in ("key",) if name in event}
                key = keys.setdefault(
                    event["id"], given or self.maybe("key", KEYS, 1 + self.choices.index(2))
                )
                event.update(key)
        self._change()
        ver = 0
        for event in self.events:
            if event["k"] == "change" and event["phase"] == "begin":
                ver = event["ver"]
            elif event["k"] == "res" and not self.one_in(4):
                event["ver"] = max(0, ver + (self.pick([-1, 1, 0, 0]) if self.wrong_in else 0))

    def _change(self) -> None:
        """Of one key or of all, one after the other or overlapping."""
        open_: list[Json] = []
        often, ver = self.pick([5, 15, 40]), 0

        def change(_: Json) -> list[Json]:
            nonlocal ver
            if not self.one_in(often):
                return []
            if open_ and not self.one_in(3):
                return [{**open_.pop(self.choices.index(len(open_))), "phase": "end"}]
            ver += self.pick([1, 1, 2])
            begin = {"k": "change", "phase": "begin", "ver": ver, **self.maybe("key", KEYS)}
            open_.append(begin)
            return [begin]

        self._insert(change)

    def _say_where_expectations_come_from(self) -> None:
        self.header["expect_from"] = self.pick(["given", "calm", "none"])
        if self.header["expect_from"] == "none" or self.one_in(3):
            for event in self.events:
                event.pop("expect", None) if event["k"] == "in" else None

    # Tables.

    def _tables(self) -> None:
        page = Page([self.header, *self.events])
        by_key = page.sink == "rollback"
        tables: dict[str, Json] = {}
        for number in range(self.pick([1, 1, 2, 3])):
            both = [["outputs", "effects"]] if page.by_output else []
            holds = self.pick([["outputs"], ["outputs"], ["effects"], ["dead"], *both])
            table: Json = {"holds": holds}
            if self.one_in(2 if by_key else 8):
                table["keep"] = self.pick(["first", "last", "all"] if by_key else ["all"])
            if "outputs" in holds and table.get("keep", "all") == "all" and self.one_in(2):
                table["ordered"] = True
            tables[f"t{number}"] = table
        audit = self.one_in(3)
        if audit:
            tables["audit"] = {"holds": ["audit"]}
        self.header["tables"] = tables
        if audit or self.one_in(2):
            self._read_effects_last()
        effects = [e for e in self.events if e["k"] == "effect"]
        for name, table in tables.items():
            rows = [] if name == "audit" else self._kept(page, name, table)
            read = {"k": "read", "table": name, "rows": len(effects if name == "audit" else rows)}
            if self.wrong():
                read["rows"] += self.pick([1, 2])
            place = len(self.events) if not self.wrong() else self.choices.index(len(self.events) + 1)
            self.events[place:place] = [*rows, *([] if self.wrong() else [read])]

    def _read_effects_last(self) -> None:
        effects = [{**e, "t": self.events[-1]["t"]} for e in self.events if e["k"] == "effect"]
        self.events = [e for e in self.events if e["k"] != "effect"] + effects

    def _kept(self, page: Page, name: str, table: Json) -> list[Json]:
        holds, keep = table["holds"], table.get("keep", "all")
        if "outputs" in holds:
            rows = [
                self._of_output(page, e) for s in page.subtasks for e in page.visible(s) if e["k"] == "out"
            ]
        elif "dead" in holds:
            rows = [self._of_letter(page, e) for s in page.subtasks for e in page.visible(s, "dead")]
        elif page.kind("effect"):
            rows = [self._of_effect(e) for e in page.kind("effect")]
        else:
            rows = self._expected_rows(page)
        named = ("id", "j") if "outputs" in holds or (page.by_output and "dead" not in holds) else ("id",)
        if keep != "all":
            found: dict[Any, Json] = {}
            for row in rows if keep == "first" else reversed(rows):
                found.setdefault(tuple(row[field] for field in named), row)
            rows = list(found.values())
        rows = [new for row in rows for new in self._spoilt(row, rows)]
        if table.get("ordered") or self.one_in(4):
            rows = self._numbered(rows)
        return [{"k": "row", "table": name, **row} for row in rows]

    def _of_output(self, page: Page, e: Json) -> Json:
        row = {"id": e["id"], "j": e["j"], "v": e["v"]}
        epochs = [snap["c"] for snap in page.of(e["s"], e["a"], "snap") if e["n"] < snap["n"]][:1]
        row |= self.maybe("token", [e["a"]]) | (self.maybe("c", epochs) if epochs else {})
        return row if not self.one_in(8) else {"id": e["id"], "j": e["j"]}

    def _of_letter(self, page: Page, e: Json) -> Json:
        failures = [res for res in page.of(e["s"], e["a"], "res") if res["id"] == e["id"] and "error" in res]
        error = failures[-1]["error"] if failures else "boom"
        return {"id": e["id"], **self.maybe("error", [error, error, self.pick(ERRORS)], 1)}

    def _of_effect(self, e: Json) -> Json:
        return {name: e[name] for name in ("id", "j", "v") if name in e} | self.maybe("token", [e["token"]])

    def _expected_rows(self, page: Page) -> list[Json]:
        rows: list[Json] = []
        for record, s in page.accepted().items():
            wanted = page.expected(s, record)
            if wanted is ABSENT:
                continue
            if page.by_output:
                rows += [{"id": record, "j": j, "v": v} for j, v in enumerate(wanted)]
            elif wanted:
                rows.append({"id": record, "v": wanted})
        return rows

    def _spoilt(self, row: Json, rows: list[Json]) -> list[Json]:
        if not self.wrong():
            return [row]
        other = self.pick(rows)
        match self.choices.index(8):
            case 0 | 1:
                return []
            case 2:
                return [row, row]
            case 3:
                return [{**row, "v": self.pick(["altered", other.get("v")])}]
            case 4:
                return [row, {**row, "id": "ghost"}]
            case 5:
                return [{**row, **self.maybe("token", [1, 2, 9], 1)}]
            case 6:
                return [row, {**row, "c": 9, **({"j": row["j"] + 1} if "j" in row else {})}]
            case _:
                return [{**row, "error": "altered"}]

    def _numbered(self, rows: list[Json]) -> list[Json]:
        numbers = list(range(len(rows)))
        while len(numbers) > 1 and self.wrong():
            here, there = self.choices.index(len(rows)), self.choices.index(len(rows))
            numbers[here], numbers[there] = numbers[there], numbers[here]
        return [{**row, "seq": number} for row, number in zip(rows, numbers, strict=True)]
