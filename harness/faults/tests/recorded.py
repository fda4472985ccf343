"""What a run records of a link's faults, written by hand for tests of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import ProxyEvidence, Seen
from harness.faults.tests.fake_site import scenario
from harness.history.follower import TimedCall

ARMED, HEALED = 1_000_000, 2_000_000
LINK = {"link": "lookups", "when": {"at": "0ms"}}
FOR = {**LINK, "for": "1s"}
ENTRIES: dict[str, dict[str, Any]] = {
    "latency": {**FOR, "delay": "100ms"},
    "jitter": {**FOR, "jitter": "100ms"},
    "one_way": {**FOR, "delay": "100ms", "direction": "up"},
    "blackhole": FOR,
    "reset": FOR,
    "cut": LINK,
    "down": FOR,
    "flap": {**FOR, "open": "200ms", "closed": "300ms"},
    "bandwidth": {**FOR, "rate": "10kB/s"},
    "slow_loris": {**FOR, "bytes": 5, "gap": "50ms"},
    "limit": {**FOR, "bytes": 300},
}


def made(kind: str, **fields: Any) -> OutsideFault:
    (fault,) = scenario({"id": "f", "do": kind, **ENTRIES[kind], **fields}).faults
    assert isinstance(fault, OutsideFault)
    return fault


def call(began_ms: int, took_ms: int | None, ending: str | None = "ok", link: str = "lookups") -> TimedCall:
    began_us = began_ms * 1000
    ended_us = None if took_ms is None else began_us + took_ms * 1000
    ending = None if took_ms is None else ending
    return TimedCall(began_us=began_us, ended_us=ended_us, ending=ending, link=link)


def seen(
    calls: Sequence[TimedCall] = (), losses: Sequence[tuple[int, str, int | str]] = (), **more: Any
) -> Seen:
    return Seen(armed_us=ARMED, healed_us=HEALED, calls=calls, losses=losses, **more)


def usual(count: int = 10, took_ms: int = 20) -> list[TimedCall]:
    return [call(100 + n, took_ms) for n in range(count)]


def during(count: int = 10, took_ms: int | None = 20, ending: str = "ok") -> list[TimedCall]:
    return [call(1100 + n, took_ms, ending) for n in range(count)]


def event(did: str, stream: str = "downstream", **numbers: Any) -> ProxyEvidence:
    return ProxyEvidence(t_us=1_500_000, did=did, toxic=f"f.{stream}", connection=3, stream=stream, **numbers)


def paced(*, us: int = 90_000, empty: int = 0) -> ProxyEvidence:
    return event("paced", bytes=900, more={"us": us, "empty": empty})


def sliced(*, count: int = 22, pieces: int = 5, gap_us: int = 200_000) -> ProxyEvidence:
    """By default four pieces of 5 bytes and a rest of 2, each 50 ms after the one before."""
    return event(
        "sliced",
        bytes=count,
        more={"pieces": pieces, "tails": 1, "tail_bytes": 2, "gaps": pieces - 1, "gap_us": gap_us},
    )


LOST: list[tuple[int, str, int | str]] = [(1_100_000, "lookups", 2013), (1_600_000, "lookups", 2003)]
SLOW = usual() + during(took_ms=120)
