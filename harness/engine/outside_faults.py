"""The outside faults of a run at a real level: on the proxy, the server and processes.

Implements the schedule's `Place` in real time. Invariant: all callbacks come from the thread that calls `step`; each
activation of a fault has its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, cast

import pymysql

from harness.engine.schedule import Schedule
from harness.faults.model.fault import Fault, OutsideFault
from harness.faults.parts.triggers import MomentOfJob
from harness.faults.real.evidence import Evidence, LogPage, ProxyEvidence, Seen, as_the_proxy_saw
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
from harness.system.clock import Beside, Flag, beside, flag
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
class Activation:
    """One activation of a fault. Mutable: its own thread fills in times, facts and proxy events.

    Invariant: the context manager of `inject` ends in the thread that began it, once `over` is set or an error occurs.
    """

    fault: OutsideFault
    place: OutsideFaults
    cycle: int
    """The number of the activation, from 0."""
    after: int = 0
    """The last event of the proxy's log that belongs to earlier activations."""
    arming_us: int | None = None
    """When its moment came; None: it has not come."""
    armed_us: int | None = None
    healing_us: int | None = None
    over_us: int | None = None
    """When the place was told that it is over."""
    failure: BaseException | None = None
    facts: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[ProxyEvidence] = field(default_factory=list)
    effective: bool = False
    ready: Flag = field(default_factory=flag)
    """Set when it can miss no message any more for which it waits."""
    over: Flag = field(default_factory=flag)
    """Set when it is to heal."""
    _is_reported: bool = False
    _keeps_log: bool = False
    _thread: Beside | None = None

    @property
    def acts(self) -> bool:
        """Whether it is armed and not yet healing."""
        return self.armed_us is not None and self.healing_us is None

    @property
    def ended(self) -> bool:
        """Whether it has healed or failed."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def waits(self) -> bool:
        """Whether it waits for a moment of a job, from before the job's first start."""
        return isinstance(self.fault.when, MomentOfJob)

    @property
    def is_settled(self) -> bool:
        """Whether its thread only waits."""
        has_not_begun = self.waits and self.arming_us is None
        return self.ended or has_not_begun or (self.acts and not self.over.is_set())

    def seen(self, others: Seen) -> Seen:
        """`others`, which says what clients had, with what is known of this activation so far."""
        now_us = self.place.now_us
        return replace(
            others,
            arming_us=self.arming_us,
            armed_us=self.armed_us or now_us,
            healed_us=self.healing_us or now_us,
            log=list(self.events) if self._keeps_log else None,
            facts=list(self.facts),
        )

    def start(self) -> None:
        """Starts the thread, which arms the fault."""
        self._thread = beside(self._run, name=f"fault {self.fault.id}")

    def look(self) -> None:
        if self.effective or not self.acts:
            return
        evidence = self.place.evidence(self)
        if evidence:
            self.effective = True
            self._note(TookEffect)
            self.place.tell(f"{self.fault.id} took effect: {in_words(evidence)}")

    def end(self) -> None:
        """Tells the thread to heal the fault; does not wait."""
        self.over.set()

    def report(self) -> None:
        """Once: what became of it. Raises the fault's error where it ends the run."""
        if not self._is_reported:
            self._is_reported = True
            self.place.report(self)

    def close(self) -> None:
        """Heals the fault and waits for the thread. Raises WorldError if that takes too long."""
        self.over.set()
        if self._thread is not None:
            self._thread.join(_HEAL_LIMIT_S)
            if self._thread.is_alive():
                message = f"fault {self.fault.id} ({self.fault.do}) has not healed within {_HEAL_LIMIT_S:g} s"
                raise WorldError(
                    message, fix="look at the logs of the server and the proxy; this world is not used again"
                )
        self.report()

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # noqa: BLE001 - kept for the schedule, which raises it in the main thread
            self.failure = self._with_fault_named(error)

    def _act(self) -> None:
        read = self._read_log()
        if read is not None:
            self.after, self._keeps_log = read.next, True
        place = self.place
        site = Site(
            control=place.control,
            server=place.server,
            workers=place.workers,
            note_fact=self._note_fact,
            seed=place.seed,
            over=self.over,
            spark=place.workers.spark(),
        )
        try:
            with place.moment(self, site) as come:
                if come is not None:
                    self._begin()
                    self._inject(come)
        except BaseException:
            self._begin()  # also of a fault that fails before its moment: it was to act, and could not
            raise
        finally:
            if self.arming_us is not None:
                self.over_us = place.acted(self)

    def _begin(self) -> None:
        if self.arming_us is None:
            self.arming_us = self.place.acts_now(self)

    def _inject(self, site: Site) -> None:
        """Keeps the fault active until it is to heal."""
        with self.fault.inject(site):
            if site.held is not None:
                site.held.release()
            self.armed_us = self._note(Armed, logged=self._keeps_log)
            while not self.over.wait(_LOOK_S):
                self._read_events()
            self._read_events()
            self.healing_us = self._note(Healing)
        self._read_events()
        self._note(Healed)

    def _note(self, kind: type[FaultNote], **facts: Any) -> int:
        return self.place.note(kind(fault=self.fault.id, cycle=self.cycle, **facts))

    def _note_fact(self, **facts: Any) -> None:
        self.facts.append(facts)
        self._note(Found, facts=facts)

    def _read_log(self) -> LogPage | None:
        link = self.fault.on_link
        return None if link is None else self.place.control.link_log(link, self.after)

    def _read_events(self) -> None:
        read = self._read_log() if self._keeps_log else None
        if read is None:
            return
        self.after = read.next
        for event in read.events:
            # Toxics of the fault are named after it (`id` or `id.*`); without a name the link itself acted.
            is_mine = event.toxic in {"", self.fault.id} or event.toxic.startswith(f"{self.fault.id}.")
            if is_mine and len(self.events) < _EVENTS_MAX:
                self.events.append(event)
                self._note(ProxyActed, deed=event.line())

    def _with_fault_named(self, error: BaseException) -> BaseException:
        """Wraps the error in one of our own that names the fault and the stage."""
        stage = "armed" if self.armed_us is None else "healed" if self.healing_us else "kept active"
        where = f"fault {self.fault.id} ({self.fault.do}) could not be {stage}"
        match error:
            case FloodmarkError():
                named: FloodmarkError = type(error)(f"{where}: {error.what}", fix=error.fix)
            case OSError() | pymysql.MySQLError():
                named = WorldError(
                    f"{where}: {error}", fix="run it again with --keep always, and look at the logs"
                )
            case _:
                named = HarnessError(f"{where}: {type(error).__name__}: {error}", fix="please report it")
        named.__cause__ = error
        return named


