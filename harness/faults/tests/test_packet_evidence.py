"""Evidence of faults that need packets: the proxy's log and the clients' losses together; neither alone is enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import Loss, ProxyEvidence, Seen
from harness.faults.registry import FAULTS
from harness.faults.tests.fake_site import Proxy, scenario, site
from harness.history.follower import TimedCall
from harness.proxy.mysql.rules import ATTRIBUTES, refuse
from tools.cases import each

ARMED, HEALED = 1_000_000, 2_000_000
LINK = {"link": "sink", "when": {"at": "0ms"}}
FOR = {**LINK, "for": "1s"}
MIDST = 1_500_000


def event(did: str, stream: str = "downstream", **numbers: Any) -> ProxyEvidence:
    return ProxyEvidence(t_us=MIDST, did=did, toxic=f"f.{stream}", connection=3, stream=stream, **numbers)


def call(began_us: int, ended_us: int | None, ending: str = "ok") -> TimedCall:
    return TimedCall(
        began_us=began_us, ended_us=ended_us, ending=None if ended_us is None else ending, link="sink"
    )


def lost(code: int = 2013, link: str = "sink", at_us: int = MIDST) -> Loss:
    return (at_us, link, code)


@dataclass(frozen=True, kw_only=True)
class Bite:
    """How a scenario writes the kind, what it leaves when it bit, and the toxic that does it."""

    entry: Mapping[str, Any]
    seen: Seen
    toxic: str = ""
    stream: str = "downstream"
    attributes: Mapping[str, Any] | None = None


def seen(**more: Any) -> Seen:
    whole = Seen(armed_us=ARMED, healed_us=HEALED, **{"log": [], "calls": [call(MIDST - 9, None)], **more})
    return replace(whole, errors=whole.errors or whole.losses)


BITES: Mapping[str, Bite] = {
    "half_open": Bite(
        entry={**FOR, "direction": "up"},
        seen=seen(log=[event("swallowed", "upstream", bytes=80)], losses=[lost()]),
        toxic="half_open",
        stream="upstream",
    ),
    "reset_now": Bite(entry=LINK, seen=seen(losses=[lost()], facts=[{"connections": [1, 2]}])),
    "reset_at_packet": Bite(
        entry={**LINK, "packet": 3, "bytes": 5, "nth": 2, "times": 4, "statement": "select"},
        seen=seen(log=[event("reset", more={"offset": 500})], losses=[lost()]),
        toxic="packet",
        attributes={
            "on": "query", "statement": "select", "do": "reset", "nth": 2, "times": 4, "packet": 3, "byte": 5,
        },
    ),
    "refuse_connects": Bite(entry=FOR, seen=seen(losses=[lost(2003)]), toxic="refuse", stream="upstream"),
    "stalled_handshake": Bite(
        entry=FOR,
        seen=seen(log=[event("held", command="handshake")], losses=[lost()]),
        toxic="packet",
        attributes={"on": "handshake", "do": "hold", "nth": 1, "times": 0},
    ),
    "lost_commit": Bite(
        entry={**LINK, "nth": 3},
        seen=seen(log=[event("dropped", "upstream", command="commit", bytes=11)], losses=[lost()]),
        toxic="packet",
        stream="upstream",
        attributes={"on": "commit", "do": "drop", "then": "reset", "nth": 3, "times": 1},
    ),
    "lost_commit_reply": Bite(
        entry=LINK,
        seen=seen(log=[event("dropped", command="commit", bytes=11, more={"reply": "ok"})], losses=[lost()]),
        toxic="packet",
        attributes={"on": "commit", "do": "drop", "then": "reset", "nth": 1, "times": 1},
    ),
    "sql_error": Bite(
        entry={**LINK, "code": 1205},
        seen=seen(log=[event("error", "upstream", more={"code": 1205})], errors=[lost(1205)]),
        toxic="packet",
        stream="upstream",
        attributes={"on": "query", "do": "error", "code": 1205, "nth": 1, "times": 1},
    ),
    "hold_reply": Bite(
        entry={**FOR, "command": "commit"},
        seen=seen(log=[event("held", command="commit")]),
        toxic="packet",
        attributes={"on": "commit", "do": "hold", "packet": 0, "nth": 1, "times": 1},
    ),
}  # fmt: skip
NAMES = [name for name, kind in FAULTS.items() if "packets" in kind.abilities and kind.by != "server"]
KINDS = each("kind", NAMES)
LOGGED = [name for name in NAMES if BITES[name].seen.log]


def made(kind: str, **fields: Any) -> OutsideFault:
    (fault,) = scenario({"id": "f", "do": kind, **BITES[kind].entry, **fields}).faults
    assert isinstance(fault, OutsideFault)
    return fault


def test_every_kind_that_needs_packets_is_here() -> None:
    assert sorted(NAMES) == sorted(BITES)


@KINDS
def test_each_is_believed_by_what_it_leaves(kind: str) -> None:
    assert made(kind).evidence(BITES[kind].seen)


@KINDS
def test_each_that_did_nothing_leaves_no_evidence(kind: str) -> None:
    answered = [call(ARMED + n, ARMED + n + 9) for n in range(20)]

    assert made(kind).evidence(seen(calls=answered)) == {}
    assert made(kind).evidence(seen(calls=[])) == {}


@each("kind", LOGGED)
def test_what_clients_met_is_none_without_the_proxys_own_word(kind: str) -> None:
    assert made(kind).evidence(replace(BITES[kind].seen, log=[])) == {}


@KINDS
def test_the_proxys_word_is_none_without_a_client_that_met_it(kind: str) -> None:
    quiet = replace(BITES[kind].seen, calls=[], losses=[], errors=[])

    assert made(kind).evidence(quiet) == {}


@each("kind", LOGGED)
def test_events_in_the_other_direction_are_none(kind: str) -> None:
    bite = BITES[kind]
    other = "downstream" if bite.stream == "upstream" else "upstream"
    turned = [replace(one, stream=other) for one in bite.seen.log or ()]

    assert made(kind).evidence(replace(bite.seen, log=turned)) == {}


@KINDS
def test_what_happened_on_the_other_link_is_none(kind: str) -> None:
    whole = BITES[kind].seen
    elsewhere = replace(
        whole,
        calls=[replace(one, link="lookups") for one in whole.calls],
        losses=[(at_us, "lookups", code) for at_us, _, code in whole.losses],
        errors=[(at_us, "lookups", code) for at_us, _, code in whole.errors],
    )

    assert made(kind).evidence(elsewhere) == {}


def test_a_half_open_link_answers_nobody() -> None:
    bitten = BITES["half_open"].seen
    answered = replace(bitten, calls=[*bitten.calls, call(ARMED + 1, MIDST)])

    assert made("half_open").evidence(answered) == {}


def test_a_commit_whose_error_was_lost_is_not_a_commit_whose_answer_was_lost() -> None:
    failed = event("dropped", command="commit", bytes=60, more={"reply": "error"})

    assert made("lost_commit_reply").evidence(seen(log=[failed], losses=[lost()])) == {}


def test_another_error_than_the_one_asked_for_is_none() -> None:
    bitten = BITES["sql_error"].seen

    assert made("sql_error", code=1213).evidence(bitten) == {}
    assert made("sql_error").evidence(replace(bitten, errors=[lost(1213)])) == {}


def test_connections_that_were_lost_are_not_connects_that_were_refused() -> None:
    assert made("refuse_connects").evidence(seen(losses=[lost(2013)])) == {}


def test_too_many_connections_comes_to_logins_unless_the_scenario_says_otherwise() -> None:
    proxy = Proxy()

    with made("sql_error", code=1040).inject(site(proxy)):
        toxic = proxy.toxics["f.downstream"]

    assert (toxic.attributes["on"], toxic.stream) == ("handshake", "downstream")


@each("kind", [name for name in NAMES if BITES[name].toxic])
def test_each_puts_the_toxic_on_the_link_that_the_scenario_means(kind: str) -> None:
    bite, proxy = BITES[kind], Proxy()

    with made(kind).inject(site(proxy)):
        (toxic,) = proxy.toxics.values()
        acting = list(proxy.acts)

    assert acting == [toxic.name] == [f"f.{bite.stream}"]
    assert (toxic.type, toxic.stream) == (bite.toxic, bite.stream)
    assert {name: value for name, value in toxic.attributes.items() if value != ""} == (bite.attributes or {})
    assert bite.toxic != "packet" or refuse({**ATTRIBUTES, **toxic.attributes}) == ""
    assert proxy.acts == []


def test_live_connections_are_reset_once_and_there_is_nothing_to_heal() -> None:
    proxy, facts = Proxy(), []

    with made("reset_now").inject(site(proxy, note_fact=lambda **found: facts.append(found))):
        pass

    assert proxy.log == ["cut sink rst"]
    assert facts == [{"connections": [1, 2]}]


@KINDS
@each("failing", [1, 2])
def test_each_that_fails_half_armed_or_under_way_heals(kind: str, failing: int) -> None:
    proxy = Proxy(failing=failing)

    with pytest.raises(ConnectionError), made(kind).inject(site(proxy)):
        raise ConnectionError

    assert proxy.acts == []


@each("answered_us", [MIDST + 1, MIDST - 1, None])
def test_a_held_answer_of_a_job_s_lookup_counts_if_another_one_came_meanwhile(
    answered_us: int | None,
) -> None:
    calls = [
        TimedCall(began_us=MIDST - 9, ended_us=at, ending="ok", link="lookups") for at in (None, answered_us)
    ]
    fault, of_sink = made("hold_reply", link="lookups"), made("hold_reply")

    evidence = fault.evidence(seen(log=[event("held")], calls=calls))

    assert evidence["waiting_at_its_end"]
    assert bool(fault.why_not_of_job(evidence)) is (answered_us != MIDST + 1)
    assert not fault.why_not_of_job({**evidence, "timed_out": 1})
    assert not of_sink.why_not_of_job(evidence)


def test_an_answer_that_was_on_its_way_and_held_until_its_call_gave_up_is_evidence() -> None:
    held = BITES["hold_reply"].seen
    gave_up = call(ARMED - 9_000, ARMED + 300_000, "timeout")

    found = made("hold_reply").evidence(replace(held, calls=[gave_up]))

    assert found["timed_out"] == 1
