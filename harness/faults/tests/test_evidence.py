"""Evidence: each fault is believed only by what a run recorded, and a fault that did nothing leaves none (V23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.faults.blackhole import Blackhole
from harness.faults.down import Down
from harness.faults.fault import NetworkFault, Seen
from harness.faults.latency import Latency
from harness.faults.reset import Reset
from harness.history.timed_call import TimedCall

ARMED, HEALED = 1_000_000, 2_000_000
LATENCY = Latency(name="slow", link="lookups", stream="downstream", delay_ms=100, jitter_ms=0)
BLACKHOLE = Blackhole(name="hole", link="lookups", stream=None)
DOWN = Down(name="cut", link="lookups")
RESET = Reset(name="rst", link="lookups", stream="downstream")


def call(began_ms: int, took_ms: int | None, ending: str | None = "ok") -> TimedCall:
    began_us = began_ms * 1000
    ended_us = None if took_ms is None else began_us + took_ms * 1000
    return TimedCall(began_us=began_us, ended_us=ended_us, ending=None if took_ms is None else ending)


def seen(calls: Sequence[TimedCall] = (), losses: Sequence[tuple[int, str, int | str]] = ()) -> Seen:
    return Seen(armed_us=ARMED, healed_us=HEALED, calls=calls, losses=losses)


def usual(count: int = 10, took_ms: int = 20) -> list[TimedCall]:
    return [call(100 + n, took_ms) for n in range(count)]


def during(count: int = 10, took_ms: int | None = 20, ending: str = "ok") -> list[TimedCall]:
    return [call(1100 + n, took_ms, ending) for n in range(count)]


def test_latency_bites_when_the_median_shifts_by_half_of_it() -> None:
    evidence = LATENCY.evidence(seen(usual() + during(took_ms=120)))

    assert evidence == {
        "calls_inside": 10,
        "fastest_ms_inside": 120.0,
        "median_ms_inside": 120.0,
        "median_ms_outside": 20.0,
    }


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(usual(took_ms=80) + during(took_ms=120), id="shifts too little"),
        pytest.param(
            usual() + during(took_ms=120) + [call(1200, 97)],
            id="let one answer through sooner than it delays",
        ),
        pytest.param(usual() + during(), id="does nothing, as when the proxy is bypassed"),
        pytest.param(usual() + during(count=4, took_ms=200), id="too few calls under it"),
        pytest.param(usual(count=4) + during(took_ms=200), id="too few calls to compare with"),
        pytest.param(usual() + during(took_ms=None), id="no call under it ended"),
        pytest.param(
            usual() + during(count=4, took_ms=200) + during(count=6, took_ms=None),
            id="too few calls under it ended",
        ),
        pytest.param([], id="no calls"),
    ],
)
def test_latency_leaves_no_evidence_when_it(calls: list[TimedCall]) -> None:
    assert LATENCY.evidence(seen(calls)) == {}


def test_latency_is_compared_with_calls_that_it_could_not_touch() -> None:
    straddling = [call(990, 300) for _ in range(20)]
    after = [call(2000 + n, 20) for n in range(5)]

    evidence = LATENCY.evidence(seen(straddling + during(took_ms=120) + after))

    assert evidence["calls_inside"] == 10
    assert evidence["median_ms_outside"] == 20.0


def test_latency_is_compared_with_the_quicker_side_for_a_run_warms_up_and_catches_up() -> None:
    warming_up = usual(took_ms=110)
    after = [call(2000 + n, 20) for n in range(5)]

    evidence = LATENCY.evidence(seen(warming_up + during(took_ms=120) + after))

    assert evidence["median_ms_outside"] == 20.0


@pytest.mark.parametrize(
    ("calls", "losses"),
    [
        pytest.param(during(took_ms=300, ending="timeout"), [], id="calls timed out"),
        pytest.param(during(took_ms=None), [(1_500_000, "lookups", 2013)], id="connections were lost"),
        pytest.param(during(took_ms=1500), [(HEALED + 2000, "lookups", 2013)], id="healing cut who waited"),
        pytest.param(
            during(took_ms=1500) + during(took_ms=300, ending="timeout"), [], id="answers came after it"
        ),
    ],
)
def test_a_blackhole_bites_when(calls: list[TimedCall], losses: list[tuple[int, str, int | str]]) -> None:
    evidence = BLACKHOLE.evidence(seen(usual() + calls, losses))

    assert evidence["calls_during"] == len(calls)
    assert evidence["answered"] == 0


@pytest.mark.parametrize(
    ("calls", "losses"),
    [
        pytest.param(during(), [], id="answers as ever, as when the proxy is bypassed"),
        pytest.param([*during(took_ms=300, ending="timeout"), call(1200, 20)], [], id="answers one call"),
        pytest.param([], [], id="meets no call"),
        pytest.param([], [(HEALED + 2000, "lookups", 2013)], id="cuts an idle connection when it heals"),
        pytest.param(during(took_ms=1500), [(HEALED + 900_000, "lookups", 2013)], id="is long over"),
        pytest.param(during(took_ms=None), [], id="meets calls of which nothing is known"),
        pytest.param(during(took_ms=None), [(1_500_000, "sink", 2013)], id="meets losses of another link"),
    ],
)
def test_a_blackhole_leaves_no_evidence_when_it(
    calls: list[TimedCall], losses: list[tuple[int, str, int | str]]
) -> None:
    assert BLACKHOLE.evidence(seen(usual() + calls, losses)) == {}


@pytest.mark.parametrize("fault", [DOWN, RESET], ids=["down", "reset"])
def test_lost_connections_are_evidence_by_code(fault: NetworkFault) -> None:
    losses: list[tuple[int, str, int | str]] = [
        (ARMED, "lookups", 2013),
        (1_200_000, "lookups", "ConnectionResetError"),
        (HEALED, "lookups", 2013),
    ]

    evidence = fault.evidence(seen(during(), losses))

    assert evidence == {"connections_lost": 3, "codes": {"2013": 2, "ConnectionResetError": 1}}


@pytest.mark.parametrize("fault", [DOWN, RESET], ids=["down", "reset"])
@pytest.mark.parametrize(
    "losses",
    [[], [(1_500_000, "sink", 2013)], [(ARMED - 1, "lookups", 2013)], [(HEALED + 1, "lookups", 2013)]],
    ids=["none", "of another link", "before", "after"],
)
def test_other_losses_are_no_evidence(fault: NetworkFault, losses: list[tuple[int, str, int | str]]) -> None:
    assert fault.evidence(seen(during(), losses)) == {}


class Refusing:
    """A control that fails at its `failing`-th change, and remembers what acts."""

    def __init__(self, failing: int) -> None:
        self._left = failing
        self.acts: list[str] = []

    def add_toxic(self, link: str, toxic: Any) -> None:
        self._left -= 1
        if self._left == 0:
            raise ConnectionError
        self.acts.append(toxic.name)

    def remove_toxic(self, link: str, name: str) -> None:
        if name in self.acts:
            self.acts.remove(name)

    def disable(self, link: str) -> None:
        self.acts.append(link)
        raise ConnectionError

    def enable(self, link: str) -> None:
        self.acts.remove(link)


@pytest.mark.parametrize(
    "fault", [LATENCY, BLACKHOLE, DOWN, RESET], ids=["latency", "blackhole", "down", "reset"]
)
@pytest.mark.parametrize("failing", [1, 2])
def test_a_fault_that_fails_half_armed_or_under_way_heals(fault: NetworkFault, failing: int) -> None:
    control = Refusing(failing)

    with pytest.raises(ConnectionError), fault.inject(control):
        raise ConnectionError

    assert control.acts == []
