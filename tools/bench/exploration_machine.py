"""The same system under a Hypothesis state machine: the peer of `floodmark explore`, with Hypothesis's own shrinker.

Answers to `hypothesis.stateful.RuleBasedStateMachine`. Each rule sets a part of a scenario or adds a fault, from the
values that `harness.explore.drawing` draws; at the end the scenario is run and judged. Invariant: the system, the
faults and the checkers are those of `explore`; only who chooses differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from pydantic import ValidationError

from harness.explore.trial import Candidate, Subject, Violation, try_all
from harness.scenario.model import Scenario
from harness.system.clock import Deadline, monotonic_us

__all__ = ["Machine", "run_machine"]

_STEPS = 12
_MS = st.integers(1, 300).map(lambda ms: f"{ms}ms")
_HITS = st.integers(1, 12)
_PHASES = st.sampled_from(
    ["open", "accept", "call", "result", "emit", "wm", "snap.begin", "snap.mid", "snap.end", "commit.pre",
     "commit.post", "drain", "close", "ack", "notify", "restore.begin", "restore.end", "timer"]
)  # fmt: skip
_LINKS = st.sampled_from(["lookups", "sink"])


@dataclass(slots=True, kw_only=True)
class Machine:
    """The result of one search. Mutable while it goes on."""

    runs: int = 0
    found_at: int | None = None
    """The number of the run that showed a violation first."""
    took_s: float = 0.0
    """Until then, or until the budget was over."""
    smallest: Scenario | None = None
    """The last failing scenario that Hypothesis ran: what its shrinker left."""
    violations: tuple[Violation, ...] = ()
    shrunk_s: float = 0.0

    @property
    def sighting(self) -> tuple[int, int] | None:
        """Faults and records of what is left."""
        if self.smallest is None:
            return None
        workload = self.smallest.workload
        return len(self.smallest.faults), workload.records * workload.subtasks


def run_machine(subject: Subject, *, runs: int, budget_s: float) -> Machine:
    """Search with at most so many examples, then shrink within the same time."""
    found = Machine()
    began_us, deadline = monotonic_us(), Deadline(budget_s)
    shrinks = Deadline(2 * budget_s)

    def judge(scenario: Scenario, run_seed: int) -> None:
        if (found.found_at is None and deadline.passed) or shrinks.passed:
            return
        found.runs += 1
        (trial,) = try_all(subject, [Candidate(way="given", seed=run_seed, parent=scenario)])
        loud = [one for one in trial.violations if one[1] != "vacuous"]
        if not loud:
            return
        if found.found_at is None:
            found.found_at, found.took_s = found.runs, (monotonic_us() - began_us) / 1e6
        found.smallest, found.violations = scenario, tuple(loud)
        raise AssertionError(loud[0])

    machine = type("Searching", (ScenarioMachine,), {"judge": staticmethod(judge)})
    machine_settings = settings(
        max_examples=runs,
        stateful_step_count=_STEPS,
        phases=[Phase.generate, Phase.shrink],
        database=None,
        deadline=None,
        derandomize=True,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=machine_settings)
    except AssertionError:
        pass
    except Exception:
        if found.found_at is None:
            raise
    if found.found_at is None:
        found.took_s = (monotonic_us() - began_us) / 1e6
    else:
        found.shrunk_s = (monotonic_us() - began_us) / 1e6 - found.took_s
    return found


class ScenarioMachine(RuleBasedStateMachine):
    """Puts a scenario together, and has it judged at its end. Mutable."""

    judge: ClassVar[Callable[[Scenario, int], None]]

    def __init__(self) -> None:
        super().__init__()
        self.operator: dict[str, Any] = {"mode": "ordered", "capacity": 3}
        self.workload: dict[str, Any] = {"records": 6, "subtasks": 1, "checkpoint_every": 4}
        self.rest: dict[str, Any] = {}
        self.faults: list[dict[str, Any]] = []
        self.seed = 0

    @rule(seed=st.integers(0, 1000))
    def choose_schedule(self, seed: int) -> None:
        self.seed = seed

    @rule(records=st.integers(1, 24), subtasks=st.integers(1, 3))
    def size(self, records: int, subtasks: int) -> None:
        self.workload |= {"records": records, "subtasks": subtasks}

    @rule(mode=st.sampled_from(["ordered", "unordered", "keyed"]), capacity=st.integers(1, 8))
    def order(self, mode: str, capacity: int) -> None:
        self.operator |= {"mode": mode, "capacity": capacity}

    @rule(sink=st.sampled_from(["atomic", "two-phase", "idempotent"]))
    def sink(self, sink: str) -> None:
        self.rest["sink"] = sink

    @rule(
        service=st.sampled_from(["0ms", "5ms", "20ms", "60ms"]),
        rate=st.sampled_from(["100000/s", "1000/s", "200/s"]),
        every=st.integers(0, 5),
        barrier=st.integers(2, 12),
    )
    def pace(self, service: str, rate: str, every: int, barrier: int) -> None:
        self.workload |= {"service": service, "rate": rate, "watermark_every": every}
        self.workload["checkpoint_every"] = barrier

    @rule(
        keys=st.integers(1, 30),
        like=st.sampled_from(["numbers", "wide", "signed", "unicode", "composite"]),
        fanout=st.integers(1, 3),
        odd=st.booleans(),
    )
    def keys(self, keys: int, like: str, fanout: int, odd: bool) -> None:  # noqa: FBT001 - drawn
        self.workload |= {"keys": keys, "keys_like": like, "fanout": fanout}
        self.workload["rows_like"] = "odd" if odd else "plain"

    @rule(kind=st.sampled_from(["rising", "repeating", "wild"]), final=st.booleans(), shared=st.booleans())
    def watermarks(self, kind: str, final: bool, shared: bool) -> None:  # noqa: FBT001 - drawn
        self.workload |= {"watermarks": kind, "final_watermark": final, "reuses_objects": shared}

    @rule(ms=st.integers(15, 2000), answer=st.sampled_from(["fail", ["x"], [], "dead-letter"]))
    def time_out(self, ms: int, answer: Any) -> None:
        self.operator |= {"timeout": f"{ms}ms", "on_timeout": answer}

    @rule(tries=st.integers(2, 5), delay=st.integers(1, 40), every=st.integers(2, 6), dead=st.booleans())
    def fail_and_retry(self, tries: int, delay: int, every: int, dead: bool) -> None:  # noqa: FBT001 - drawn
        self.operator |= {"tries": tries, "retry_delay": f"{delay}ms"}
        self.operator["on_error"] = "dead-letter" if dead else "fail"
        self.operator.setdefault("timeout", "1s")
        self.workload |= {"failing_every": every, "failing_calls": 1}

    @rule(inputs=st.integers(1, 2), gap=_MS, timers=st.sampled_from(["event-time", "processing-time"]))
    def task(self, inputs: int, gap: str, timers: str) -> None:
        self.rest["task"] = {"inputs": inputs, "gap": gap, "timers": timers}

    @rule(to=st.integers(1, 4), checkpoint=st.integers(1, 2))
    def rescale(self, to: int, checkpoint: int) -> None:
        self.rest["rescale"] = {"at": {"checkpoint": checkpoint}, "to": to}

    @rule(phase=_PHASES, hit=_HITS, how=st.sampled_from(["sigkill", "exception"]))
    def kill(self, phase: str, hit: int, how: str) -> None:
        self._add({"do": "kill_worker", "subtask": 0, "how": how, "when": {"phase": phase, "hit": hit}})

    @rule(phase=_PHASES, hit=_HITS, lasts=st.integers(10, 1500))
    def supersede(self, phase: str, hit: int, lasts: int) -> None:
        when = {"phase": phase, "hit": hit}
        self._add({"do": "zombie", "subtask": 0, "for": f"{lasts}ms", "when": when})

    @rule(
        do=st.sampled_from(["down", "reset", "blackhole", "refuse_connects"]),
        link=_LINKS,
        lasts=_MS,
        call=_HITS,
    )
    def disturb_link(self, do: str, link: str, lasts: str, call: int) -> None:
        self._add({"do": do, "link": link, "for": lasts, "when": {"call": call}})

    @rule(do=st.sampled_from(["lost_commit", "lost_commit_reply"]), nth=st.integers(1, 4))
    def lose_commit(self, do: str, nth: int) -> None:
        self._add({"do": do, "link": "sink", "nth": nth, "when": {"at": "0ms"}})

    @rule(do=st.sampled_from(["db_kill", "db_pause", "kill_connection", "lock_rows"]), lasts=_MS, call=_HITS)
    def disturb_server(self, do: str, lasts: str, call: int) -> None:
        self._add({"do": do, "for": lasts, "when": {"call": call}})

    @rule(
        how=st.sampled_from(["raises", "silent"]),
        record=_HITS,
        link=_LINKS,
        code=st.sampled_from([1205, 1213]),
    )
    def fail_one(self, how: str, record: int, link: str, code: int) -> None:
        if how == "raises":
            self._add({"do": "sql_error", "link": link, "code": code, "when": {"call": record}})
        else:
            self._add({"do": "poison", "subtask": 0, "how": how, "when": {"record": record}})

    @rule(shift=st.sampled_from(["-60m", "-1s", "500ms", "60m"]), lasts=_MS, record=_HITS)
    def set_clock(self, shift: str, lasts: str, record: int) -> None:
        self._add(
            {"do": "clock_jump", "how": "jump", "shift": shift, "for": lasts, "when": {"record": record}}
        )

    def _add(self, fault: dict[str, Any]) -> None:
        name = f"{fault['do'].replace('_', '-')}-{len(self.faults) + 1}"
        self.faults.append({"id": name, **fault})

    def teardown(self) -> None:
        scenario = self._scenario()
        if scenario is not None:
            type(self).judge(scenario, self.seed)

    def _scenario(self) -> Scenario | None:
        try:
            return Scenario.model_validate(
                {
                    "scenario": "by-hypothesis",
                    "about": "A scenario that a state machine of Hypothesis has put together.",
                    "levels": ["sim"],
                    "operator": self.operator,
                    "workload": self.workload,
                    **self.rest,
                    "faults": self.faults,
                    "decisive": ["V9"],
                }
            )
        except ValidationError:
            return None
