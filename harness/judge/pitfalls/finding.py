"""Finds pitfalls that a run shows, each with measured evidence; one function for each pitfall.

A pitfall is no verdict: it names a risk in how the operator is used, next to verdicts that say what is broken. Each is
found in the run's lines, settings and server counts, collected as `RunSeen`; a setting alone is never enough. A run
that should show a pitfall and does not proves nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET

from harness.history.event import Call, Close, Ended, Failed, Res, Start
from harness.history.notes import (
    Alive,
    Dies,
    HiddenError,
    Hurried,
    KeptConnections,
    Line,
    LoopBlocked,
    LoopHeld,
    LostConnection,
    NestedAcquire,
    OwnConnections,
    PoolUse,
)
from harness.scenario.model import Scenario
from harness.scenario.outcome import Pitfall

if TYPE_CHECKING:  # level sim needs no database's client
    from harness.database.audit import ServerCounts

_Kind = TypeVar("_Kind")
_WENT_ON_US = 300_000
"""An attempt that was stopped and resumes has not handled its timers yet; one that writes lines for this long has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call without an outcome at the end of its attempt."""

    record: int | str
    began_us: int
    open_us: int
    """The time from the call's beginning to the end of its attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCalls:
    """The calls of one attempt."""

    count: int
    at_once: int
    """The most calls open at a time."""
    never_ended: Sequence[OpenCall]
    last_begun_us_that_ended: int
    """When the latest of the calls with an outcome began."""
    spoke_us: Sequence[int]
    """When the attempt wrote lines, which shows that it was running."""

    def outlived(self, call: OpenCall, *, by_us: int) -> bool:
        """Whether `call` was open for longer than `by_us` while its attempt kept running."""
        after = [at_us for at_us in self.spoke_us if at_us > call.began_us + by_us]
        return call.open_us > by_us and bool(after) and after[-1] - after[0] >= _WENT_ON_US


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """What is known of one run."""

    scenario: Scenario
    lines: Sequence[Line]
    """In order of time."""
    ended_us: int
    """When the run ended, on the lines' clock."""
    server: ServerCounts | None
    """None: the server was restarted or did not answer, so there are no counts."""
    is_users: bool = False
    """Whether the lookup is a user's own; the scenario's settings are then not its mistakes."""
    has_only_pool: bool = False
    """Whether the database can be reached by the pool alone, as at level sim."""

    calls: Sequence[AttemptCalls] = field(init=False)
    """One value for each attempt that made calls."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", tuple(_calls(self.lines, ended_us=self.ended_us)))

    def of_kind(self, kind: type[_Kind]) -> Sequence[_Kind]:
        """All lines of that kind."""
        return [line for line in self.lines if isinstance(line, kind)]

    @property
    def call_count(self) -> int:
        """Calls of all attempts."""
        return sum(calls.count for calls in self.calls)


_LAST_WORDS = Close | Failed | Ended | Dies
_OfAttempt = Call | Res | Alive | _LAST_WORDS


def _calls(lines: Sequence[Line], *, ended_us: int) -> Iterator[AttemptCalls]:
    by_attempt: dict[tuple[int, int], list[_OfAttempt]] = defaultdict(list)
    dead_us: dict[tuple[int, int], int] = {}
    for line in lines:
        if isinstance(line, _OfAttempt):
            by_attempt[line.s, line.a].append(line)
        elif isinstance(line, Start) and line.a > 1:
            dead_us[line.s, line.a - 1] = line.t
    for who, its_own in by_attempt.items():
        # It ended with its own last line, or when others knew that it had ended.
        said = (line.t for line in its_own if isinstance(line, _LAST_WORDS))
        calls = _calls_of(its_own, over_us=next(said, dead_us.get(who, ended_us)))
        if calls.count:
            yield calls


def _calls_of(lines: Sequence[_OfAttempt], *, over_us: int) -> AttemptCalls:
    running: dict[tuple[int | str, int], int] = {}
    count = at_once = latest_us = 0
    for line in lines:
        if isinstance(line, Call):
            running[line.id, line.try_] = line.t
            count += 1
            at_once = max(at_once, len(running))
        elif isinstance(line, Res):
            began_us = running.pop((line.id, line.try_), None)
            latest_us = max(latest_us, began_us or 0)
    never = [
        OpenCall(record=record, began_us=began_us, open_us=over_us - began_us)
        for (record, _), began_us in running.items()
    ]
    return AttemptCalls(
        count=count,
        at_once=at_once,
        never_ended=never,
        last_begun_us_that_ended=latest_us,
        spoke_us=[line.t for line in lines],
    )


_UNBLOCK = (
    "Await an asynchronous client, or put the blocking one on threads "
    "(reference_impl.operator.functions.from_blocking)."
)
_TIMES_MIN = 3
_ENOUGH_MS = 1_000
"""Fewer and shorter stalls than these may be the machine's."""


