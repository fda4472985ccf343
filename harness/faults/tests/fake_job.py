"""A user's job for tests of faults: processes that only sleep, and a proxy whose log is written by hand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from harness.faults.model.fault import OutsideFault
from harness.faults.parts.triggers import SinkMoment
from harness.faults.real.evidence import Evidence, ProxyEvidence, Seen
from harness.faults.real.fault_site import ProxyConnection, Site
from harness.faults.real.held_message import HeldMessage
from harness.faults.real.server_control import ServerControl
from harness.faults.real.sites import JobProcesses, LiveStart
from harness.faults.real.suspension import suspended
from harness.faults.tests.fake_site import Proxy, site
from harness.system.clock import monotonic_us
from harness.system.process_identity import ProcessIdentity, identify, is_alive


class MessageProxy(Proxy):
    """A control with a log of messages; what is done to one message is in `log`."""

    def __init__(self) -> None:
        super().__init__(keeps_log=True)
        self.after_release: Callable[[int], None] = lambda connection: None

    @property
    def noted(self) -> list[ProxyEvidence]:
        """The log, to be written to."""
        assert self.events_done is not None
        return self.events_done

    def connections(self, link: str) -> Sequence[ProxyConnection]:
        return []

    def cut_one(self, link: str, connection: int) -> None:
        self.log.append(f"cut {connection}")

    def release(self, link: str, toxic: str, connection: int) -> None:
        self.log.append(f"release {connection}")
        self.after_release(connection)

    def hold_no_more(self, link: str, toxic: str) -> None:
        self.log.append(f"no more {toxic}")


def noted(
    statement: str, connection: int, *, answer: bool = False, table: str = "", t_us: int | None = None
) -> ProxyEvidence:
    """An entry of the notes of fault `f`."""
    stream = "downstream" if answer else "upstream"
    more: dict[str, Any] = {"statement": statement, "table": table, "peer": 50_000 + connection}
    more |= {"writes": 1, "tables": table} if statement == "insert" else {}
    return ProxyEvidence(
        t_us=monotonic_us() if t_us is None else t_us,
        did="noted",
        toxic=f"f.notes.{stream}",
        connection=connection,
        stream=stream,
        command="commit" if statement == "commit" else "query",
        more={**more, "commits": 1, "reply": "ok"} if answer else more,
    )


@dataclass
class Server:
    """A server that tells which transactions have changed rows: by the number of their session, the number of rows."""

    changed: Mapping[int, int]
    asked: int = 0

    @contextmanager
    def root(self, *_args: Any, **_options: Any) -> Iterator[Server]:
        yield self

    @contextmanager
    def cursor(self) -> Iterator[Server]:
        yield self

    def execute(self, _statement: str) -> None:
        """Settings of the line."""

    def writers(self, _root: object) -> Mapping[int, int]:
        self.asked += 1
        return self.changed


@dataclass
class Job:
    """Starts that only sleep. Use it as a block."""

    owner_of: Mapping[int, int] = field(default_factory=dict)
    """The number of the start that owns a connection."""
    helpers: int = 0
    """Further processes of each start."""
    executors_too: bool = False
    commits: int = 0
    begun: list[list[subprocess.Popen[bytes]]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_error: object) -> None:
        for process in [process for start in self.begun for process in start]:
            process.kill()
            process.wait()

    def _live(self, number: int) -> LiveStart:
        main = identify(self.begun[number - 1][0].pid)
        assert main is not None
        return LiveStart(number=number, main=main)

    def newest(self) -> LiveStart | None:
        return self._live(len(self.begun)) if self.begun[-1][0].poll() is None else None

    def family(self, start: LiveStart) -> Sequence[ProcessIdentity]:
        found = [identify(process.pid) for process in self.begun[start.number - 1]]
        return [one for one in found if one is not None]

    def owner(self, _link: str, port: int) -> ProcessIdentity | None:
        number = self.owner_of.get(port - 50_000)
        return None if number is None else self._live(number).main

    def executors(self) -> Sequence[ProcessIdentity]:
        return self.family(self._live(len(self.begun)))[1:] if self.executors_too else []

    def is_alive(self, process: ProcessIdentity) -> bool:
        return is_alive(process)

    def suspended(self, process: ProcessIdentity, found: Callable[..., None]) -> AbstractContextManager[None]:
        return suspended(process, found)

    def ports(self, _family: Sequence[ProcessIdentity]) -> set[int]:
        return set()

    def kill(self, process: ProcessIdentity, *, fault: str) -> bool:
        for one in [one for start in self.begun for one in start]:
            if one.pid == process.pid and is_alive(process):
                one.kill()
                one.wait()
                return True
        return False

    def expect_death(self, _start: LiveStart, *, fault: str) -> None: ...

    @contextmanager
    def start_beside(self, *, fault: str) -> Iterator[LiveStart]:
        self._start()
        yield self._live(len(self.begun))

    def _start(self) -> None:
        self.begun.append([subprocess.Popen(["sleep", "60"]) for _ in range(1 + self.helpers)])

    def wait_for_exit(self, start: LiveStart, *, limit_s: float) -> bool:
        return self.begun[start.number - 1][0].poll() is not None

    def seen_commits(self) -> int:
        return self.commits


def held(
    proxy: MessageProxy, connection: int, *, lag_us: int = 8_000, meanwhile: int = 0, **when: Any
) -> HeldMessage:
    """A message that the proxy holds, of a job that stood still `lag_us` later; so many others passed `meanwhile`."""
    return HeldMessage(
        control=proxy,
        toxic="f.moment.upstream",
        connection=connection,
        peer=50_000 + connection,
        when=SinkMoment.model_validate({"sink": "commit", **when}),
        said="COMMIT",
        counted="of enriched",
        held_us=(now_us := monotonic_us()),
        stopped_us=now_us + lag_us,
        meanwhile=meanwhile,
        rows_modified=3,
    )


def job_site(
    proxy: MessageProxy, job: Job, *, message: HeldMessage | None = None, server: Server | None = None
) -> tuple[Site, list[Mapping[str, Any]]]:
    """What a fault may use, and where it records what it found."""
    facts: list[Mapping[str, Any]] = []
    made = site(proxy, note_fact=lambda **told: facts.append(told))
    place = replace(
        made,
        job=cast("JobProcesses", job),
        held=message,
        server=cast("ServerControl", server),
        sink_table="enriched",
    )
    return place, facts


def shown(fault: OutsideFault, place: Site, facts: list[Mapping[str, Any]]) -> Evidence:
    """The evidence after one activation."""
    with fault.inject(place):
        pass
    return fault.evidence(Seen(armed_us=0, healed_us=1, facts=facts))
