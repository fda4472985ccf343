"""Small histories of calls that fail and are called again: in time, too early, too late, never, or once too often.

One attempt, a few records, all sorts of strategies; faults, timeouts, dead letters and the end of input between.
"""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.small_histories import history, start, took
from harness.system.choices import Choices

Json = dict[str, Any]


def retried_history(seed: int) -> list[Json]:
    """Header and events."""
    return _Retrying(seed).run()


class _Retrying:
    """One history in the making. Mutable."""

    def __init__(self, seed: int) -> None:
        self.choices = Choices(seed, "calls that fail")
        self.careful = self.pick([2, 6, 40])
        """One in so many moments comes at any time, not when the strategy says."""
        self.retry = self._strategy()
        self.operator: Json = {
            "max_tries": self.pick([2, 3, 4]), "timeout_ms": self.pick([0, 0, 5, 20, 60]), "retry": self.retry,
        }  # fmt: skip
        self.told: list[Json] = [start(ms=0)]
        self.ms = 0.0
        self.ended = False

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def _strategy(self) -> Json:
        retry: Json = {"backoff": self.pick(["fixed", "exponential", "exponential"])}
        retry["initial_ms"] = self.pick([0, 1, 2, 5])
        if retry["backoff"] == "exponential":
            retry["multiplier"] = self.pick([1, 1.5, 2, 2.0, 1.1, 3])
            retry |= {"max_ms": self.pick([0, 3, 8])} if self.one_in(2) else {}
        optional: dict[str, list[Any]] = {
            "slack_ms": [0, 1, 4], "on": [["fail"], ["fail", "unknown"], ["empty"], [], ["empty", "fail"]],
            "at_end": ["once", "same"], "profile": ["strict", "flink"],
        }  # fmt: skip
        for name, among in optional.items():
            retry |= {name: self.pick(among)} if self.one_in(2) else {}
        return retry

    def note(self, k: str, **fields: Any) -> None:
        attempt = {} if k == "fault" else {"s": 0, "a": self.pick([1, 1, 1, 2]) if k == "start" else 1}
        self.told.append({"k": k, **attempt, "ms": self.ms, **fields})

    def run(self) -> list[Json]:
        records = list(range(self.pick([1, 1, 2, 3])))
        for pos in records:
            self.told.append(took(pos, pos, ms=0, expect=[]))
        for record in records:
            self._record(record)
            if self.one_in(6):
                self._disturb()
        if self.one_in(2) and not self.ended:
            self.note("end")
            self.ended = True
        if self.ended and self.one_in(2):
            self.note("ended")
        self.ms += self.pick([0, 0, 1, 10, 100])
        self._over()
        return history(self.told, operator=self.operator, bounds={"timeout_slack": self.pick([0, 1, 100])})

    def _over(self) -> None:
        match self.choices.index(8):
            case 0:
                self.note("failed", error="boom")
            case 1 | 2:
                self.note(self.pick(["close", "kill"]))
            case 3:
                again = start(ms=self.ms, a=2)
                self.told.append(again)
            case _:
                self.told.append({"k": "retire", "c": 0, "ms": self.ms})

    def _record(self, record: int) -> None:
        tries = self.choices.between(1, self.operator["max_tries"] + self.one_in(6))
        first_ms = self.ms
        for k in range(1, tries + 1):
            self.note("call", id=record, **{"try": k})
            self.ms += self.pick([0, 0.5, 1, 2])
            last = k == tries
            if last and self.one_in(4):
                # About when a record may be given up, since its timeout is near.
                near_ms = first_ms + self.operator["timeout_ms"] + self.pick([-1.01, -1, -1, 0])
                self.ms = max(self.ms, near_ms)
            self._answer(record, k, final=last and not self.one_in(3))
            if last:
                break
            if self.one_in(8):
                self._disturb()
            self.ms += max(0, self._wait_ms(k))
        self.ms += self.pick([0, 0, 1, 30])
        if self.one_in(5):
            self.note("dead", id=record)
        elif self.one_in(6):
            self.note("res", id=record, r="timeout", final=True, error="late", **{"try": tries})

    def _answer(self, record: int, k: int, *, final: bool) -> None:
        among = ["fail", "fail", "unknown", "ok", "timeout"] if self.one_in(2) else ["fail"]
        r = self.pick(among) if not final or self.one_in(2) else "ok"
        told: Json = {"v": self.pick([[], [], ["v"]])} if r == "ok" or self.one_in(5) else {}
        if self.one_in(3):
            told["retry"] = self.pick([True, True, False])
        self.note("res", id=record, r=r, final=final, **told, **{"try": k if not self.one_in(30) else 1})

    def _wait_ms(self, k: int) -> float:
        if self.one_in(self.careful):
            return float(self.pick([0, 1, 3, 10, 40]))
        grown: float = self.retry["initial_ms"] * self.retry.get("multiplier", 1) ** (k - 1)
        slack = self.pick([0, 0, self.retry.get("slack_ms", 0)])
        near = self.pick([0, 0, 0, -0.5, -1, -1.01, 0.5])
        limit = self.retry.get("max_ms", 10**6) if k > 1 else 10**6
        return float(int(min(grown, limit)) + slack + near)

    def _disturb(self) -> None:
        match self.choices.index(4):
            case 0:
                self.note("fault", f="cut", phase="begin")
                self.ms += self.pick([0, 1, 5])
                if not self.one_in(4):
                    self.note("fault", f="cut", phase="end", evidence={"held": 1})
            case 1 | 2 if not self.ended:
                self.note("end")
                self.ended = True
            case _:
                self.ms += self.pick([1, 3, 20])


