"""Finds the pitfalls that a run shows, each with what was measured; one function a pitfall.

A pitfall is no verdict: it says what will hurt, beside verdicts that say what is broken. Each is found in the
run's lines, settings and server counts, gathered once as `RunSeen`; none is inferred from a setting alone. A
run that is to show one, and does not, has shown nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.database.audit import ServerCounts
from harness.runs.outcome import Pitfall
from harness.scenario.model import Scenario

__all__ = [
    "AttemptCalls",
    "OpenCall",
    "RunSeen",
    "find_blocking_call",
    "find_failing",
    "find_lost_completion",
    "find_no_pool",
    "find_open_connections",
    "find_pitfalls",
    "find_silent",
    "find_small_pool",
]

Line = Mapping[str, Any]

_WENT_ON_US = 300_000
"""An attempt that was stopped, and wakes, has not handled its timers yet; one that speaks for so long has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call that its attempt never heard of again."""

    record: int
    began_us: int
    open_us: int
    """From its beginning to the end of its attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCalls:
    """The calls of one attempt."""

    count: int
    at_once: int
    """The most that were open at a time."""
    ended_us: int
    """When the attempt was over: its last word, or the end of the run if it hung until then."""
    never_ended: Sequence[OpenCall]
    last_begun_us_that_ended: int
    """When the latest of the calls that did end began."""
    spoke_us: Sequence[int]
    """When the attempt wrote anything: it went on meanwhile, and did not stand still."""

    def outlived(self, call: OpenCall, *, by_us: int) -> bool:
        """Whether `call` was open for longer than that, while its attempt went on."""
        after = [at_us for at_us in self.spoke_us if at_us > call.began_us + by_us]
        return call.open_us > by_us and bool(after) and after[-1] - after[0] >= _WENT_ON_US


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """One run; made by `RunSeen.of`."""

    scenario: Scenario
    lines: Sequence[Line]
    """Events and notes, in order of time; a note's kind begins with `~`."""
    ended_us: int
    """When the run was over, on the lines' clock."""
    server: ServerCounts | None
    """None: the server was restarted, or did not answer, so its counters say nothing."""
    calls: Sequence[AttemptCalls]
    """Of every attempt that made any."""

    @classmethod
    def of(
        cls, scenario: Scenario, lines: Sequence[Line], *, ended_us: int, server: ServerCounts | None
    ) -> RunSeen:
        """With the calls worked out."""
        calls = tuple(_calls(lines, ended_us=ended_us))
        return cls(scenario=scenario, lines=lines, ended_us=ended_us, server=server, calls=calls)

    def of_kind(self, kind: str) -> Sequence[Line]:
        """All lines of it."""
        return [line for line in self.lines if line["k"] == kind]

    @property
    def call_count(self) -> int:
        """In all attempts."""
        return sum(calls.count for calls in self.calls)


_OF_ATTEMPTS = frozenset({"call", "res", "close", "failed", "ended", "~dies", "~alive"})
_LAST_WORDS = frozenset({"close", "failed", "ended", "~dies"})


def _calls(lines: Sequence[Line], *, ended_us: int) -> Iterator[AttemptCalls]:
    by_attempt: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        if "a" in line and line["k"] in _OF_ATTEMPTS:
            by_attempt[line["s"], line["a"]].append(line)
    dead_us = {
        (line["s"], line["a"] - 1): line["t"] for line in lines if line["k"] == "start" and line["a"] > 1
    }
    for who, its_own in by_attempt.items():
        calls = _calls_of(its_own, over_us=_end_of(its_own, dead_us.get(who, ended_us)))
        if calls.count:
            yield calls


def _end_of(lines: Sequence[Line], otherwise_us: int) -> int:
    """Its own last word, or when somebody else knew that it was over."""
    said = [line["t"] for line in lines if line["k"] in _LAST_WORDS]
    return int(said[0]) if said else otherwise_us


def _calls_of(lines: Sequence[Line], *, over_us: int) -> AttemptCalls:
    running: dict[tuple[int, int], int] = {}
    count = at_once = latest_us = 0
    for line in lines:
        if line["k"] == "call":
            running[line["id"], line["try"]] = line["t"]
            count += 1
            at_once = max(at_once, len(running))
        elif line["k"] == "res":
            began_us = running.pop((line["id"], line["try"]), None)
            latest_us = max(latest_us, began_us or 0)
    never = [
        OpenCall(record=record, began_us=began_us, open_us=over_us - began_us)
        for (record, _), began_us in running.items()
    ]
    return AttemptCalls(
        count=count,
        at_once=at_once,
        ended_us=over_us,
        never_ended=never,
        last_begun_us_that_ended=latest_us,
        spoke_us=[line["t"] for line in lines],
    )