def find_blocking_call(seen: RunSeen) -> Pitfall | None:
    """`blocking-call`: the function under test blocks the task's thread; reports where it blocked longest.

    Evidence: the event loop stood still while that function was on the thread's stack.
    """
    stood_ms: dict[str, list[float]] = defaultdict(list)
    for note in seen.of_kind(LoopBlocked):
        stood_ms[note.where].append(note.ms)
    if not stood_ms:
        return None
    where, times = max(stood_ms.items(), key=lambda item: sum(item[1]))
    if len(times) < _TIMES_MIN and sum(times) < _ENOUGH_MS:
        return None
    return Pitfall(
        name="blocking-call",
        says=f"The task's thread stood still {len(times)} times, {sum(times) / 1000:.1f} s in all and up to "
        f"{max(times):.0f} ms at a time, in {where}: no other lookup, timer or checkpoint went on meanwhile.",
        advice=_UNBLOCK,
        evidence={
            "where": where,
            "times": len(times),
            "total_ms": round(sum(times), 1),
            "longest_ms": max(times),
        },
    )


_HELD_MS_MIN = 1_000
_HELD_OF_RUN = 0.1
"""A smaller share of the run's time is the function's own work."""


def find_held_thread(seen: RunSeen) -> Pitfall | None:
    """`blocking-call` at level sim, where virtual time does not pass while code runs: adds up real time instead.

    Evidence: samples in which the function under test was on the thread, with none of the harness's code under it.
    """
    held = max(seen.of_kind(LoopHeld), key=lambda note: note.ms, default=None)
    if held is None or held.ms < max(_HELD_MS_MIN, _HELD_OF_RUN * seen.ended_us / 1000):
        return None
    return Pitfall(
        name="blocking-call",
        says=f"The function held the task's thread for about {held.ms / 1000:.1f} s of real time, in "
        f"{held.where}, in a run of {seen.ended_us / 1e6:.1f} s of virtual time: no other lookup, timer or "
        "checkpoint could go on meanwhile.",
        advice=_UNBLOCK,
        evidence={"where": held.where, "total_ms": held.ms},
    )


_CALLS_MIN = 20
_AT_ONCE_MIN = 4
_ADVICE = "Use a pool with as many connections as the operator's capacity, opened once."
_OF_A_SUBTASK = 2
"""Connections that the harness itself needs for an attempt: its sink's, and one for the checkpoint coordinator."""
_OF_THE_RUN = 4
"""Connections that the harness needs for the run: the coordinator's, and those that read the counters."""


