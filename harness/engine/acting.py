"""One activation of an outside fault, in its own thread: arm it, read the proxy's log, heal it.

Answers to one invocation and completion of Jepsen's nemesis. Invariant: the context manager of `inject` ends in the
thread that began it, once `over` is set or an error occurs; the error is kept for the schedule to raise.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pymysql

from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import ProxyEvidence
from harness.faults.real.fault_site import Control, Site, Workers
from harness.faults.real.server_control import ServerControl
from harness.system.errors import FloodmarkError, HarnessError, WorldError

_LOOK_S = 0.1
"""Interval between two reads of the proxy's log while a fault is active."""
_HEAL_LIMIT_S = 120.0
"""How long healing may take; it may include the start of a server, whose steps have their own limits."""
_DEEDS_MAX = 5_000
"""The largest number of proxy events kept for one activation."""


class NoteTaker(Protocol):
    """Records a line, from any thread; returns its time in microseconds."""

    def __call__(self, kind: str, fault: str, **facts: Any) -> int: ...


@dataclass(slots=True, kw_only=True)
class ActingOutside:
    """Call `start`, then `heal`, from one thread. Mutable: its own thread fills in times, facts and proxy events."""

    fault: OutsideFault
    control: Control
    server: ServerControl
    workers: Workers
    seed: int
    note: NoteTaker
    cycle: int
    """The number of the activation, from 0."""
    after: int = 0
    """The last event of the proxy's log that belongs to earlier activations."""
    arming_us: int | None = None
    armed_us: int | None = None
    healing_us: int | None = None
    failure: BaseException | None = None
    facts: list[Mapping[str, Any]] = field(default_factory=list)
    deeds: list[ProxyEvidence] = field(default_factory=list)
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
        return list(self.deeds) if self._keeps_log else None

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
        self._skip_deeds()
        self.arming_us = self._noted("~arming")
        self._inject(self._site())

    def _site(self) -> Site:
        """What the fault may use."""
        return Site(
            control=self.control,
            server=self.server,
            workers=self.workers,
            found=self._found,
            seed=self.seed,
            over=self._over,
            spark=self.workers.spark(),
        )

    def _inject(self, site: Site) -> None:
        """Keeps the fault active until it is to heal."""
        with self.fault.inject(site):
            if site.held is not None:
                site.held.release()
            self.armed_us = self._noted("~armed", logged=self._keeps_log)
            while not self._over.wait(_LOOK_S):
                self._read_deeds()
            self._read_deeds()
            self.healing_us = self._noted("~healing")
        self._read_deeds()
        self._noted("~healed")

    def _noted(self, kind: str, **facts: Any) -> int:
        return self.note(kind, self.fault.id, cycle=self.cycle, **facts)

    def _found(self, **facts: Any) -> None:
        self.facts.append(facts)
        self._noted("~found", facts=facts)

    def _skip_deeds(self) -> None:
        read = None if self.fault.on_link is None else self.control.deeds(self.fault.on_link, self.after)
        if read is not None:
            self.after, self._keeps_log = read.next, True

    def _read_deeds(self) -> None:
        if not self._keeps_log or self.fault.on_link is None:
            return
        read = self.control.deeds(self.fault.on_link, self.after)
        if read is None:
            return
        self.after = read.next
        for deed in read.deeds:
            if self._is_mine(deed) and len(self.deeds) < _DEEDS_MAX:
                self.deeds.append(deed)
                self._noted("~deed", deed=deed.line())

    def _is_mine(self, deed: ProxyEvidence) -> bool:
        """Whether the event's toxic is named after the fault (`id` or `id.*`), or the link itself acted."""
        return deed.toxic in {"", self.fault.id} or deed.toxic.startswith(f"{self.fault.id}.")

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
