"""One time that a fault acts, in a thread of its own: armed, watched over, healed.

Answers to one invoke and completion of Jepsen's nemesis. Invariant: whatever `inject` began is ended by its own
context manager, in the thread that began it, once `over` is set or the thread breaks; what broke is kept for the
schedule to raise.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pymysql

from harness.errors import FloodmarkError, HarnessError, WorldError
from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import Deed
from harness.faults.real.fault_site import Control, Site, Workers
from harness.faults.real.server_control import ServerControl

__all__ = ["ActingOutside", "NoteTaker"]

_LOOK_S = 0.1
"""Between two looks into the proxy's log while a fault acts."""
_HEAL_LIMIT_S = 120.0
"""The longest that healing may take: a server may have to start, and every step of it has a limit of its own."""
_DEEDS_MAX = 5_000
"""Of one time that a fault acts; a log that goes on beyond them shows nothing that these do not."""


class NoteTaker(Protocol):
    """Where notes go, from any thread; gives the time, in microseconds."""

    def __call__(self, kind: str, fault: str, **facts: Any) -> int: ...


@dataclass(slots=True, kw_only=True)
class ActingOutside:
    """Call `start`, then `heal`, from one thread. Mutable: its own thread fills in what happens."""

    fault: OutsideFault
    control: Control
    server: ServerControl
    workers: Workers
    seed: int
    note: NoteTaker
    cycle: int
    """Which time it is, from 0."""
    after: int = 0
    """The proxy's deeds up to this one are others'."""
    arming_us: int | None = None
    armed_us: int | None = None
    healing_us: int | None = None
    failure: BaseException | None = None
    facts: list[Mapping[str, Any]] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    _keeps_log: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def acts(self) -> bool:
        """Whether it is armed, and not healing yet."""
        return self.armed_us is not None and self.healing_us is None

    @property
    def ended(self) -> bool:
        """Whether it has healed, or broken."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def is_settled(self) -> bool:
        """Whether its thread has nothing to do but wait."""
        return self.ended or (self.acts and not self._over.is_set())

    @property
    def log(self) -> list[Deed] | None:
        """The proxy's deeds so far; None: there is no log of them."""
        return list(self.deeds) if self._keeps_log else None

    def start(self) -> None:
        """Arm it, in its own thread."""
        self._thread = threading.Thread(target=self._run, name=f"fault {self.fault.id}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let it heal; does not wait."""
        self._over.set()

    def heal(self) -> None:
        """Let it heal, and wait until it has. Raises WorldError if it does not."""
        self._over.set()
        if self._thread is None:
            return
        self._thread.join(_HEAL_LIMIT_S)
        if self._thread.is_alive():
            message = f"fault {self.fault.id} ({self.fault.do}) has not healed within {_HEAL_LIMIT_S:g} s"
            raise WorldError(
                message, fix="the world is not used again; look at the server's and the proxy's log"
            )

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # noqa: BLE001 - kept for the schedule, which raises it in the watch's thread
            self.failure = self._told(error)

    def _act(self) -> None:
        site = Site(
            control=self.control,
            server=self.server,
            workers=self.workers,
            found=self._found,
            seed=self.seed,
            over=self._over,
        )
        self._skip_deeds()
        self.arming_us = self._noted("~arming")
        with self.fault.inject(site):
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

    def _is_mine(self, deed: Deed) -> bool:
        """By the toxic's name, which is the fault's, or begins with it and a dot; or done by the link itself."""
        return deed.toxic in {"", self.fault.id} or deed.toxic.startswith(f"{self.fault.id}.")

    def _told(self, error: BaseException) -> BaseException:
        """As an error that says which fault it was, and whose mistake."""
        stage = "armed" if self.armed_us is None else "healed" if self.healing_us else "kept up"
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