def find_no_pool(seen: RunSeen) -> Pitfall | None:
    """`no-pool`: each lookup opens a connection, or all lookups of a subtask share one.

    Evidence: the server's connection counts: as many connections as calls, or no more than subtasks while several
    calls were open at once. Of a user's lookup, the connections that its calls made to the database's port.
    """
    if seen.call_count < _CALLS_MIN:
        return None
    where, connected = _own_connects(seen)
    if connected >= seen.call_count / 2:
        return Pitfall(
            name="no-pool",
            says=f"{connected} connections were opened by {seen.call_count} calls, at {where}: each call makes "
            "its own.",
            advice=_ADVICE,
            evidence={"opened": connected, "calls": seen.call_count, "where": where},
        )
    if seen.server is None:
        return None
    ours = _OF_A_SUBTASK * len(seen.of_kind(Start)) + _OF_THE_RUN
    lost = len(seen.of_kind(LostConnection))
    opened = seen.server.opened - ours - lost
    if opened >= seen.call_count / 2:
        return Pitfall(
            name="no-pool",
            says=f"{seen.server.opened} connections were opened for {seen.call_count} calls: each call makes its own.",
            advice=_ADVICE,
            evidence={"opened": seen.server.opened, "calls": seen.call_count},
        )
    return _one_for_all(seen)


