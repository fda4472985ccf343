"""A fault of the database that did nothing leaves no evidence: neither its own word nor the clients' is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import Loss, Seen
from harness.faults.registry import FAULTS
from harness.faults.tests.entries import made
from harness.history.follower import TimedCall
from tools.cases import each

ARMED, HEALED = 10_000_000, 12_000_000
WITHIN = ARMED + 500_000


@dataclass(frozen=True, kw_only=True)
class Bite:
    """What shows that a fault bit: facts of its own, and errors or calls of clients. Nothing of it may be missing."""

    facts: Mapping[str, Any]
    codes: Sequence[int] = ()
    calls: Sequence[TimedCall] = ()
    fields: Mapping[str, Any] | None = None


def call(began_us: int, took_ms: int, ending: str = "ok", link: str = "lookups") -> TimedCall:
    return TimedCall(began_us=began_us, ended_us=began_us + took_ms * 1000, ending=ending, link=link)


ENDED = {"start": "10-1", "gone": True, "next_start": "11-2"}
PAUSED = {"paused": True, "still_paused": True, "paused_us": ARMED, "until_us": HEALED}
SWITCHED = {
    "promoted": True,
    "answered": 1,
    "answers": 3,
    "lost": 7,
    "primary": "log:900",
    "executed": "log:88",
}
BITES: Mapping[str, Bite] = {
    "db_kill": Bite(facts=ENDED, codes=(2013,)),
    "db_restart": Bite(facts=ENDED, codes=(1053,)),
    "db_pause": Bite(facts=PAUSED, calls=(call(WITHIN, 1600),)),
    "read_only": Bite(facts={"read_only": 1}, codes=(1290,)),
    "offline_mode": Bite(facts={"offline": 1}, codes=(3032,)),
    "lock_rows": Bite(facts={"waiting": 1}),
    "deadlocks": Bite(facts={"counted": 1}, codes=(1213,)),
    "kill_query": Bite(facts={"killed": 2}, codes=(1317,)),
    "kill_connection": Bite(facts={"killed": 2}, codes=(2013,)),
    "max_connections": Bite(facts={"refused": 3}, codes=(1040,)),
    "wait_timeout": Bite(facts={"hung_up": 1, "ended_us": ARMED - 600_000}, codes=(4031,)),
    "oversized_packet": Bite(facts={"ended_us": ARMED}, codes=(1153,)),
    "schema_change": Bite(facts={"renamed": True}, codes=(1054,)),
    "disk_full": Bite(facts={"bytes_taken": 4096}, codes=(1114,)),
    "server_clock": Bite(
        facts={"offset_before_ms": 0, "offset_ms": 3_600_000},
        calls=(call(WITHIN, 2),),
        fields={"shift": "60m"},
    ),
    "change_rows": Bite(
        facts={"change": "end", "ver": 1, "keys": [0, 1, 2]}, calls=(call(WITHIN, 2),), fields={"count": 3}
    ),
    "failover": Bite(facts=SWITCHED, codes=(2013,), fields={"lag": "2s"}),
    "split": Bite(facts={"only_on_old": 2, "only_on_promoted": 1, "stayed": 1, "reset": 1}),
    "replica_lag": Bite(
        facts={"behind_bytes": 812, "applies": False, "primary": "log:900", "executed": "log:88"}
    ),
    "slow_query": Bite(facts={"asleep": 1}, calls=(call(WITHIN, 90),), fields={"delay": "80ms"}),
}
NAMES = tuple(name for name, kind in FAULTS.items() if kind.by == "server")


def fault(name: str) -> OutsideFault:
    fault: OutsideFault = made(name, **(BITES[name].fields or {}))
    return fault


def seen(
    facts: Mapping[str, Any],
    codes: Sequence[int] = (),
    calls: Sequence[TimedCall] = (),
    *,
    at_us: int = WITHIN,
) -> Seen:
    errors: list[Loss] = [(at_us, "sink", code) for code in codes]
    return Seen(armed_us=ARMED, healed_us=HEALED, errors=errors, calls=calls, facts=[facts] if facts else [])


def test_every_kind_of_the_server_is_here() -> None:
    assert sorted(NAMES) == sorted(BITES)


@each("name", NAMES)
def test_facts_and_what_clients_met_are_evidence(name: str) -> None:
    bite = BITES[name]

    assert fault(name).evidence(seen(bite.facts, bite.codes, bite.calls))


@each("name", NAMES)
def test_nothing_is_no_evidence(name: str) -> None:
    assert fault(name).evidence(seen({})) == {}


@each("name", NAMES)
def test_what_clients_met_is_none_without_the_servers_own_word(name: str) -> None:
    bite = BITES[name]

    assert fault(name).evidence(seen({}, bite.codes, bite.calls)) == {}


@each("name", [name for name in NAMES if name not in {"lock_rows", "split", "replica_lag"}])
def test_the_servers_own_word_is_none_without_a_client_that_met_it(name: str) -> None:
    bite = BITES[name]

    assert fault(name).evidence(seen(bite.facts)) == {}


@each("name", [name for name in NAMES if BITES[name].codes])
@each("at_us", [ARMED - 1_000_000, HEALED + 6_000_000], ids=["before", "long after"])
def test_errors_of_another_time_are_none(name: str, at_us: int) -> None:
    bite = BITES[name]

    assert fault(name).evidence(seen(bite.facts, bite.codes, at_us=at_us)) == {}


@each("name", [name for name in NAMES if BITES[name].codes])
def test_other_errors_are_none(name: str) -> None:
    assert fault(name).evidence(seen(BITES[name].facts, (1062, 1364))) == {}


@each("name", ["db_kill", "db_restart"])
@each(
    "facts",
    [{**ENDED, "next_start": "10-1"}, {**ENDED, "gone": False}, {**ENDED, "start": None}],
    ids=["the same start", "never gone", "not there before"],
)
def test_a_server_that_is_the_same_was_not_ended(name: str, facts: Mapping[str, Any]) -> None:
    assert fault(name).evidence(seen(facts, (2013,))) == {}


@pytest.mark.parametrize("name", ["db_kill", "db_restart"])
def test_who_is_gone_and_has_not_come_back_yet_was_ended(name: str) -> None:
    facts = {"start": "10-1", "gone": True}

    assert fault(name).evidence(seen(facts, (2013,)))


def test_losses_at_the_moment_of_the_kill_count() -> None:
    facts = {**ENDED, "began_us": ARMED - 300_000}

    assert fault("db_kill").evidence(seen(facts, (2013,), at_us=ARMED - 200_000))


@pytest.mark.parametrize(
    ("facts", "calls"),
    [
        pytest.param(PAUSED, (call(WITHIN, 1600), call(WITHIN, 2)), id="it answered somebody"),
        pytest.param(
            PAUSED, (call(ARMED - 9000, 2100), call(ARMED - 9000, 500)), id="it answered a late one"
        ),
        pytest.param({**PAUSED, "still_paused": False}, (call(WITHIN, 1600),), id="another let it go on"),
        pytest.param(PAUSED, (call(ARMED - 5000, 2),), id="nobody asked"),
    ],
)
def test_a_server_is_not_taken_for_paused_when(facts: Mapping[str, Any], calls: Sequence[TimedCall]) -> None:
    assert fault("db_pause").evidence(seen(facts, (), calls)) == {}


def test_who_asked_before_the_pause_may_be_late_to_note_the_answer() -> None:
    calls = (call(ARMED - 20_000, 2100), call(ARMED - 20_000, 70))

    assert fault("db_pause").evidence(seen(PAUSED, (), calls))["calls_waiting"] == 1


def test_who_hangs_up_during_the_pause_had_no_answer() -> None:
    calls = (call(WITHIN, 700, "timeout"),)

    assert fault("db_pause").evidence(seen(PAUSED, (), calls))["calls_given_up"] == 1


def test_a_clock_that_is_off_by_little_was_not_shifted() -> None:
    facts = {"offset_before_ms": 0, "offset_ms": 1_000}

    assert fault("server_clock").evidence(seen(facts, (), (call(WITHIN, 2),))) == {}


def test_quick_calls_are_not_slow_queries() -> None:
    assert fault("slow_query").evidence(seen({"asleep": 1}, (), (call(WITHIN, 60),))) == {}


def test_commits_are_not_lookups_however_slow() -> None:
    slow = (call(WITHIN, 90, link="sink"),)

    assert fault("slow_query").evidence(seen({"asleep": 1}, (), slow)) == {}


def test_sessions_that_the_fault_ended_were_not_hung_up_on() -> None:
    facts = {"hung_up": 1, "ended_us": ARMED}

    assert fault("wait_timeout").evidence(seen(facts, (2013,), at_us=ARMED + 1000)) == {}


@pytest.mark.parametrize(
    "facts",
    [
        {**SWITCHED, "promoted": False},
        {**SWITCHED, "answers": 1},
        {**SWITCHED, "answers": None},
        {**SWITCHED, "lost": 0},
    ],
    ids=["nobody was promoted", "the same server answers", "nobody answers", "nothing is lost"],
)
def test_a_switch_that_lost_nothing_or_reached_nobody_else_was_no_lossy_failover(
    facts: Mapping[str, Any],
) -> None:
    assert fault("failover").evidence(seen(facts, (2013,))) == {}


@pytest.mark.parametrize("lacking", ["only_on_old", "only_on_promoted"])
def test_a_split_of_which_one_side_took_nothing_is_none(lacking: str) -> None:
    assert fault("split").evidence(seen({**BITES["split"].facts, lacking: 0})) == {}


def test_a_replica_that_applies_or_is_not_behind_does_not_lag() -> None:
    lag = BITES["replica_lag"].facts

    assert fault("replica_lag").evidence(seen({**lag, "applies": True})) == {}
    assert fault("replica_lag").evidence(seen({**lag, "behind_bytes": 0})) == {}
