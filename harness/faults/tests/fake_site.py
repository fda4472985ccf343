"""A site for tests of faults: a proxy that remembers what was done to it, and a schedule with a clock to set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from harness.engine.outside_faults import OutsideFaults
from harness.faults.real.evidence import LogPage, ProxyEvidence
from harness.faults.real.fault_site import Site, ToxicRequest, Workers
from harness.faults.real.server_control import ServerControl
from harness.history.follower import Progress
from harness.history.notes import FaultNote
from harness.scenario.model import Scenario
from harness.system.clock import Deadline, wait_until

MS = 1000
_LIMIT_S = 60.0
NOWHERE = cast("Any", None)
"""What a fault of a link has no business with."""


class NoSpark:
    """Workers of which only this is asked."""

    def spark(self) -> None:
        return


class Proxy:
    """A control; `log` is shared with the notes. Breaks at its `failing`-th change."""

    def __init__(self, log: list[str] | None = None, *, failing: int = 0, keeps_log: bool = False) -> None:
        self.log = [] if log is None else log
        self.acts: list[str] = []
        self.toxics: dict[str, ToxicRequest] = {}
        self.events_done: list[ProxyEvidence] | None = [] if keeps_log else None
        self._left = failing

    def _change(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise ConnectionError("the proxy is gone")

    def add_toxic(self, link: str, toxic: ToxicRequest) -> None:
        self._change()
        self.log.append(f"+{toxic.name}")
        self.acts.append(toxic.name)
        self.toxics[toxic.name] = toxic

    def remove_toxic(self, link: str, name: str) -> None:
        self.log.append(f"-{name}")
        if name in self.acts:
            self.acts.remove(name)

    def disable(self, link: str) -> None:
        self.acts.append(link)
        self.log.append(f"disable {link}")
        self._change()

    def enable(self, link: str) -> None:
        self.log.append(f"enable {link}")
        if link in self.acts:
            self.acts.remove(link)

    def cut(self, link: str, how: str) -> Sequence[int]:
        self._change()
        self.log.append(f"cut {link} {how}")
        return [1, 2]

    def link_log(self, link: str, after: int = 0) -> LogPage | None:
        if self.events_done is None:
            return None
        return LogPage(events=self.events_done[after:], next=len(self.events_done))


def site(proxy: Proxy, *, note_fact: Callable[..., None] = lambda **facts: None) -> Site:
    """A site with nothing but a proxy."""
    return Site(
        control=proxy,
        server=cast("ServerControl", NOWHERE),
        workers=cast("Workers", NoSpark()),
        note_fact=note_fact,
        seed=7,
        over=threading.Event(),
    )


def scenario(*faults: dict[str, Any], levels: Sequence[str] = ("live",)) -> Scenario:
    """A small one with these faults."""
    return Scenario.model_validate(
        {
            "scenario": "small",
            "about": "A small one for tests.",
            "levels": list(levels),
            "operator": {"mode": "ordered"},
            "workload": {"records": 400, "checkpoint_every": 40},
            "faults": list(faults),
            "decisive": ["V8"],
        }
    )


class Stage:
    """A schedule of `faults` over a proxy, with its log and a clock to set."""

    def __init__(
        self,
        *faults: dict[str, Any],
        note: Callable[[str, str], None] = lambda kind, fault: None,
        seed: int = 7,
        failing: int = 0,
        keeps_log: bool = False,
    ) -> None:
        self.log: list[str] = []
        self.lines: list[FaultNote] = []
        self.told: list[str] = []
        self.now_us = 5_000 * MS
        self.progress = Progress(began_us={0: 5_000 * MS})
        self.proxy = Proxy(self.log, failing=failing, keeps_log=keeps_log)
        self._note = note
        self.schedule = OutsideFaults(
            faults=scenario(*faults).faults,
            seed=seed,
            control=self.proxy,
            server=cast("ServerControl", NOWHERE),
            workers=cast("Workers", NoSpark()),
            note=self._noted,
            tell=self.told.append,
        )

    def _noted(self, note: FaultNote) -> int:
        kind = str(note.__struct_config__.tag)
        self.log.append(f"{kind} {note.fault}")
        self.lines.append(note)
        self._note(kind, note.fault)
        return self.now_us

    def at(self, ms: int) -> list[str]:
        """Step at `ms` after the first record, until nothing is under way; what that did."""
        before = len(self.log)
        self.step(ms)
        assert wait_until(self.schedule.is_settled, deadline=Deadline(_LIMIT_S), every_s=0.001)
        return self.log[before:]

    def step(self, ms: int) -> None:
        """Step once, and wait for nothing."""
        self.now_us = (5_000 + ms) * MS
        self.schedule.step(self.progress, now_us=self.now_us)