def _own_connects(seen: RunSeen) -> tuple[str, int]:
    """Where calls of a user's lookup connected by themselves most often, and how often they did in all."""
    places: Counter[str] = Counter()
    for note in seen.of_kind(OwnConnections):
        places[note.where] += note.times
    return (places.most_common(1)[0][0], places.total()) if places else ("", 0)


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
    """`lost-completion`: a call's result future is never completed, and there is no timeout.

    Evidence: calls that were open for seconds when their attempt ended, while later ones got an outcome.
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
"""A surplus of this many connections is no coincidence."""


def find_open_connections(seen: RunSeen) -> Pitfall | None:
    """`open-connections`: connections are opened and never closed.

    Evidence: the server had more connections at once than calls were ever open.
    """
    if seen.server is None:
        return None
    of_attempts = sorted((calls.at_once for calls in seen.calls), reverse=True)
    at_once = sum(of_attempts[: seen.scenario.most_subtasks])
    if not at_once or seen.server.at_once <= _MORE * at_once + _AND:
        return None
    where, _ = _own_connects(seen)
    place = f" at {where}" if where else ""
    return Pitfall(
        name="open-connections",
        says=f"The server had {seen.server.at_once} connections at once, while never more than {at_once} calls were "
        f"open: connections are opened{place} ({seen.server.opened} in all) and not closed.",
        advice="Give a connection back, or close it, however its call ends (async with, finally).",
        evidence={
            "connections_at_once": seen.server.at_once,
            "calls_at_once": at_once,
            "opened": seen.server.opened,
            "where": where,
        },
    )


def find_never_asked(seen: RunSeen) -> Pitfall | None:
    """`never-asked`: no call asked the database, so none of its faults could take effect and no answer came from it.

    Evidence: the pools of all attempts were never asked for a connection, and there was no other way.
    """
    pools = seen.of_kind(PoolUse)
    if not (seen.is_users and seen.has_only_pool) or seen.call_count < _CALLS_MIN:
        return None
    if len(pools) < len(seen.calls) or any(use.calm_asked or use.opened for use in pools):
        return None  # an attempt that was killed took its count with it
    return Pitfall(
        name="never-asked",
        says=f"None of {seen.call_count} calls asked the database for anything: whatever they returned did not come "
        "from it.",
        advice="Await `pool.fetch_one` or `pool.fetch_all` in the function; a client of its own needs --level live.",
        evidence={"calls": seen.call_count},
    )


_WAITED_OF_CALLS = 0.5
"""A smaller share may have waited because of a fault, which can exhaust any pool."""


def find_small_pool(seen: RunSeen) -> Pitfall | None:
    """`small-pool`: the pool has fewer connections than the operator has slots.

    Evidence: the pool's own count of waiting calls; such a call holds a slot before it has sent anything.
    """
    uses = seen.of_kind(PoolUse)
    waited = sum(use.waited for use in uses)
    if seen.is_users and (seen.scenario.operator.connections is None or not _waits_when_calm(uses)):
        return None  # the default limit is the harness's, and an outage makes calls wait for any pool
    if find_never_given_back(seen) is not None or find_nested_acquire(seen) is not None:
        return None  # calls wait for connections that never come back, whatever the pool's size
    size = min((use.size for use in uses), default=0)
    capacity = seen.scenario.operator.capacity
    if not waited or size >= capacity or waited < _WAITED_OF_CALLS * seen.call_count:
        return None
    longest_ms = max(use.longest_wait_ms for use in uses)
    calls = min(waited, seen.call_count)  # a call that asks again may wait again
    return Pitfall(
        name="small-pool",
        says=f"{calls} of {seen.call_count} calls waited for a connection, up to {longest_ms:.0f} ms: the pool has "
        f"{size} for a capacity of {capacity}, and the timeout of a record runs while it waits.",
        advice=f"Give the pool {capacity} connections, or the operator a capacity of {size}.",
        evidence={"waited": waited, "size": size, "capacity": capacity, "longest_wait_ms": longest_ms},
    )


def find_nested_acquire(seen: RunSeen) -> Pitfall | None:
    """`nested-acquire`: a call that holds a connection waits for another one.

    Evidence: the pool's own account of calls that waited while their own task, or the call's, held a connection.
    """
    waits: dict[tuple[str, str], list[int]] = {}
    for note in seen.of_kind(NestedAcquire):
        place = waits.setdefault((note.held, note.where), [0, 0])
        place[0] += note.times
        place[1] += note.times - note.got
    if not waits:
        return None
    (held, where), (times, never) = max(waits.items(), key=lambda one: (one[1][1], one[1][0]))
    size = min((use.size for use in seen.of_kind(PoolUse)), default=0)
    still = "once each connection is held by such a call, all stand still until a limit of time passes"
    waited = (
        f"{times} times a call that held a connection, taken at {held}, waited for another one at {where}"
    )
    got = f"{never} of them never got it" if never else "all got it this time"
    return Pitfall(
        name="nested-acquire",
        says=f"{waited}, and {got}: {still}" + (f" (the pool has {size})." if size else "."),
        advice="Send the other statement on the connection that the call has, or give that back before: a larger pool "
        "or a smaller capacity only makes it rarer.",
        evidence={"held": held, "where": where, "calls": times, "never": never, "size": size},
    )


_KEPT_MIN = 3
"""An attempt may keep fewer on purpose, as one connection for all its calls."""


def find_never_given_back(seen: RunSeen) -> Pitfall | None:
    """`never-given-back`: calls take connections of the pool and end without giving them back.

    Evidence: the pool's own account, when the attempt ended, of connections whose caller had ended before.
    """
    kept: Counter[str] = Counter()
    for note in seen.of_kind(KeptConnections):
        if note.times >= _KEPT_MIN:
            kept[note.where] += note.times
    if not kept:
        return None
    (where, _), total = kept.most_common(1)[0], kept.total()
    size = min((use.size for use in seen.of_kind(PoolUse)), default=0)
    pool = f" The pool has {size}: when they are gone, every call waits for its timeout." if size else ""
    return Pitfall(
        name="never-given-back",
        says=f"{total} calls took a connection at {where} and ended without giving it back.{pool}",
        advice="Use `async with pool.connection() as connection:`, or `pool.fetch_all`, so that it goes back "
        "however the call ends.",
        evidence={"where": where, "calls": total, "size": size},
    )


def retries_too_fast(seen: RunSeen) -> Pitfall | None:
    """`no-pause`: a call asks again and again after errors, at once.

    Evidence: the pool's account of a row of errors, each followed by the next request of the same call within 1 ms.
    """
    hurried = seen.of_kind(Hurried)
    if not hurried:
        return None
    worst = max(hurried, key=lambda note: note.times)
    calls = "1 call" if len(hurried) == 1 else f"{len(hurried)} calls"
    return Pitfall(
        name="no-pause",
        says=f"{calls} asked again and again without a pause after errors, at {worst.where}: "
        f"the one for record {worst.id} {worst.times} times in a row.",
        advice="Wait before asking again, longer each time, and give up after some tries: raise the error.",
        evidence={
            "where": worst.where,
            "calls": len(hurried),
            "record": worst.id,
            "times": worst.times,
        },
    )


def find_swallowed_error(seen: RunSeen) -> Pitfall | None:
    """`swallowed-error`: a call met an error of the database, and returned a result as if there had been none.

    Evidence: the pool told the call of the error, did not answer the same statement in that call, and the call
    returned. An error that the same statement got over, or that the call raised, is none.
    """
    hidden = seen.of_kind(HiddenError)
    if not hidden:
        return None
    records = list(dict.fromkeys(note.id for note in hidden))
    first = hidden[0]
    caught = (
        f"caught at {first.caught}"
        if first.caught is not None
        else f"met at {first.met} (where it was caught is not known)"
    )
    calls = "1 call" if len(records) == 1 else f"The calls for {len(records)} records"
    return Pitfall(
        name="swallowed-error",
        says=f"{calls} met an error, did not ask again with success, and returned as if all were well: for record "
        f"{first.id} it was {first.error}, {caught}.",
        advice="Let the error through, or ask again: a result in its place looks like the database's answer.",
        evidence={
            "records": len(records),
            "record": first.id,
            "error": first.error,
            "met": first.met,
            "caught": first.caught,
        },
    )


def _waits_when_calm(uses: Sequence[PoolUse]) -> bool:
    """Whether calls waited for a connection also before the pool's first error."""
    asked = sum(use.calm_asked for use in uses)
    waited = sum(use.calm_waited for use in uses)
    return asked >= _CALLS_MIN and waited >= _WAITED_OF_CALLS * asked