_TIMES_MIN = 3
_ENOUGH_MS = 1_000
"""Less often, and less long in all, it may have been the machine's doing."""


def find_blocking_call(seen: RunSeen) -> Pitfall | None:
    """`blocking-call`: the function under test blocks the task's thread; where it stood longest.

    Shown by the event loop that stood still while that function was on the thread's stack.
    """
    stood_ms: dict[str, list[float]] = defaultdict(list)
    for note in seen.of_kind("~blocked"):
        stood_ms[note["where"]].append(note["ms"])
    if not stood_ms:
        return None
    where, times = max(stood_ms.items(), key=lambda item: sum(item[1]))
    if len(times) < _TIMES_MIN and sum(times) < _ENOUGH_MS:
        return None
    return Pitfall(
        name="blocking-call",
        says=f"The task's thread stood still {len(times)} times, {sum(times) / 1000:.1f} s in all and up to "
        f"{max(times):.0f} ms at a time, in {where}: no other lookup, timer or checkpoint went on meanwhile.",
        advice="Await an asynchronous client, or put the blocking one on threads "
        "(reference_impl.operator.functions.from_blocking).",
        evidence={
            "where": where,
            "times": len(times),
            "total_ms": round(sum(times), 1),
            "longest_ms": max(times),
        },
    )


_CALLS_MIN = 20
_AT_ONCE_MIN = 4
_ADVICE = "Use a pool with as many connections as the operator's capacity, opened once."
_OF_A_SUBTASK = 2
"""Connections that the harness itself needs of an attempt: its sink's, and one for a checkpoint's coordinator."""
_OF_THE_RUN = 4
"""The coordinator's, and those that count."""


def find_no_pool(seen: RunSeen) -> Pitfall | None:
    """`no-pool`: a connection for each lookup, or one for all of them.

    Shown by the server's count of connections: as many as calls, or no more than subtasks where several calls
    were open at once.
    """
    if seen.server is None or seen.call_count < _CALLS_MIN:
        return None
    ours = _OF_A_SUBTASK * len(seen.of_kind("start")) + _OF_THE_RUN
    lost = len(seen.of_kind("~lost"))
    opened = seen.server.opened - ours - lost
    if opened >= seen.call_count / 2:
        return Pitfall(
            name="no-pool",
            says=f"{seen.server.opened} connections were opened for {seen.call_count} calls: each call makes its own.",
            advice=_ADVICE,
            evidence={"opened": seen.server.opened, "calls": seen.call_count},
        )
    return _one_for_all(seen)


def _one_for_all(seen: RunSeen) -> Pitfall | None:
    assert seen.server is not None, "its caller has looked"
    subtasks = seen.scenario.workload.subtasks
    at_once = min((calls.at_once for calls in seen.calls), default=0)
    sinks = subtasks
    if at_once < _AT_ONCE_MIN or seen.server.at_once > sinks + subtasks + 1:
        return None
    return Pitfall(
        name="no-pool",
        says=f"Up to {at_once} calls of each subtask were open at once, and at no time were there more than "
        f"{seen.server.at_once} connections, those of {subtasks} sinks among them: a subtask's calls wait for one.",
        advice=_ADVICE,
        evidence={"calls_at_once": at_once, "connections_at_once": seen.server.at_once},
    )


_OPEN_US_MIN = 1_500_000


