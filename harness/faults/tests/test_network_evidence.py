"""Evidence: each fault of a link is believed only by what a run recorded; one that did nothing leaves none (V23)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.faults.real.evidence import Seen
from harness.faults.registry import FAULTS
from harness.faults.tests.fake_site import Proxy, site
from harness.faults.tests.recorded import (
    ARMED,
    HEALED,
    LOST,
    SLOW,
    call,
    during,
    event,
    made,
    paced,
    seen,
    sliced,
    usual,
)
from harness.history.follower import TimedCall
from tools.cases import each

TURNS = [{"closed": 1_000_000}, {"opened": 1_300_000}, {"closed": 1_500_000}, {"opened": 1_800_000}]
BITTEN: dict[str, Seen] = {
    "latency": seen(SLOW, log=[event("delayed", ms=100, bytes=80, more={"chunks": 5})]),
    "jitter": seen(SLOW, log=[event("delayed", ms=ms, bytes=80) for ms in (12, 40, 90, 60, 70)]),
    "one_way": seen(SLOW, log=[event("delayed", "upstream", ms=100, more={"chunks": 9})]),
    "blackhole": seen(usual() + during(took_ms=300, ending="timeout"), log=[event("swallowed", bytes=80)]),
    "reset": seen(during(), LOST, log=[event("reset")]),
    "cut": seen(during(), LOST, log=[], facts=[{"connections": [1, 2]}]),
    "down": seen(during(), LOST, log=[]),
    "flap": seen(during(), LOST, log=[], facts=TURNS),
    "bandwidth": seen(SLOW, log=[event("held", ms=90, bytes=900), paced()]),
    "slow_loris": seen(SLOW, log=[sliced()]),
    "limit": seen(during(), LOST, log=[event("limited", bytes=300)]),
}
"""What each leaves where the proxy keeps a log."""
KINDS = each("kind", BITTEN)


@KINDS
def test_each_is_believed_by_what_it_leaves_with_a_proxys_log_and_without(kind: str) -> None:
    bitten = BITTEN[kind]

    assert made(kind).evidence(bitten)
    assert made(kind).evidence(replace(bitten, log=None))


@KINDS
def test_each_that_did_nothing_leaves_no_evidence(kind: str) -> None:
    """As when the proxy is bypassed: calls are as ever, nothing is lost, and a log stays empty."""
    quiet = usual() + during()

    assert made(kind).evidence(seen(quiet, log=[])) == {}
    assert made(kind).evidence(seen(quiet)) == {}
    assert made(kind).evidence(seen()) == {}


@KINDS
def test_what_happened_on_the_other_link_is_no_evidence(kind: str) -> None:
    bitten = BITTEN[kind]
    elsewhere = replace(
        bitten,
        calls=[replace(one, link="sink") for one in bitten.calls],
        losses=[(at_us, "sink", code) for at_us, _, code in bitten.losses],
    )

    assert made(kind).evidence(elsewhere) == {}


@each("kind", ["latency", "jitter", "one_way", "blackhole", "reset", "bandwidth", "slow_loris", "limit"])
def test_calls_that_suffered_are_not_believed_against_a_proxy_that_did_nothing(kind: str) -> None:
    assert made(kind).evidence(replace(BITTEN[kind], log=[])) == {}


@pytest.mark.parametrize("kind", ["latency", "jitter", "bandwidth", "slow_loris"])
def test_events_in_the_other_direction_are_no_evidence(kind: str) -> None:
    bitten = BITTEN[kind]
    up = [replace(one, stream="upstream") for one in bitten.log or ()]

    assert made(kind).evidence(replace(bitten, log=up)) == {}
    assert made(kind, direction="up").evidence(replace(bitten, log=up))


@KINDS
@each("failing", [1, 2])
def test_each_that_fails_half_armed_or_under_way_heals(kind: str, failing: int) -> None:
    proxy = Proxy(failing=failing)

    with pytest.raises(ConnectionError), made(kind).inject(site(proxy)):
        raise ConnectionError

    assert proxy.acts == []


@KINDS
def test_each_is_in_the_table_of_a_link(kind: str) -> None:
    assert FAULTS[kind].by == "link"


def test_latency_bites_when_the_median_shifts_by_half_of_it() -> None:
    assert made("latency").evidence(seen(SLOW)) == {
        "calls_inside": 10,
        "fastest_ms_inside": 120.0,
        "median_ms_inside": 120.0,
        "median_ms_outside": 20.0,
    }


@each(
    "calls",
    [
        pytest.param(usual(took_ms=80) + during(took_ms=120), id="shifts too little"),
        pytest.param([*SLOW, call(1200, 97)], id="let one answer through sooner than it delays"),
        pytest.param(usual() + during(count=4, took_ms=200), id="too few calls under it"),
        pytest.param(usual(count=4) + during(took_ms=200), id="too few calls to compare with"),
        pytest.param(usual() + during(took_ms=None), id="no call under it ended"),
        pytest.param(
            usual() + during(count=4, took_ms=200) + during(count=6, took_ms=None),
            id="too few calls under it ended",
        ),
    ],
)
def test_latency_leaves_no_evidence_when_it(calls: list[TimedCall]) -> None:
    assert made("latency").evidence(seen(calls)) == {}


@pytest.mark.parametrize(("chunks", "ms", "bites"), [(5, 100, True), (4, 100, False), (5, 0, False)])
def test_latency_is_believed_by_five_chunks_that_the_proxy_held(chunks: int, ms: int, bites: bool) -> None:  # noqa: FBT001 - a case
    events = [event("delayed", ms=ms, bytes=80, more={"chunks": chunks})]

    assert bool(made("latency").evidence(seen(SLOW, log=events))) is bites


def test_with_a_log_one_answer_that_came_sooner_contradicts_nothing() -> None:
    events = [event("delayed", ms=100, bytes=80, more={"chunks": 9})]

    assert made("latency").evidence(seen([*SLOW, call(1200, 97)], log=events))


@each(
    ("calls", "bites"),
    [
        pytest.param(usual(took_ms=300) + during(took_ms=120), True, id="as slow, on a machine slower still"),
        pytest.param(during(count=5, took_ms=60, ending="timeout"), True, id="timed out, and no other calls"),
        pytest.param(usual() + during(count=5, took_ms=None), True, id="waited until it healed"),
        pytest.param(usual() + during(count=4, took_ms=200), False, id="too few"),
        pytest.param(usual() + during(took_ms=49), False, id="not even half the delay"),
        pytest.param(usual() + [call(1960, None)] * 9, False, id="begun too late to have waited so long"),
    ],
)
def test_logged_latency_is_believed_by_five_calls_as_slow(calls: list[TimedCall], bites: bool) -> None:  # noqa: FBT001 - a case
    events = [event("delayed", ms=100, bytes=80, more={"chunks": 9})]

    assert bool(made("latency").evidence(seen(calls, log=events))) is bites


def test_a_call_that_timed_out_was_not_answered_sooner_than_the_delay_but_counts_in_the_median() -> None:
    """The timeout of 60 ms is less than the delay of 100: the shift can be 40 ms only, and half of 60 is asked."""
    timed_out = during(took_ms=60, ending="timeout")

    evidence = made("latency").evidence(seen(usual() + timed_out))

    assert (evidence["timed_out"], evidence["median_ms_inside"]) == (10, 60.0)
    assert "fastest_ms_inside" not in evidence
    assert made("latency").evidence(seen(usual(took_ms=40) + timed_out)) == {}


@pytest.mark.parametrize("kind", ["jitter", "bandwidth", "slow_loris"])
def test_without_a_log_a_busy_machine_is_not_taken_for_a_fault(kind: str) -> None:
    """The median rises enough, and yet the two sides overlap by more than a quarter."""
    noisy = [call(100 + n, 20 + 20 * n) for n in range(10)] + [call(1100 + n, 70 + 20 * n) for n in range(10)]

    assert made(kind).evidence(seen(noisy)) == {}


def test_latency_is_compared_with_calls_that_it_could_not_touch() -> None:
    straddling = [call(990, 300) for _ in range(20)]
    after = [call(2000 + n, 20) for n in range(5)]

    evidence = made("latency").evidence(seen(straddling + during(took_ms=120) + after))

    assert evidence["calls_inside"] == 10
    assert evidence["median_ms_outside"] == 20.0


def test_latency_is_compared_with_the_quicker_side_for_a_run_warms_up_and_catches_up() -> None:
    warming_up = usual(took_ms=110)
    after = [call(2000 + n, 20) for n in range(5)]

    evidence = made("latency").evidence(seen(warming_up + during(took_ms=120) + after))

    assert evidence["median_ms_outside"] == 20.0


def test_jitter_that_holds_every_chunk_alike_is_a_latency() -> None:
    alike = [event("delayed", ms=50, bytes=80)] * 5

    assert made("jitter").evidence(seen(SLOW, log=alike)) == {}


def test_one_way_that_delays_both_ways_is_not_believed() -> None:
    both = [event("delayed", "upstream", ms=100, more={"chunks": 9}), event("delayed", "downstream", ms=1)]

    assert made("one_way").evidence(seen(SLOW, log=both)) == {}


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
    evidence = made("blackhole").evidence(seen(usual() + calls, losses))

    assert evidence["calls_during"] == len(calls)
    assert evidence["answered"] == 0


@pytest.mark.parametrize(
    ("calls", "losses"),
    [
        pytest.param([*during(took_ms=300, ending="timeout"), call(1200, 20)], [], id="answers one call"),
        pytest.param([], [(HEALED + 2000, "lookups", 2013)], id="cuts an idle connection when it heals"),
        pytest.param(during(took_ms=1500), [(HEALED + 900_000, "lookups", 2013)], id="is long over"),
        pytest.param(during(took_ms=None), [], id="meets calls of which nothing is known"),
        pytest.param(during(took_ms=None), [(1_500_000, "sink", 2013)], id="meets losses of another link"),
    ],
)
def test_a_blackhole_leaves_no_evidence_when_it(
    calls: list[TimedCall], losses: list[tuple[int, str, int | str]]
) -> None:
    assert made("blackhole").evidence(seen(usual() + calls, losses)) == {}


@pytest.mark.parametrize("kind", ["down", "reset", "limit", "cut"])
def test_lost_connections_are_evidence_by_code(kind: str) -> None:
    losses: list[tuple[int, str, int | str]] = [
        (ARMED, "lookups", 2013),
        (1_200_000, "lookups", "ConnectionResetError"),
        (HEALED, "lookups", 2013),
    ]

    evidence = made(kind).evidence(seen(during(), losses))

    assert evidence == {"connections_lost": 3, "codes": {"2013": 2, "ConnectionResetError": 1}}


@each(
    "kind, shown",
    [("down", {"starts_failed": 2}), *((kind, {}) for kind in ("reset", "limit", "cut", "blackhole"))],
)
def test_a_start_that_fails_meanwhile_is_evidence_of_a_link_that_refuses_and_of_no_other(
    kind: str, shown: dict[str, int]
) -> None:
    failed = [ARMED - 1, ARMED, HEALED, HEALED + 1]

    assert made(kind).evidence(seen(usual(), failed_starts_us=failed)) == shown
    assert made(kind).evidence(seen(usual(), failed_starts_us=[ARMED - 1, HEALED + 1])) == {}


@each("kind", ["down", "reset", "limit", "cut"])
@each("at_us", [ARMED - 1, HEALED + 1], ids=["before", "after"])
def test_losses_at_another_time_are_no_evidence(kind: str, at_us: int) -> None:
    assert made(kind).evidence(seen(during(), [(at_us, "lookups", 2013)])) == {}


def test_a_flap_is_told_by_its_turns_and_by_how_long_it_was_up() -> None:
    evidence = made("flap").evidence(seen(during(), LOST, facts=TURNS))

    assert evidence["turns"] == evidence["turns_with_losses"] == 2
    assert evidence["share_up"] == evidence["share_asked"] == 0.4


@pytest.mark.parametrize(
    ("losses", "found"),
    [
        pytest.param(LOST[:1], TURNS, id="less than one a turn"),
        pytest.param([], TURNS, id="none"),
        pytest.param(LOST, TURNS[:1], id="no turn was whole"),
        pytest.param(
            LOST, [*TURNS[:2], {"closed": 1_900_000}, {"opened": 1_950_000}], id="it was up for too long"
        ),
        pytest.param([(1_450_000, "lookups", 2013)] * 2, TURNS, id="lost while it was up"),
    ],
)
def test_a_flap_leaves_no_evidence_when(
    losses: list[tuple[int, str, int | str]], found: list[dict[str, int]]
) -> None:
    assert made("flap").evidence(seen(during(), losses, facts=found)) == {}


def test_a_flap_turns_while_it_lasts_and_leaves_the_link_up() -> None:
    proxy, facts = Proxy(), list[dict[str, Any]]()

    with made("flap", open="1ms", closed="1ms").inject(
        site(proxy, note_fact=lambda **told: facts.append(told))
    ) as _:
        while len(facts) < 4:
            pass

    assert proxy.log[:4] == ["disable lookups", "enable lookups"] * 2
    assert proxy.acts == []


def test_a_limit_that_closed_elsewhere_is_not_believed() -> None:
    assert made("limit").evidence(seen(during(), LOST, log=[event("limited", bytes=299)])) == {}


def test_a_cut_that_met_no_connection_is_not_believed_where_the_proxy_would_know() -> None:
    assert made("cut").evidence(seen(during(), LOST, log=[], facts=[{"connections": []}])) == {}


@each(
    ("kind", "type_", "attributes"),
    [
        ("latency", "latency", {"latency": 100, "jitter": 0}),
        ("jitter", "latency", {"latency": 50, "jitter": 50}),
        ("one_way", "latency", {"latency": 100, "jitter": 0}),
        ("blackhole", "timeout", {"timeout": 0}),
        ("reset", "reset_peer", {"timeout": 0}),
        ("bandwidth", "bandwidth", {"rate": 10}),
        ("slow_loris", "slicer", {"average_size": 5, "size_variation": 0, "delay": 50_000}),
        ("limit", "limit_data", {"bytes": 300}),
    ],
)
def test_each_asks_for_the_toxic_that_does_it(kind: str, type_: str, attributes: dict[str, int]) -> None:
    proxy = Proxy()

    with made(kind).inject(site(proxy)):
        asked = list(proxy.toxics.values())

    assert [(toxic.type, dict(toxic.attributes)) for toxic in asked] == [(type_, attributes)] * len(asked)
    assert {toxic.stream for toxic in asked} == {
        "blackhole": {"upstream", "downstream"},
        "one_way": {"upstream"},
    }.get(kind, {"downstream"})