_LATE_US = 500_000
"""How late after its timeout an outcome may come on a busy machine."""


def find_failing(seen: RunSeen) -> Pitfall | None:
    """`failing-timeout`: a record's timeout fails the whole task.

    Evidence: attempts that ended with a timeout as their error.
    """
    if seen.is_users and seen.scenario.pitfall != "failing-timeout":
        return None
    failed = [line for line in seen.of_kind(Failed) if "CallTimedOut" in line.error]
    if not failed:
        return None
    count = "One attempt" if len(failed) == 1 else f"{len(failed)} attempts"
    return Pitfall(
        name="failing-timeout",
        says=f"{count} ended because one record's lookup took longer than {seen.scenario.operator.timeout} ms; all "
        "that was in flight with it was asked again after the restart.",
        advice="Answer a timeout: with a substitute (on_timeout: [...]), a retry, or a dead letter.",
        evidence={"attempts": len(failed), "first_record": None if failed[0].id is UNSET else failed[0].id},
    )


def find_silent(seen: RunSeen) -> Pitfall | None:
    """`silent-timeout`: the timeout handler completes nothing, so slots are lost.

    Evidence: calls without an outcome after their timeout; each holds its slot as long as its attempt lives (A46).
    """
    timeout_ms = seen.scenario.operator.timeout
    if not timeout_ms or (seen.is_users and seen.scenario.pitfall != "silent-timeout"):
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
        advice="Complete the result handle in every path of the timeout handler.",
        evidence={"slots": len(worst), "first_record": worst[0].record, "open_ms": longest_ms},
    )


_FINDERS: tuple[Callable[[RunSeen], Pitfall | None], ...] = (
    find_swallowed_error,
    find_blocking_call,
    find_held_thread,
    find_never_asked,
    find_no_pool,
    find_small_pool,
    find_nested_acquire,
    find_never_given_back,
    retries_too_fast,
    find_failing,
    find_silent,
    find_open_connections,
    find_lost_completion,
)


def find_pitfalls(seen: RunSeen) -> tuple[Pitfall, ...]:
    """All pitfalls of the run, in the order of `docs/explanation/pitfalls.md`."""
    return tuple(pitfall for find in _FINDERS if (pitfall := find(seen)) is not None)
