"""The outside faults of a run at a real level: on the proxy, the server and processes.

Implements the schedule's `Place` in real time. Invariant: all callbacks come from the thread that calls `step`; each
activation of a fault has its own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

import pymysql

from harness.engine.schedule import Schedule
from harness.faults.model.fault import Fault, OutsideFault
from harness.faults.parts.triggers import MomentOfJob
from harness.faults.real.evidence import Evidence, ProxyEvidence, Seen, as_the_proxy_saw
from harness.faults.real.fault_site import Control, Site, Workers
from harness.faults.real.server_control import ServerControl
from harness.history.follower import Progress
from harness.history.notes import (
    Armed,
    Arming,
    FaultDue,
    FaultNote,
    Found,
    Healed,
    Healing,
    ProxyActed,
    TookEffect,
)
from harness.scenario.moments import Moments
from harness.system.errors import FloodmarkError, HarnessError, WorldError
from harness.system.json_types import JsonView

_LOOK_S = 0.1
"""Interval between two reads of the proxy's log while a fault is active."""
_HEAL_LIMIT_S = 120.0
"""How long healing may take; it may include the start of a server, whose steps have their own limits."""
_EVENTS_MAX = 5_000
"""The largest number of proxy events kept for one activation."""


NoteTaker = Callable[[FaultNote], int]
"""Records a note, from any thread; returns its time in microseconds."""


