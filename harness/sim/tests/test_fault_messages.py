"""Faults of single messages: whether a transaction that was broken took effect follows from where it was broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.choices import Draw
from harness.faults.db_kill import Gone
from harness.faults.db_pause import Paused
from harness.faults.hold_reply import SimulatedHold as HoldReply
from harness.faults.limit import SimulatedLimit as Limit
from harness.faults.lock_rows import SimulatedLock as LockRows
from harness.faults.lost_commit import SimulatedLoss as LostCommit
from harness.faults.lost_commit import SimulatedLostReply as LostCommitReply
from harness.faults.reset_at_packet import SimulatedReset as ResetAtPacket
from harness.faults.simulated.picks import Picks
from harness.faults.sql_error import SimulatedSqlError as SqlError
from harness.faults.wait_timeout import SimulatedReaping as ReapIdle
from harness.levels.sim.hub import Hub
from harness.sim.link import LOST_CONNECTION, Flight, HubAlarm, Link, LinkFault
from harness.sim.wire import LOOKUP, bytes_of, packets, transaction


@dataclass
class Rig:
    """A link that has a transaction sent at 50 ms; when it worked, and how each flight landed."""

    fault: LinkFault
    begins_ms: int = 10
    ends_ms: int = 5_000
    worked: list[int] = field(default_factory=list)
    landed: list[tuple[int, int | str | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = Draw(1, "test")
        self.hub = Hub(draw, limit_ms=100_000, steps_max=10_000)
        self.link = Link("sink", hub=self.hub, draw=draw)
        self.connection = self.link.connect()
        self.connection.fresh = False
        self.hub.at(self.begins_ms, lambda: self.link.begin(self.fault))
        self.hub.at(self.ends_ms, lambda: self.link.heal(self.fault))

    def send(self, *, service_ms: int = 0, rows: int = 3, fresh: bool = False) -> Flight:
        flight = Flight(
            self.link.connect() if fresh else self.connection,
            alarm=HubAlarm(self.hub),
            landed=lambda one: self.landed.append((self.hub.now_ms, one.code)),
            work=self._work,
            request=0,
            says=transaction(rows),
        )
        self.link.send(flight, service_ms=service_ms)
        return flight

    def _work(self) -> tuple[Any, int | None, int]:
        self.worked.append(self.hub.now_ms)
        return "done", None, 0

    def go(self, at_ms: int = 50, send: Callable[[], object] | None = None) -> Rig:
        act = send or self.send
        self.hub.at(at_ms, lambda: (act(), None)[1])
        self.hub.run()
        return self


def commits(*, nth: int = 1) -> Picks:
    return Picks(command="commit", nth=nth)


def test_a_lost_commit_took_no_effect_and_its_client_does_not_know() -> None:
    rig = Rig(LostCommit(commits())).go()

    assert rig.worked == []
    assert rig.landed[0][1] == LOST_CONNECTION
    assert rig.fault.evidence()["commits_lost"] == 1


def test_a_commit_whose_reply_was_lost_took_effect_and_its_client_does_not_know() -> None:
    rig = Rig(LostCommitReply(commits())).go()

    assert len(rig.worked) == 1
    assert rig.landed[0][1] == LOST_CONNECTION
    assert rig.fault.evidence()["committed_all_the_same"] == 1


@pytest.mark.parametrize(
    ("command", "upward", "packet", "took_effect"),
    [
        ("query", False, 1, False),
        ("query", True, 1, False),
        ("commit", True, 1, False),
        ("commit", False, 1, True),
    ],
)
def test_what_is_reset_before_its_commit_has_passed_took_no_effect(
    command: str, *, upward: bool, packet: int, took_effect: bool
) -> None:
    fault = ResetAtPacket(Picks(command=command), upward=upward, packet=packet, inside=4)

    rig = Rig(fault).go()

    assert bool(rig.worked) is took_effect
    assert rig.landed[0][1] == LOST_CONNECTION


def test_a_reset_tells_behind_how_many_bytes_it_came() -> None:
    fault = ResetAtPacket(Picks(statement="select token"), upward=False, packet=3, inside=2)

    Rig(fault).go()

    assert fault.evidence()["bytes_passed"] == {str(5 + 44 + 2): 1}


def test_a_message_with_too_few_packets_is_none_of_those_that_are_meant() -> None:
    fault = ResetAtPacket(Picks(packets_min=6), upward=False, packet=6, inside=0)

    rig = Rig(fault).go()

    assert rig.landed[0][1] is None
    assert fault.evidence() == {}


def test_the_third_commit_is_the_first_that_is_met_if_so_asked() -> None:
    rig = Rig(LostCommit(commits(nth=3)))
    for at_ms in (50, 60, 70, 80):
        rig.hub.at(at_ms, lambda: (rig.send(fresh=True), None)[1])

    rig.hub.run()

    assert [code for _, code in rig.landed] == [None, None, LOST_CONNECTION, None]


def test_a_limit_counts_the_bytes_of_each_connection() -> None:
    one = bytes_of(transaction(3), fresh=False, up=False)
    fault = Limit(bytes_max=one, upward=False)
    rig = Rig(fault)
    for at_ms in (50, 60):
        rig.hub.at(at_ms, lambda: (rig.send(), None)[1])

    rig.hub.run()

    assert [code for _, code in rig.landed] == [None, LOST_CONNECTION]


def test_an_error_in_the_servers_place_leaves_the_connection_and_no_effect() -> None:
    rig = Rig(SqlError(Picks(), code=1213)).go()

    assert (rig.worked, rig.landed[0][1], rig.connection.alive) == ([], 1213, True)


@pytest.mark.parametrize("code", [1040, 1053])
def test_after_some_errors_the_server_hangs_up(code: int) -> None:
    rig = Rig(SqlError(Picks(), code=code)).go()

    assert (rig.landed[0][1], rig.connection.alive) == (code, False)


def test_a_held_reply_comes_when_it_is_let_go_and_its_work_is_done_long_before() -> None:
    rig = Rig(HoldReply(commits()), ends_ms=400).go()

    assert rig.worked[0] < 60
    assert rig.landed == [(400, None)]
    assert rig.fault.evidence()["replies_held"] == 1


def test_a_killed_server_keeps_what_was_committed_and_nothing_else() -> None:
    early = Rig(Gone(in_order=False), begins_ms=100)
    early.go(90, lambda: early.send(service_ms=50))
    late = Rig(Gone(in_order=False), begins_ms=100)
    late.go(150)

    assert (len(early.worked), early.landed[0][1]) == (1, LOST_CONNECTION)
    assert (late.worked, late.landed[0][1]) == ([], LOST_CONNECTION)


def test_a_server_that_shuts_down_says_so_to_who_asks_just_then() -> None:
    rig = Rig(Gone(in_order=True), begins_ms=100)
    rig.go(99, lambda: rig.send(fresh=True))

    assert rig.landed[0][1] == 1053


def test_a_paused_server_does_the_work_when_it_goes_on() -> None:
    rig = Rig(Paused(), ends_ms=700).go()

    assert rig.worked[0] >= 700
    assert rig.landed[0][1] is None
    assert rig.fault.evidence() == {"requests_held": 1, "lost_patience": 0}


def test_who_waits_for_a_lock_gives_up_in_time() -> None:
    rig = Rig(LockRows(), ends_ms=9_000).go()

    assert (rig.worked, rig.landed) == ([], [(2_050, 1205)])


def test_who_still_waits_for_a_lock_has_it_in_the_end() -> None:
    rig = Rig(LockRows(), ends_ms=600).go()

    assert rig.worked[0] >= 600
    assert rig.landed[0][1] is None


def test_the_lock_of_one_subtask_is_not_in_the_way_of_another() -> None:
    rig = Rig(LockRows(0)).go()

    assert rig.landed[0][0] < 60


def test_a_session_that_was_idle_for_too_long_is_gone() -> None:
    rig = Rig(ReapIdle(100), begins_ms=10)
    first = rig.link.connect

    def twice() -> None:
        connection = first()
        connection.fresh = False
        connection.idle_since_ms = rig.hub.now_ms - 200
        rig.connection = connection
        rig.send()

    rig.go(300, twice)

    assert rig.landed[0][1] == LOST_CONNECTION
    assert rig.fault.evidence()["reaped"] == 1


def test_a_new_connection_says_more_than_one_that_is_known() -> None:
    fresh, known = (list(packets(LOOKUP, fresh=fresh)) for fresh in (True, False))

    assert [packet.statement.command for packet in fresh[:3]] == ["handshake"] * 3
    assert fresh[3:] == known
