"""The faults of scenario files at level sim: by the name that they have there, what acts.

The counterpart of `harness.faults.vocabulary`. Invariant: a kind that a scenario can name is acted out here, or by an
attempt (`harness.sim.faults.calls`, its source, its crashes), or is none for this level and refused before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from harness.sim.faults.act import Act, OnLinks
from harness.sim.faults.cuts import Cut, Down, Flap, RefuseConnects, Reset
from harness.sim.faults.delays import bandwidth, latency, slow_loris
from harness.sim.faults.insides import ClockJump, LoopStall
from harness.sim.faults.packet_cuts import Limit, ResetAtPacket
from harness.sim.faults.picks import picks_of
from harness.sim.faults.processes import PauseWorker, Zombie
from harness.sim.faults.replies import HoldReply, LostCommit, LostCommitReply, SqlError
from harness.sim.faults.server_refusals import MaxConnections, OfflineMode, OversizedPacket, Refuses
from harness.sim.faults.server_sessions import Deadlocks, KillConnection, KillQuery, LockRows, ReapIdle
from harness.sim.faults.server_stops import BACK_AFTER_MS, Gone, Paused
from harness.sim.faults.silences import Blackhole, HalfOpen, StalledHandshake
from harness.sim.faults.stores import StoreFailing, StoreNewestMissing, StoreSlow, StoreTorn

if TYPE_CHECKING:
    from harness.scenario import Fault, FaultName
    from harness.sim.coordinated_run import CoordinatedRun
    from harness.sim.link import LinkFault
    from harness.sim.simulation import Simulation

__all__ = ["ATTEMPTS_OWN", "STALLS", "lasts_ms", "make_act"]

STALLS: Final = frozenset({"pause_worker", "zombie", "loop_stall"})
"""What stops the operator's own process, so that it may be late."""

ATTEMPTS_OWN: Final = frozenset(
    {"pause_worker", "zombie", "loop_stall", "clock_jump", "store_slow", "store_failing", "store_torn"}
    | {"store_newest_missing"}
)
"""What an attempt does to itself at the very place that it waits for."""

_TOO_MANY_CONNECTIONS: Final = 1040
_MakesLinkFault = Callable[["Fault"], "LinkFault"]


def _upward(fault: Fault) -> bool:
    return fault.direction == "up"


def _reset_at_packet(fault: Fault) -> LinkFault:
    return ResetAtPacket(
        picks_of(fault), upward=_upward(fault), packet=fault.packet or 1, inside=fault.bytes or 0
    )


_ON_A_LINK: Final[Mapping[FaultName, _MakesLinkFault]] = {
    "latency": lambda fault: latency(
        delay_ms=fault.delay or 0, jitter_ms=fault.jitter or 0, upward=_upward(fault)
    ),
    "jitter": lambda fault: latency(delay_ms=0, jitter_ms=fault.jitter or 0, upward=_upward(fault)),
    "one_way": lambda fault: latency(delay_ms=fault.delay or 0, jitter_ms=0, upward=_upward(fault)),
    "blackhole": lambda fault: Blackhole(upward=fault.direction != "down", downward=fault.direction != "up"),
    "half_open": lambda fault: HalfOpen(upward=_upward(fault)),
    "reset": lambda _: Reset(),
    "reset_now": lambda _: Cut(),
    "reset_at_packet": _reset_at_packet,
    "cut": lambda _: Cut(),
    "down": lambda _: Down(),
    "flap": lambda fault: Flap(open_ms=fault.open or 1, closed_ms=fault.closed or 1),
    "bandwidth": lambda fault: bandwidth(kilobytes_per_s=fault.rate or 1, upward=_upward(fault)),
    "slow_loris": lambda fault: slow_loris(
        slice_bytes=fault.bytes or 1, gap_ms=fault.gap or 0, upward=_upward(fault)
    ),
    "limit": lambda fault: Limit(bytes_max=fault.bytes or 0, upward=_upward(fault)),
    "refuse_connects": lambda _: RefuseConnects(),
    "stalled_handshake": lambda _: StalledHandshake(),
    "lost_commit": lambda fault: LostCommit(picks_of(fault, usual="commit")),
    "lost_commit_reply": lambda fault: LostCommitReply(picks_of(fault, usual="commit")),
    "sql_error": lambda fault: SqlError(
        picks_of(fault, usual="handshake" if fault.code == _TOO_MANY_CONNECTIONS else "query"),
        code=fault.code or 0,
    ),
    "hold_reply": lambda fault: HoldReply(picks_of(fault)),
}

_TO_THE_END_MS: Final = 1_000_000_000
_GAP_MS: Final = {"deadlocks": 50, "kill_query": 10, "kill_connection": 100}
_IDLE_MS: Final = 1_000
_PACKET_BYTES: Final = 1_024

