"""A run of everything at once in virtual time, drawn from a number, and told line by line.

A program of its own, so that `test_determinism.py` can run it in two processes. Invariant: whatever depends on
something besides the number, a hash say, shows in what it writes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

from reference_impl.elements import LatencyMarker, OperatorInput, WatermarkStatus
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.operator.build import Mode
from reference_impl.operator.functions import from_coroutine
from reference_impl.operator.retry import FLINK, STRICT, ExponentialBackoff, any_error, empty_result
from reference_impl.tests.rig import Rig, record, watermark

ELEMENTS = 60


def draws(number: int) -> Iterator[int]:
    """Numbers that look random: a linear congruential generator, whose low bits are no good."""
    while True:
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
        yield number >> 40


def transcript(run: int) -> list[str]:
    """All that happens, in both modes and profiles."""
    return [
        line
        for mode in ("ordered", "unordered")
        for quirks in (STRICT, FLINK)
        for line in one_run(run, mode, retry=RETRY, quirks=quirks)
    ]


RETRY = ExponentialBackoff(
    max_retries=2, initial_ms=3, max_ms=9, multiplier=1.5, on_error=any_error, on_result=empty_result
)


def one_run(run: int, mode: Mode, **more: Any) -> list[str]:
    """A source, clients that fail and are late, snapshots, and a drain."""
    number = draws(run)
    snapshots: list[str] = []

    async def lookup(value: int) -> list[Any]:
        await asyncio.sleep(next(number) % 20 / 1000)
        if next(number) % 4 == 0:
            raise ArithmeticError(value)
        return [value, {"of": str(value)}][: next(number) % 3]

    def pick(ready: int) -> int:
        return next(number) % ready

    with virtual_loop(pick=pick) as loop:
        function = from_coroutine(lookup, loop=loop, on_timeout=lambda value: [f"no {value}"])
        rig = Rig(loop, mode=mode, capacity=5, timeout_ms=25, function=function, **more)
        for place in range(ELEMENTS):
            rig.process(element(place, next(number)))
            if next(number) % 5 == 0:
                snapshots.append(f"{rig.timers.now_ms()} {rig.operator.snapshot()}")
        rig.operator.end_input()
        ended = f"ended at {rig.timers.now_ms()}, {len(rig.timers)} timers, {len(rig.failures)} failures"
    return [*map(repr, rig.happened), *snapshots, ended]


def element(place: int, draw: int) -> OperatorInput:
    """Mostly records."""
    match draw % 10:
        case 0:
            return watermark(place)
        case 1:
            return WatermarkStatus(idle=draw % 20 == 1)
        case 2:
            return LatencyMarker(id=place)
        case _:
            return record(place)


if __name__ == "__main__":
    sys.stdout.write("\n".join(transcript(int(sys.argv[1]))) + "\n")