def find_lost_completion(seen: RunSeen) -> Pitfall | None:
    """`lost-completion`: a call's result future is never completed, and there is no timeout; the first of them.

    Shown by calls that were open for seconds when their attempt ended, while later ones were answered.
    """
    if seen.scenario.operator.timeout:
        return None
    stuck = [
        call
        for calls in seen.calls
        for call in calls.never_ended
        if calls.outlived(call, by_us=_OPEN_US_MIN) and calls.last_begun_us_that_ended > call.began_us
    ]
    if not stuck:
        return None
    oldest = max(stuck, key=lambda call: call.open_us)
    return Pitfall(
        name="lost-completion",
        says=f"{len(stuck)} calls never ended, though calls that began after them did: the one for record "
        f"{oldest.record} had been open for {oldest.open_us / 1e6:.1f} s when its attempt ended. Each holds its slot.",
        advice="Complete the handle on every way out of the function, also on errors; and give the operator a timeout.",
        evidence={"calls": len(stuck), "record": oldest.record, "open_ms": oldest.open_us // 1000},
    )


_MORE = 1.5
_AND = 10
"""So many more than could be in use are no accident."""


def find_open_connections(seen: RunSeen) -> Pitfall | None:
    """`open-connections`: connections are opened and never closed; how many, and how many of use.

    Shown by the server: more lived at once than calls were ever open.
    """
    if seen.server is None:
        return None
    at_once = sum(
        sorted((calls.at_once for calls in seen.calls), reverse=True)[: seen.scenario.workload.subtasks]
    )
    if not at_once or seen.server.at_once <= _MORE * at_once + _AND:
        return None
    return Pitfall(
        name="open-connections",
        says=f"The server had {seen.server.at_once} connections at once, while never more than {at_once} calls were "
        f"open: connections are opened ({seen.server.opened} in all) and not closed.",
        advice="Give a connection back, or close it, however its call ends (async with, finally).",
        evidence={
            "connections_at_once": seen.server.at_once,
            "calls_at_once": at_once,
            "opened": seen.server.opened,
        },
    )


_WAITED_OF_CALLS = 0.5
"""A smaller share may have waited because of a fault, behind which connections are few for any pool."""


def find_small_pool(seen: RunSeen) -> Pitfall | None:
    """`small-pool`: fewer connections than the operator has slots; how many calls waited, and how long.

    Shown by the pool's own count: a wait for a connection takes a slot, and nothing has been asked.
    """
    uses = seen.of_kind("~pool")
    waited = sum(use["waited"] for use in uses)
    size = min((use["size"] for use in uses), default=0)
    capacity = seen.scenario.operator.capacity
    if not waited or size >= capacity or waited < _WAITED_OF_CALLS * seen.call_count:
        return None
    longest_ms = max(use["longest_wait_ms"] for use in uses)
    return Pitfall(
        name="small-pool",
        says=f"{waited} of {seen.call_count} calls waited for a connection, up to {longest_ms:.0f} ms: the pool has "
        f"{size} for a capacity of {capacity}, and the timeout of a record runs while it waits.",
        advice=f"Give the pool {capacity} connections, or the operator a capacity of {size}.",
        evidence={"waited": waited, "size": size, "capacity": capacity, "longest_wait_ms": longest_ms},
    )


_LATE_US = 500_000
"""An outcome may come so much after its timeout, on a busy machine."""


def find_failing(seen: RunSeen) -> Pitfall | None:
    """`failing-timeout`: a record's timeout fails the whole task; how many attempts it cost.

    Shown by attempts that ended with a timeout as their error.
    """
    failed = [line for line in seen.of_kind("failed") if "CallTimedOut" in line["error"]]
    if not failed:
        return None
    count = "One attempt" if len(failed) == 1 else f"{len(failed)} attempts"
    return Pitfall(
        name="failing-timeout",
        says=f"{count} ended because one record's lookup took longer than {seen.scenario.operator.timeout} ms; all "
        "that was in flight with it was asked again after the restart.",
        advice="Answer a timeout: with a substitute (on_timeout: [...]), a retry, or a dead letter.",
        evidence={"attempts": len(failed), "first_record": failed[0].get("id")},
    )


def find_silent(seen: RunSeen) -> Pitfall | None:
    """`silent-timeout`: a timeout is answered with nothing; how many slots were lost, of how many.

    Shown by calls that outlived their timeout without an outcome: each holds its slot as long as its attempt
    lives (A46).
    """
    timeout_ms = seen.scenario.operator.timeout
    if not timeout_ms:
        return None
    due_us = timeout_ms * 1000 + _LATE_US
    stuck = [
        [call for call in calls.never_ended if calls.outlived(call, by_us=due_us)] for calls in seen.calls
    ]
    worst = max(stuck, key=len, default=[])
    if not worst:
        return None
    longest_ms, capacity = max(call.open_us for call in worst) // 1000, seen.scenario.operator.capacity
    return Pitfall(
        name="silent-timeout",
        says=f"{len(worst)} calls of one attempt were past their timeout of {timeout_ms} ms and had no outcome, up to "
        f"{longest_ms} ms after they began: {len(worst)} of {capacity} slots are lost as long as it lives.",
        advice="Whatever a timeout handler does, it must complete the handle.",
        evidence={"slots": len(worst), "first_record": worst[0].record, "open_ms": longest_ms},
    )


_FINDERS: tuple[Callable[[RunSeen], Pitfall | None], ...] = (
    find_blocking_call,
    find_no_pool,
    find_small_pool,
    find_failing,
    find_silent,
    find_open_connections,
    find_lost_completion,
)


def find_pitfalls(seen: RunSeen) -> tuple[Pitfall, ...]:
    """In the order of `docs/explanation/pitfalls.md`."""
    return tuple(pitfall for find in _FINDERS if (pitfall := find(seen)) is not None)
