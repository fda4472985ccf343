"""Draws situations: broad enough that whatever may go wrong in an operator goes wrong in some of a few hundred.

Answers to `vopr`'s random options. Invariant: an honest operator can live through a situation that is drawn: what is
lost comes again, what is stopped goes on, and no more is claimed than is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar

from harness.choices import Draw
from harness.history.header import Sink
from harness.sim.situation import (
    PHASES,
    Checkpoints,
    Crash,
    Disturbance,
    DisturbanceKind,
    Lookups,
    Operator,
    Phase,
    Situation,
    Stream,
    Zombie,
)

__all__ = ["draw_situation", "livable"]

_T = TypeVar("_T")

_WAY_MS = 15
"""To the database and back, on a fresh connection, with some to spare."""
_CALM = 70
"""Of a thousand situations."""
_CALM_RECORDS_MAX = 12
"""They take their time, and with it many checkpoints."""
_OFTEN_OF_10 = 4
_RARELY = 3
"""Percent of the calls."""
_OFTEN_REACHED: tuple[Phase, ...] = ("accept", "call", "result", "emit")
"""Phases that an attempt reaches for each record."""


def draw_situation(seed: int) -> Situation:
    """The situation of that seed."""
    draw = Draw(seed, "situation")
    operator, stream = _operator(draw), _stream(draw)
    situation = Situation(
        operator=operator,
        stream=stream,
        lookups=_lookups(draw),
        checkpoints=_checkpoints(draw),
        disturbances=_disturbances(draw, calls=stream.records * stream.subtasks),
        crashes=_crashes(draw, stream),
        zombies=_zombies(draw, stream),
        back_ms=draw.between(1, 40),
        linger_ms=_one_of(draw, 0, 0, 20, 40),
    )
    situation = _telling(situation, draw)
    if draw.chance(_CALM):
        return livable(_becalmed(situation))
    return livable(_held_up(situation, draw))


def _held_up(situation: Situation, draw: Draw) -> Situation:
    """By who has no room for results, by calls that outlast whatever time they were given, by short patience."""
    operator, lookups, points = situation.operator, situation.lookups, situation.checkpoints
    if draw.chance(250):
        operator = replace(operator, downstream=(draw.between(1, 6), draw.between(1, 25)))
    if operator.timeout_ms and draw.chance(350):
        lookups = replace(lookups, slow_ms=draw.between(400, 1500))
    if draw.chance(120):
        lookups = replace(lookups, supplies=True)
    if draw.chance(300):
        points = replace(points, gives_up_ms=draw.between(80, 160))
    situation = replace(situation, operator=operator, lookups=lookups, checkpoints=points)
    if draw.chance(100):
        return _uninformed(situation, draw)
    if operator.max_tries > 1 and draw.chance(300):
        return _hasty(situation, draw)
    return _late_to_acknowledge(situation, draw) if draw.chance(400) else situation


def _uninformed(situation: Situation, draw: Draw) -> Situation:
    """Most notifications are lost, and somebody dies who has not heard of several."""
    crash = Crash(name="crash-uninformed", subtask=0, phase="instant", hit=draw.between(40, 400))
    return replace(
        situation,
        checkpoints=replace(
            situation.checkpoints, sink="two-phase", notify_lost_share=60, notify_again_share=0
        ),
        crashes=(*situation.crashes, crash),
    )


def _hasty(situation: Situation, draw: Draw) -> Situation:
    """Time runs out in the middle of a retry; the sink is one for which nobody waits, so that each ms shows."""
    return replace(
        situation,
        operator=replace(situation.operator, timeout_ms=draw.between(60, 150), on_timeout="answer"),
        lookups=replace(
            situation.lookups,
            latency_ms=(20, 60),
            slow_share=30,
            slow_ms=draw.between(400, 1500),
            error_share=30,
            unlucky_max=5,
        ),
        checkpoints=replace(situation.checkpoints, sink="rollback", reply_lost_share=0),
    )


def _late_to_acknowledge(situation: Situation, draw: Draw) -> Situation:
    """A zombie whose acknowledgement comes when its successors cut the same checkpoint, and that is restored soon."""
    return (
        replace(
            situation,
            stream=replace(situation.stream, subtasks=max(2, situation.stream.subtasks)),
            checkpoints=replace(situation.checkpoints, sink="rollback", style="barriers"),
            zombies=tuple(
                replace(
                    zombie,
                    phase="snap.end",
                    hit=draw.between(1, 3),
                    paused_ms=draw.between(25, 120),
                    then_kill_ms=draw.between(1, 60),
                )
                for zombie in situation.zombies
            ),
        )
        if situation.zombies
        else situation
    )


def _telling(situation: Situation, draw: Draw) -> Situation:
    """A jump of the clock shows only where calls wait for a timeout; a zombie, more often, where it writes."""
    operator, lookups = situation.operator, situation.lookups
    if any(one.kind == "clock-jump" for one in situation.disturbances):
        if not operator.timeout_ms:
            operator = replace(operator, timeout_ms=draw.between(15, 120), on_timeout="answer")
        lookups = replace(lookups, slow_share=max(lookups.slow_share, draw.between(10, 30)))
    if situation.zombies and draw.chance(500):
        lookups = replace(lookups, writes=True)
    return replace(situation, operator=operator, lookups=_bearable(lookups, operator))


def _becalmed(situation: Situation) -> Situation:
    """Nothing is done to it, calls are slow and never fail, checkpoints come by time: they have to keep coming."""
    return replace(
        situation,
        operator=replace(situation.operator, on_timeout="answer", max_tries=1),
        stream=replace(situation.stream, records=min(situation.stream.records, _CALM_RECORDS_MAX)),
        lookups=replace(
            situation.lookups, latency_ms=(40, 150), slow_share=20, slow_ms=200, error_share=0, loss_share=0
        ),
        checkpoints=replace(situation.checkpoints, style="mail", every=10, reply_lost_share=0),
        disturbances=(),
        crashes=(),
        zombies=(),
    )


def _one_of(draw: Draw, *choices: _T) -> _T:
    return choices[draw.index(len(choices))]


def _operator(draw: Draw) -> Operator:
    retries = draw.chance(350)
    timeout_ms = draw.between(15, 120) if retries or draw.chance(550) else 0
    return Operator(
        mode=_one_of(draw, "ordered", "unordered"),
        capacity=_one_of(draw, 1, 2, 2, 3, 4, 5, 8),
        timeout_ms=timeout_ms,
        on_timeout=_one_of(draw, "fail", "answer", "answer", "dead-letter") if timeout_ms else "fail",
        on_error=_one_of(draw, "fail", "fail", "dead-letter"),
        max_tries=draw.between(2, 4) if retries else 1,
        backoff_ms=draw.between(1, 40),
        back_pressure=_one_of(draw, "soft", "hard"),
    )


def _stream(draw: Draw) -> Stream:
    records = draw.between(5, _one_of(draw, 15, 15, 40))
    watermark_every = _one_of(draw, 0, 1, 2, 3, 5, 10)
    return Stream(
        subtasks=_one_of(draw, 1, 1, 2, 2, 3),
        records=records,
        keys=_one_of(draw, 1, 3, 10, 100),
        width_max=_one_of(draw, 1, 1, 1, 2, 3),
        every_ms=_one_of(draw, 0, 0, 1, 2, 5),
        watermark_every=watermark_every,
        watermarks=_one_of(draw, "rising", "rising", "repeating", "falling"),
        final_watermark=draw.chance(500),
        timestamps=_one_of(draw, "all", "all", "some", "none"),
        reuses_objects=draw.chance(250),
        tells_expected=draw.chance(850),
    )


def _lookups(draw: Draw) -> Lookups:
    low = draw.between(1, 5)
    is_even = draw.chance(300)
    return Lookups(
        latency_ms=(low, low + draw.between(0, 60)),
        slow_share=0 if is_even else draw.between(0, 25),
        slow_ms=draw.between(50, 200),
        error_share=0 if draw.chance(500) else draw.between(2, _one_of(draw, 15, 15, 50)),
        loss_share=0 if draw.chance(500) else draw.between(2, 15),
        unlucky_max=_one_of(draw, 1, 2, 3, 5),
        writes=draw.chance(350),
        nonces=draw.chance(800),
        connections=draw.between(2, 8),
        cancels=draw.chance(500),
    )


def _bearable(lookups: Lookups, operator: Operator) -> Lookups:
    """Where bad luck fails the task, it is rarer: a run shows more than restarts."""
    fails_late = operator.timeout_ms > 0 and operator.on_timeout == "fail"
    if fails_late:
        lookups = replace(lookups, slow_share=min(lookups.slow_share, _RARELY))
    if fails_late or (operator.on_error == "fail" and operator.max_tries == 1):
        lookups = replace(
            lookups,
            error_share=min(lookups.error_share, _RARELY),
            loss_share=min(lookups.loss_share, _RARELY),
        )
    return lookups


def _checkpoints(draw: Draw) -> Checkpoints:
    sink: Sink = _one_of(
        draw,
        "atomic",
        "atomic",
        "atomic",
        "two-phase",
        "two-phase",
        "two-phase",
        "rollback",
        "rollback",
        "append",
    )
    style: Literal["barriers", "mail"] = _one_of(draw, "barriers", "mail")
    low = draw.between(1, 3)
    return Checkpoints(
        sink=sink,
        style=style,
        every=draw.between(2, 12) if style == "barriers" else draw.between(8, 50),
        tells_outputs=sink in ("atomic", "two-phase") and draw.chance(700),
        round_trip_ms=(low, low + draw.between(0, 8)),
        notify_lost_share=_one_of(draw, 0, 0, 20),
        notify_again_share=_one_of(draw, 0, 20, 50),
        reply_lost_share=_one_of(draw, 0, 0, 10, 30),
    )


_KINDS: tuple[DisturbanceKind, ...] = (
    "latency",
    "blackhole",
    "down",
    "reset",
    "errors",
    "lock",
    "stall",
    "clock-jump",
    "clock-jump",
)


def _disturbances(draw: Draw, *, calls: int) -> tuple[Disturbance, ...]:
    count = _one_of(draw, 0, 0, 1, 1, 2)
    return tuple(_disturbance(draw, f"{number}", calls=calls) for number in range(1, count + 1))


def _disturbance(draw: Draw, number: str, *, calls: int) -> Disturbance:
    kind = _KINDS[draw.index(len(_KINDS))]
    jump_ms = _one_of(draw, -3_600_000, -40, 40, 500, 3_600_000)
    return Disturbance(
        name=f"{kind}-{number}",
        kind=kind,
        at_call=draw.between(1, max(1, calls * 2 // 3)),
        lasts_ms=draw.between(20, 150),
        amount_ms=jump_ms if kind == "clock-jump" else draw.between(20, 150),
        links=_one_of(draw, ("lookups",), ("lookups",), ("lookups", "sink")),
    )


def _crashes(draw: Draw, stream: Stream) -> tuple[Crash, ...]:
    crashes = [_crash(draw, stream, number) for number in range(1, 1 + _one_of(draw, 0, 0, 1, 1, 1, 2, 3))]
    if crashes and draw.chance(250):
        during: Phase = _one_of(draw, "restore.begin", "restore.mid", "open")
        hit = 2 if during == "open" else 1
        crashes.append(Crash(name="crash-again", subtask=crashes[0].subtask, phase=during, hit=hit))
    return tuple(crashes)


def _crash(draw: Draw, stream: Stream, number: int) -> Crash:
    phase, hit = _moment(draw, stream)
    return Crash(name=f"crash-{number}", subtask=draw.index(stream.subtasks), phase=phase, hit=hit)


def _moment(draw: Draw, stream: Stream) -> tuple[Phase, int]:
    phase = PHASES[draw.index(len(PHASES))]
    if phase == "instant":
        return phase, draw.between(1, 25 * stream.records)
    return phase, draw.between(1, stream.records if phase in _OFTEN_REACHED else 3)


def _zombies(draw: Draw, stream: Stream) -> tuple[Zombie, ...]:
    """Anywhere, or in the middle of a statement, or between a snapshot and its acknowledgement."""
    if not draw.chance(350):
        return ()
    phase, hit = _moment(draw, stream)
    where = draw.index(10)
    if where < _OFTEN_OF_10:
        phase, hit = "instant", draw.between(1, 10 * stream.records)
    elif where < 2 * _OFTEN_OF_10:
        phase, hit = "snap.end", draw.between(1, 3)
    zombie = Zombie(
        name="zombie",
        subtask=draw.index(stream.subtasks),
        phase=phase,
        hit=hit,
        paused_ms=draw.between(10, _one_of(draw, 60, 300, 300)),
        then_kill_ms=draw.between(1, 30) if draw.chance(500) else None,
    )
    return (zombie,)


def livable(situation: Situation) -> Situation:
    """`situation`, or the nearest one that an honest operator lives through and whose claims it keeps.

    For whoever changes a field of a drawn one: blocked inside `process`, a task meets checkpoints as mail only; retry
    needs a timeout, and what fails for good then fails the task; what everything is appended to knows no restart, so
    nothing there may fail the task; and where a timeout fails it, an undisturbed call is quicker.
    """
    operator, stream, points = situation.operator, situation.stream, situation.checkpoints
    if points.style == "barriers":
        operator = replace(operator, back_pressure="soft")
    if operator.timeout_ms == 0:
        operator = replace(operator, max_tries=1, on_timeout="fail")
    if operator.timeout_ms and operator.on_timeout == "fail":
        least_ms = situation.lookups.latency_ms[1] + _WAY_MS
        operator = replace(operator, timeout_ms=max(operator.timeout_ms, least_ms))
        situation = replace(situation, lookups=replace(situation.lookups, connections=operator.capacity))
    if points.sink == "append":
        operator = replace(operator, max_tries=1)
    if operator.max_tries > 1:
        operator = replace(operator, on_error="fail")
    if not stream.watermark_every:
        stream = replace(stream, watermarks="rising")
    if points.sink == "append":
        on_timeout = "answer" if operator.on_timeout == "fail" else operator.on_timeout
        operator = replace(operator, on_error="dead-letter", on_timeout=on_timeout)
        situation = replace(situation, crashes=(), zombies=())
    if points.sink not in ("atomic", "two-phase") or situation.lookups.writes:
        points = replace(points, tells_outputs=False)
    return replace(situation, operator=operator, stream=stream, checkpoints=points)