_READ_ONLY: Final = 1290
_DISK_FULL: Final = 1114
_NO_COLUMN: Final = 1054
_NO_TABLE: Final = 1146
_EVERYWHERE = ("lookups", "sink", "direct")
_SINKS = ("sink",)
_LOOKUPS = ("lookups", "direct")


def _gap_ms(fault: Fault) -> int:
    return fault.gap or _GAP_MS[fault.do]


_OF_THE_SERVER: Final[Mapping[FaultName, tuple[tuple[str, ...], _MakesLinkFault]]] = {
    "db_kill": (_EVERYWHERE, lambda _: Gone(in_order=False)),
    "db_restart": (_EVERYWHERE, lambda _: Gone(in_order=True)),
    "db_pause": (_EVERYWHERE, lambda _: Paused()),
    "read_only": (_SINKS, lambda _: Refuses(_READ_ONLY, writes=True)),
    "offline_mode": (_EVERYWHERE, lambda _: OfflineMode()),
    "lock_rows": (_SINKS, lambda fault: LockRows(fault.count)),
    "deadlocks": (_SINKS, lambda fault: Deadlocks(gap_ms=_gap_ms(fault), count=fault.count)),
    "kill_query": (_EVERYWHERE, lambda fault: KillQuery(gap_ms=_gap_ms(fault), count=fault.count)),
    "kill_connection": (_EVERYWHERE, lambda fault: KillConnection(gap_ms=_gap_ms(fault), count=fault.count)),
    "max_connections": (_EVERYWHERE, lambda fault: MaxConnections(fault.connections or 0)),
    "wait_timeout": (_EVERYWHERE, lambda fault: ReapIdle(fault.delay or _IDLE_MS)),
    "oversized_packet": (_SINKS, lambda fault: OversizedPacket(fault.bytes or _PACKET_BYTES)),
    "schema_change": (
        _LOOKUPS,
        lambda fault: Refuses(_NO_TABLE if fault.how == "table" else _NO_COLUMN, writes=False),
    ),
    "disk_full": (_SINKS, lambda _: Refuses(_DISK_FULL, writes=True)),
    "slow_query": (_LOOKUPS, lambda fault: latency(delay_ms=fault.delay or 0, jitter_ms=0, upward=False)),
}


_OF_AN_ATTEMPT: Final[Mapping[FaultName, Callable[[Fault, Simulation], Act]]] = {
    "pause_worker": lambda fault, run: PauseWorker(run, fault.subtask or 0),
    "zombie": lambda fault, run: Zombie(run, fault.subtask or 0),
    "loop_stall": lambda fault, run: LoopStall(run, fault.subtask or 0, lasts_ms=fault.lasts or 0),
    "clock_jump": lambda fault, run: ClockJump(
        run, how=fault.how or fault.form.hows[0], shift_ms=fault.shift or 0, lasts_ms=fault.lasts
    ),
    "store_slow": lambda fault, run: StoreSlow(_coordinated(run), fault.subtask, delay_ms=fault.delay or 0),
    "store_failing": lambda fault, run: StoreFailing(_coordinated(run), fault.subtask),
    "store_torn": lambda fault, run: StoreTorn(_coordinated(run), fault.subtask, times=fault.times or 1),
    "store_newest_missing": lambda fault, run: StoreNewestMissing(
        _coordinated(run), fault.subtask or 0, times=fault.times or 1
    ),
}


def make_act(fault: Fault) -> Callable[[Simulation], Act] | None:
    """What makes its acts in a run, one for each time; None: an attempt acts it out, or its source."""
    if (on_a_link := _ON_A_LINK.get(fault.do)) is not None:
        return partial(_on_links, fault, (fault.link or "lookups",), on_a_link)
    if (of_the_server := _OF_THE_SERVER.get(fault.do)) is not None:
        names, make = of_the_server
        return partial(_on_links, fault, names if fault.link is None else (fault.link,), make)
    of_an_attempt = _OF_AN_ATTEMPT.get(fault.do)
    return None if of_an_attempt is None else partial(of_an_attempt, fault)


def _coordinated(run: Simulation) -> CoordinatedRun:
    """Only there is a store; with another sink the scenario is refused before."""
    return cast("CoordinatedRun", run)


def _on_links(fault: Fault, names: tuple[str, ...], make: _MakesLinkFault, run: Simulation) -> Act:
    return OnLinks(make(fault), [run.direct if name == "direct" else run.links[name] for name in names])


def lasts_ms(fault: Fault) -> int | None:
    """Until it heals; None: until it has bitten."""
    if fault.lasts is not None:
        return fault.lasts
    return {"db_kill": BACK_AFTER_MS, "db_restart": BACK_AFTER_MS, "clock_jump": _TO_THE_END_MS}.get(fault.do)
