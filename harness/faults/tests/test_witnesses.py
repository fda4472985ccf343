"""A fault's witnesses are found by withholding what each recorded; one alone is told as a threat (T10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.faults.real.evidence import Seen
from harness.faults.real.job_kill import kill_evidence
from harness.faults.real.witnesses import (
    ATTEMPTS,
    CLIENTS,
    FAULT,
    HARNESS,
    PROXY,
    witnesses_of,
    witnesses_of_found,
)
from harness.faults.tests import entries, recorded
from harness.faults.tests.killed_run import killed_run
from harness.faults.tests.recorded import LOST, SLOW, during, event, seen
from harness.history.event import In
from harness.history.notes import Acted, InProcess, Line, Measured
from harness.history.tests.lines import line

LATENCY = recorded.made("latency")
DELAYED = [event("delayed", ms=100, bytes=80, more={"chunks": 5})]
RESET = recorded.made("reset")


def test_a_delay_that_the_proxy_logged_and_calls_suffered_has_two_witnesses_trust10() -> None:
    assert witnesses_of(LATENCY.evidence, seen(SLOW, log=DELAYED), by="link") == (PROXY, CLIENTS)


def test_without_a_log_slow_calls_are_the_only_witness_trust10() -> None:
    assert witnesses_of(LATENCY.evidence, seen(SLOW), by="link") == (CLIENTS,)


def test_a_reset_has_the_proxys_event_and_the_clients_error_trust10() -> None:
    bitten = seen(during(), LOST, log=[event("reset")])

    assert witnesses_of(RESET.evidence, bitten, by="link") == (PROXY, CLIENTS)


def test_what_a_server_counted_and_clients_met_has_two_witnesses_trust10() -> None:
    fault = entries.made("deadlocks")
    met = Seen(armed_us=0, healed_us=9000, facts=[{"counted": 1}], errors=[(5000, "sink", 1213)])

    assert witnesses_of(fault.evidence, met, by=fault.by) == (CLIENTS, "the server")


def test_locks_are_believed_on_the_servers_word_alone_trust10() -> None:
    fault = entries.made("lock_rows")
    waited = Seen(armed_us=0, healed_us=9000, facts=[{"waiting": 1}])

    assert witnesses_of(fault.evidence, waited, by=fault.by) == ("the server",)


def test_a_pause_has_the_operating_system_and_the_silence_of_the_attempt_trust10() -> None:
    fault = entries.made("pause_worker", subtask=1)
    who = {"pid": 40, "started": 4}
    paused = Seen(
        armed_us=1000,
        healed_us=400_000,
        facts=[
            {"what": "stopped", "state": "T", "at_us": 1000, **who},
            {"what": "resumed", "at_us": 401_000, **who},
        ],
        events=[line(InProcess, 10, **who), line(In, 402_000)],
    )

    assert witnesses_of(fault.evidence, paused, by=fault.by) == ("the operating system", ATTEMPTS)


def test_a_kill_has_its_note_the_reaped_process_and_the_next_attempt_trust10() -> None:
    fault = entries.made("kill_worker", id="kill", subtask=1, how="sigkill")

    assert witnesses_of_found(fault.recorded, killed_run()) == (FAULT, ATTEMPTS, HARNESS)


def test_a_kill_at_a_held_message_has_the_proxy_and_the_operating_system_trust10() -> None:
    killed = {"what": "killed", "at_us": 1, "pids": [40], "gone": True}
    held = Seen(armed_us=0, healed_us=9000, facts=[{**killed, "held": "after COMMIT 2"}])
    at_a_time = Seen(armed_us=0, healed_us=9000, facts=[killed])

    assert witnesses_of(kill_evidence, held, by="job") == (PROXY, "the operating system")
    assert witnesses_of(kill_evidence, at_a_time, by="job") == ("the operating system",)


def test_a_stall_that_only_measured_itself_is_believed_on_its_own_word_trust10() -> None:
    fault = entries.made("loop_stall", subtask=1, **{"for": "300ms"})
    lines: list[Line] = [
        line(Acted, 1000, fault="f", what="stall"),
        line(Measured, 9000, fault="f", what="loop lag", facts={"lag_ms": 301.5}),
    ]

    assert witnesses_of_found(fault.recorded, lines) == (FAULT,)


def test_two_witnesses_of_whom_each_is_enough_are_not_one_alone_trust10() -> None:
    def either(given: Seen) -> dict[str, Any]:
        return {"lost": 1} if given.losses or given.log else {}

    both = seen(during(), LOST, log=[event("reset")])

    assert witnesses_of(either, both, by="link") == ()
    assert witnesses_of(either, replace(both, log=[]), by="link") == (CLIENTS,)


def test_one_that_is_needed_and_is_not_enough_has_all_who_confirm_it_trust10() -> None:
    def confirmed(given: Seen) -> dict[str, Any]:
        return {"reset": 1} if given.log and (given.losses or given.facts) else {}

    bitten = seen(during(), LOST, log=[event("reset")], facts=[{"what": "told"}])

    assert witnesses_of(confirmed, bitten, by="link") == (PROXY, CLIENTS, FAULT)