@dataclass(slots=True, kw_only=True)
class FaultActivation:
    """One activation of a fault. Call `start`, then `heal`, from one thread.

    Mutable: its own thread fills in times, facts and proxy events.

    Invariant: the context manager of `inject` ends in the thread that began it, once `over` is set or an error occurs.
    """

    fault: OutsideFault
    outside: OutsideFaults
    cycle: int
    """The number of the activation, from 0."""
    after: int = 0
    """The last event of the proxy's log that belongs to earlier activations."""
    arming_us: int | None = None
    armed_us: int | None = None
    healing_us: int | None = None
    failure: BaseException | None = None
    facts: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[ProxyEvidence] = field(default_factory=list)
    effective: bool = False
    is_told: bool = False
    _keeps_log: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def acts(self) -> bool:
        """Whether it is armed and not yet healing."""
        return self.armed_us is not None and self.healing_us is None

    @property
    def ended(self) -> bool:
        """Whether it has healed or failed."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def is_settled(self) -> bool:
        """Whether its thread only waits."""
        return self.ended or (self.acts and not self._over.is_set())

    @property
    def log(self) -> list[ProxyEvidence] | None:
        """The proxy's events so far; None: the proxy keeps no log."""
        return list(self.events) if self._keeps_log else None

    def start(self) -> None:
        """Starts the thread, which arms the fault."""
        self._thread = threading.Thread(target=self._run, name=f"fault {self.fault.id}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Tells the thread to heal the fault; does not wait."""
        self._over.set()

    def heal(self) -> None:
        """Heals the fault and waits for the thread. Raises WorldError if that takes too long."""
        self._over.set()
        if self._thread is None:
            return
        self._thread.join(_HEAL_LIMIT_S)
        if self._thread.is_alive():
            message = f"fault {self.fault.id} ({self.fault.do}) has not healed within {_HEAL_LIMIT_S:g} s"
            raise WorldError(
                message, fix="look at the logs of the server and the proxy; this world is not used again"
            )

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # noqa: BLE001 - kept for the schedule, which raises it in the main thread
            self.failure = self._told(error)

    def _act(self) -> None:
        self._skip_events()
        self.arming_us = self._noted(Arming)
        self._inject(self._site())

    def _site(self) -> Site:
        """What the fault may use."""
        return Site(
            control=self.outside.control,
            server=self.outside.server,
            workers=self.outside.workers,
            note_fact=self._note_fact,
            seed=self.outside.seed,
            over=self._over,
            spark=self.outside.workers.spark(),
        )

    def _inject(self, site: Site) -> None:
        """Keeps the fault active until it is to heal."""
        with self.fault.inject(site):
            if site.held is not None:
                site.held.release()
            self.armed_us = self._noted(Armed, logged=self._keeps_log)
            while not self._over.wait(_LOOK_S):
                self._read_events()
            self._read_events()
            self.healing_us = self._noted(Healing)
        self._read_events()
        self._noted(Healed)

    def _noted(self, kind: type[FaultNote], **facts: Any) -> int:
        return self.outside.note(kind(fault=self.fault.id, cycle=self.cycle, **facts))

    def _note_fact(self, **facts: Any) -> None:
        self.facts.append(facts)
        self._noted(Found, facts=facts)

    def _skip_events(self) -> None:
        link = self.fault.on_link
        read = None if link is None else self.outside.control.link_log(link, self.after)
        if read is not None:
            self.after, self._keeps_log = read.next, True

    def _read_events(self) -> None:
        if not self._keeps_log or self.fault.on_link is None:
            return
        read = self.outside.control.link_log(self.fault.on_link, self.after)
        if read is None:
            return
        self.after = read.next
        for event in read.events:
            # Toxics of the fault are named after it (`id` or `id.*`); without a name the link itself acted.
            is_mine = event.toxic in {"", self.fault.id} or event.toxic.startswith(f"{self.fault.id}.")
            if is_mine and len(self.events) < _EVENTS_MAX:
                self.events.append(event)
                self._noted(ProxyActed, deed=event.line())

    def _told(self, error: BaseException) -> BaseException:
        """Wraps the error in one of our own that names the fault and the stage."""
        stage = "armed" if self.armed_us is None else "healed" if self.healing_us else "kept active"
        where = f"fault {self.fault.id} ({self.fault.do}) could not be {stage}"
        match error:
            case FloodmarkError():
                told: FloodmarkError = type(error)(f"{where}: {error.what}", fix=error.fix)
            case OSError() | pymysql.MySQLError():
                told = WorldError(
                    f"{where}: {error}", fix="run it again with --keep always, and look at the logs"
                )
            case _:
                told = HarnessError(f"{where}: {type(error).__name__}: {error}", fix="please report it")
        told.__cause__ = error
        return told

    def look(self) -> None:
        if self.effective or not self.acts:
            return
        evidence = self.outside.evidence(self)
        if evidence:
            self.effective = True
            self._noted(TookEffect)
            self.outside.tell(f"{self.fault.id} took effect: {in_words(evidence)}")

    def told(self) -> None:
        if self.is_told:
            return
        self.is_told = True
        if self.failure is not None:
            raise self.failure
        evidence = self.outside.evidence(self)
        left = f"it took effect: {in_words(evidence)}" if evidence else "no evidence so far"
        self.outside.tell(f"{self.fault.id} has healed; {left}")

    def close(self) -> None:
        self.heal()
        self.told()


_LOOK_US: Final = 100_000
"""Interval between two checks whether a fault has evidence."""

_Alarm = tuple[int, Callable[[], None]]


@dataclass(slots=True, kw_only=True)
class OutsideFaults:
    """Call `step` often; all faults are healed when the block ends. Mutable; a `Place`.

    The fault is active between its notes `Armed` and `Healing`. `tell` gets messages for the user, from the thread that
    calls `step`.
    """

    faults: Sequence[Fault]
    seed: int
    control: Control
    server: ServerControl
    workers: Workers
    note: NoteTaker
    tell: Callable[[str], None] = lambda text: None
    subtasks: int = 1
    now_us: int = 0
    watches_to_the_end: bool = True
    prolongs_us: int = 0
    """Zero, but where attempts come and go, or a job's batches: a short fault would fall between two of them."""
    _schedule: Schedule[FaultActivation] = field(init=False)
    _alarms: list[_Alarm] = field(default_factory=list)
    _next_step: list[Callable[[], None]] = field(default_factory=list)
    _begun: list[FaultActivation] = field(default_factory=list)
    _progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        outside = [fault for fault in self.faults if isinstance(fault, OutsideFault)]
        self._schedule = Schedule(faults=outside, seed=self.seed, place=self)

    def active(self) -> dict[str, bool]:
        """The faults that are active now, and whether each has evidence."""
        return {one.fault.id: one.effective for one in self._schedule.acting if one.acts}

    def end_active(self) -> None:
        """Begins to heal the faults that are active now; `is_settled` says when they have healed."""
        self._schedule.end_active()

    def is_settled(self) -> bool:
        """Whether every fault that began is armed, and every one that is over has healed."""
        return all(acting.is_settled for acting in self._begun)

    def step(self, progress: Progress, *, now_us: int) -> None:
        """Begins faults that are due and ends those that are over. Raises the error of a fault that failed."""
        self._progress, self.now_us = progress, now_us
        polls, self._next_step = self._next_step, []
        for poll in polls:
            poll()
        self._schedule.come(Moments.of(progress, subtasks=self.subtasks))
        while (due := next((alarm for alarm in self._alarms if alarm[0] <= now_us), None)) is not None:
            self._alarms.remove(due)
            due[1]()

    def at(self, instant_us: int, callback: Callable[[], None]) -> _Alarm:
        """Calls back in the first `step` from that time on."""
        alarm = (instant_us, callback)
        self._alarms.append(alarm)
        return alarm

    def cancel(self, alarm: _Alarm) -> None:
        if alarm in self._alarms:
            self._alarms.remove(alarm)

    def is_idle(self, fault: Fault) -> bool:
        """Whether a fault of the lookups' link that acts once would find no lookup in flight."""
        return (
            fault.lasts_ms is None and fault.on_link == "lookups" and not self._progress.in_flight_of_batches
        )

    def look_again(self, callback: Callable[[], None], *, soon: bool) -> None:
        if soon:
            self._next_step.append(callback)
        else:
            self.at(self.now_us + _LOOK_US, callback)

    def lasts_ms(self, fault: Fault) -> int | None:
        return fault.lasts_ms

    def begins(self, fault: Fault, *, cycle: int, due_us: int) -> FaultActivation:
        after = max((one.after for one in self._begun if one.fault.on_link == fault.on_link), default=0)
        acting = self.activation()(fault=cast("OutsideFault", fault), outside=self, cycle=cycle, after=after)
        self._begun.append(acting)
        self.note(FaultDue(fault=fault.id, cycle=cycle, due=due_us))
        waits = isinstance(fault.when, MomentOfJob)
        self.tell(f"{fault.id} {'waits for its moment' if waits else 'begins'}")
        return acting

    def activation(self) -> type[FaultActivation]:
        """The class of the activations here."""
        return FaultActivation

    def evidence(self, acting: FaultActivation) -> Evidence:
        """The evidence of an activation so far."""
        progress = self._progress
        seen = Seen(
            arming_us=acting.arming_us,
            armed_us=acting.armed_us or self.now_us,
            healed_us=acting.healing_us or self.now_us,
            calls=[*progress.timed.calls("lookups"), *progress.timed.calls("sink")],
            losses=progress.losses,
            errors=progress.errors,
            log=acting.log,
            facts=list(acting.facts),
        )
        if progress.has_own_client:
            seen = as_the_proxy_saw(seen, link=acting.fault.on_link)
        return acting.fault.evidence(seen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._schedule.close()


def in_words(evidence: JsonView) -> str:
    """Evidence for a line of the terminal."""
    return ", ".join(f"{name} {value}" for name, value in evidence.items())