_LOOK_US: Final = 100_000
"""Interval between two checks whether a fault has evidence."""


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
    _schedule: Schedule[Activation] = field(init=False)
    _alarms: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    _next_step: list[Callable[[], None]] = field(default_factory=list)
    begun: list[Activation] = field(default_factory=list)
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
        return all(one.is_settled for one in self.begun)

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

    def at(self, instant_us: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back in the first `step` from that time on."""
        alarm = (instant_us, callback)
        self._alarms.append(alarm)

        def cancel() -> None:
            if alarm in self._alarms:
                self._alarms.remove(alarm)

        return cancel

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

    def begins(self, fault: Fault, *, cycle: int, due_us: int) -> Activation:
        after = max((one.after for one in self.begun if one.fault.on_link == fault.on_link), default=0)
        one = Activation(fault=cast("OutsideFault", fault), place=self, cycle=cycle, after=after)
        self.begun.append(one)
        self.note(FaultDue(fault=fault.id, cycle=cycle, due=due_us))
        self.tell(f"{fault.id} {'waits for its moment' if one.waits else 'begins'}")
        return one

    @contextmanager
    def moment(self, one: Activation, site: Site) -> Iterator[Site | None]:
        """Waits in the activation's thread until it is to act; what it may use then, or None: the run ended before."""
        del one
        yield site

    def acts_now(self, one: Activation) -> int:
        """Records that its moment has come; returns when."""
        return self.note(Arming(fault=one.fault.id, cycle=one.cycle))

    def acted(self, one: Activation) -> int:
        """Called in its thread when it is over; returns when."""
        del one
        return self.now_us

    def report(self, one: Activation) -> None:
        """Tells the user what became of it. Raises its error."""
        if one.failure is not None:
            raise one.failure
        evidence = self.evidence(one)
        left = f"it took effect: {in_words(evidence)}" if evidence else "no evidence so far"
        self.tell(f"{one.fault.id} has healed; {left}")

    def clients(self) -> Seen:
        """What the clients had so far."""
        progress = self._progress
        return Seen(
            armed_us=0,
            healed_us=0,
            calls=[*progress.timed.calls("lookups"), *progress.timed.calls("sink")],
            losses=progress.losses,
            errors=progress.errors,
        )

    def evidence(self, one: Activation) -> Evidence:
        """The evidence of an activation so far."""
        seen = one.seen(self.clients())
        if self._progress.has_own_client:
            seen = as_the_proxy_saw(seen, link=one.fault.on_link)
        return one.fault.evidence(seen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._schedule.close()


def in_words(evidence: JsonView) -> str:
    """Evidence for a line of the terminal."""
    return ", ".join(f"{name} {value}" for name, value in evidence.items())