def legal_retries(seed: int) -> list[Json]:
    """One attempt whose records fail now and then, and are called again as the strategy says."""
    choices = Choices(seed, "legal retries")

    def pick(among: list[Any]) -> Any:
        return among[choices.index(len(among))]

    initial, factor, most = pick([0, 1, 4]), pick([1, 1.5, 2, 2.25]), pick([5, 40])
    slack = pick([0, 2])
    retry = {"backoff": "exponential", "initial_ms": initial, "multiplier": factor, "max_ms": most}
    retry |= {"slack_ms": slack, "on": ["fail", "unknown", "empty"]}
    max_tries = pick([2, 3, 5])
    told, ms, count = [start(ms=0)], 0, choices.between(1, 4)
    told += [took(pos, pos, ms=0, expect=[]) for pos in range(count)]
    early_end = choices.index(2) == 0
    for record in range(count):
        tries = choices.between(1, max_tries)
        for k in range(1, tries + 1):
            of = {"s": 0, "a": 1, "id": record, "try": k}
            told.append({"k": "call", **of, "ms": ms})
            ms += pick([0, 1, 3])
            outcome = pick([{"r": "fail"}, {"r": "unknown"}, {"r": "ok", "v": []}])
            if k == tries:
                given_up = outcome if tries == max_tries and outcome["r"] != "fail" else {"retry": False}
                told.append({"k": "res", **of, "r": "ok", "v": [], **given_up, "final": True, "ms": ms})
                break
            told.append({"k": "res", **of, **outcome, "final": False, "ms": ms})
            if early_end and record == count - 1:
                told.append({"k": "end", "s": 0, "a": 1, "ms": ms})
                early_end = False
                ms += choices.between(0, slack)
                continue
            wait = initial if k == 1 else min(int(initial * factor ** (k - 1)), most)
            ms += wait + choices.between(0, slack)
    ends = [] if any(e["k"] == "end" for e in told) else [{"k": "end", "s": 0, "a": 1, "ms": ms}]
    told += [*ends, {"k": "ended", "s": 0, "a": 1, "ms": ms}]
    return history(told, operator={"max_tries": max_tries, "retry": retry})
