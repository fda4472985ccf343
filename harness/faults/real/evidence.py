"""The evidence of faults at real levels: what a run recorded while a fault was active.

Answers to the part of a Jepsen history between two nemesis operations, and to a packet capture beside a test.
Invariant: evidence consists of lines that a witness recorded (an attempt, the proxy, the fault itself), never of the
plan, so a fault that did not act has no evidence. The proxy logs each event when it happens, by the machine's monotonic
clock. For server faults only errors that clients recorded count, from the moment when the fault began to act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeGuard

from harness.history.event import AttemptEvent, Commit, Kill, OfAttempt, Start
from harness.history.follower import TimedCall
from harness.history.notes import Acted, AttemptNote, InProcess, Line, Measured, ProcessReaped
from harness.system.json_types import Json, JsonView


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyEvidence:
    """One event of the proxy's log: what it did to a connection. The log may merge several similar events into one."""

    t_us: int
    did: str
    """The kind of event, such as `held`, `swallowed`, `cut`, `reset`, `refused`, `delayed` or `limited`."""
    toxic: str = ""
    """The toxic that acted; empty: the link itself was disabled or cut."""
    connection: int = 0
    stream: str = ""
    """`upstream` or `downstream`."""
    bytes: int = 0
    packets: int = 0
    ms: int = 0
    command: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """All other fields of the log line."""

    def line(self) -> Json:
        """As JSON without empty fields; `deed_of` reads it back."""
        told = {name: getattr(self, name) for name in _OWN if getattr(self, name)}
        return {"t": self.t_us, **told, **self.more}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A part of a proxy's log."""

    events: Sequence[ProxyEvidence]
    next: int
    """The value of `after` for the next request."""
    lost: int = 0
    """How many events were dropped from the log before they were read."""


_OWN = ("did", "toxic", "connection", "stream", "bytes", "packets", "ms", "command")
_NOT_MORE = frozenset({*_OWN, "t", "n"})


def evidence_of(line: JsonView) -> ProxyEvidence:
    """Reads one event of the proxy's log from its JSON."""
    told = {name: line[name] for name in _OWN if line.get(name) is not None}
    more = {name: value for name, value in line.items() if name not in _NOT_MORE}
    return ProxyEvidence(t_us=int(line["t"]), more=more, **told)


Evidence = dict[str, Any]

Loss = tuple[int, str, int | str]
"""Time (microseconds), link and error code."""

NOTICE_US = 500_000
"""How long after healing a client may take to notice that its connection or statement failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run recorded about one fault, active from `armed_us` to `healed_us`, and the rest for comparison."""

    armed_us: int
    healed_us: int
    arming_us: int | None = None
    """When arming began; the fault may have acted since then. None: not before `armed_us`."""
    calls: Sequence[TimedCall] = ()
    """The calls of the whole run, over both links."""
    losses: Sequence[Loss] = ()
    """The connections lost or refused in the whole run."""
    errors: Sequence[Loss] = ()
    """The errors that clients got in the whole run, including `losses`."""
    failed_starts_us: Sequence[int] = ()
    """When starts of a job ended by themselves with an error, in the whole run."""
    log: Sequence[ProxyEvidence] | None = None
    """What the proxy did for this fault; None: it keeps no log, or the fault does not use the proxy."""
    facts: Sequence[Mapping[str, Any]] = ()
    """The facts that the fault itself recorded."""
    events: Sequence[Line] = ()
    """Every line of the run; empty while the run still goes on."""

    def fact(self, what: str) -> JsonView | None:
        """The first fact of that kind that the fault recorded."""
        return next((fact for fact in self.facts if fact["what"] == what), None)

    def last_fact(self, name: str) -> Any:
        """The last fact of this name that the fault recorded; None: there is none."""
        return next((facts[name] for facts in reversed(self.facts) if name in facts), None)

    def over(self, link: str) -> Seen:
        """The same, restricted to one link."""
        return replace(
            self,
            calls=[call for call in self.calls if call.link == link],
            losses=[loss for loss in self.losses if loss[1] == link],
            errors=[error for error in self.errors if error[1] == link],
        )

    def during(self) -> list[TimedCall]:
        """Calls that began during the fault."""
        return [call for call in self.calls if self.armed_us <= call.began_us < self.healed_us]

    def calls_within(self) -> list[TimedCall]:
        """Calls that began and ended during the fault."""
        return [
            call for call in self.during() if call.ended_us is not None and call.ended_us <= self.healed_us
        ]

    def waiting(self) -> list[TimedCall]:
        """Calls that had begun and had no outcome yet when the fault healed."""
        begun = (call for call in self.calls if call.began_us < self.healed_us)
        return [call for call in begun if call.ended_us is None or call.ended_us > self.healed_us]

    def timed_out(self) -> int:
        """How many calls timed out that the fault may have delayed.

        Includes calls that began before the fault, and calls that timed out after it healed.
        """
        begun = (call for call in self.calls if call.began_us < self.healed_us and call.ending == "timeout")
        return sum(1 for call in begun if call.ended_us is not None and call.ended_us >= self._since_us)

    def before(self) -> list[TimedCall]:
        """Calls that ended before the fault."""
        return [call for call in self.calls if call.ended_us is not None and call.ended_us < self.armed_us]

    def after(self) -> list[TimedCall]:
        """Calls that began after the fault healed."""
        return [call for call in self.calls if call.began_us >= self.healed_us]

    def losses_during(self, *, grace_us: int = 0) -> list[int | str]:
        """Error codes of connections lost during the fault or within `grace_us` after it."""
        return [loss[2] for loss in self.losses if self._is_inside(loss[0], grace_us)]

    def errors_during(self, *codes: int | str, grace_us: int = 0) -> list[int | str]:
        """The errors among `codes` (none given: all) that clients got in the fault or within `grace_us` after it."""
        met = [error[2] for error in self.errors if self._is_inside(error[0], grace_us)]
        return [code for code in met if not codes or code in codes]

    def loss_evidence(self, *, grace_us: int = 0) -> Evidence:
        """How many connections were lost or refused during the fault, by error code."""
        lost = self.losses_during(grace_us=grace_us)
        return {"connections_lost": len(lost), "codes": _counted(lost)} if lost else {}

    def client_errors(self, *codes: int | str, grace_us: int = 0) -> dict[str, int]:
        """How many of these errors clients got since the fault began to act (its fact `began_us`), sorted by code."""
        began_us = self.last_fact("began_us")
        whole = self if began_us is None else replace(self, armed_us=min(self.armed_us, began_us))
        return _counted(whole.errors_during(*codes, grace_us=grace_us))

    def delayed_chunks(self, stream: str) -> Evidence | None:
        """The delays in the proxy's log in that direction; empty without a log, None if they are fewer than five."""
        if self.log is None:
            return {}
        late = [event for event in self.did("delayed", stream=stream) if event.ms > 0]
        chunks = sum(int(event.more.get("chunks", 1)) for event in late)
        if chunks < _CHUNKS_MIN:
            return None
        return {
            "bytes_delayed": sum(event.bytes for event in late),
            "connections_delayed": len({event.connection: None for event in late}),
            "chunks_delayed": chunks,
            "longest_delay_ms": max(event.ms for event in late),
        }

    def starts_failed(self) -> int:
        """How many starts of a job ended by themselves with an error during the fault."""
        return sum(self._is_inside(at_us, 0) for at_us in self.failed_starts_us)

    def did(self, *dids: str, stream: str = "") -> list[ProxyEvidence]:
        """The proxy's events of these kinds, of one direction if `stream` is given."""
        return [
            event for event in self.log or () if event.did in dids and (not stream or event.stream == stream)
        ]

    def _is_inside(self, at_us: int, grace_us: int) -> bool:
        return self._since_us <= at_us <= self.healed_us + grace_us

    @property
    def _since_us(self) -> int:
        """The earliest time at which the fault may have acted."""
        return self.armed_us if self.arming_us is None else self.arming_us


_CHUNKS_MIN = 5


def _counted(codes: Iterable[int | str]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, codes)).items()))


def median_ms(calls: Sequence[TimedCall]) -> float | None:
    """The median duration of the calls that ended; None if none did."""
    lengths = [call.took_ms for call in calls if call.took_ms is not None]
    return median(lengths) if lengths else None


def fastest_ms(calls: Sequence[TimedCall]) -> float | None:
    """The shortest duration of the calls that ended; None if none did."""
    return min((call.took_ms for call in calls if call.took_ms is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFault:
    """One fault as a run recorded it; times in microseconds."""

    began_us: int
    measured_us: int | None = None
    """When its first effect was recorded; None: none was."""
    ended_us: int | None = None
    """None: it was still active when the run ended."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Empty: no effect was recorded."""


def acts(fault: str, lines: Sequence[Line]) -> list[Acted]:
    """The notes of acts of `fault`."""
    return [line for line in lines if isinstance(line, Acted) and line.fault == fault]


def measurements(fault: str, lines: Sequence[Line]) -> list[Measured]:
    """The notes of effects of `fault`."""
    return [line for line in lines if isinstance(line, Measured) and line.fault == fault]


def is_speech(line: Line) -> TypeGuard[OfAttempt | AttemptNote | Commit]:
    """Whether an attempt itself wrote `line`, and not the harness about it."""
    return isinstance(line, AttemptEvent | AttemptNote | Commit) and not isinstance(line, Kill)


def successor_of(lines: Sequence[Line], *, subtask: int, attempt: int) -> Start | None:
    """The start of the next attempt of the subtask."""
    starts = (line for line in lines if isinstance(line, Start) and line.s == subtask)
    return next((start for start in starts if start.a > attempt), None)


def attempt_of(
    pid: int, started: int, lines: Sequence[Line], *, by_us: int | None = None
) -> tuple[int, int] | None:
    """The subtask and the last attempt that ran in a process, or had begun there by then; None: none did."""
    own = [
        (line.s, line.a)
        for line in lines
        if isinstance(line, InProcess)
        and (line.pid, line.started) == (pid, started)
        and (by_us is None or line.t <= by_us)
    ]
    return own[-1] if own else None


def reaped_code(subtask: int, attempt: int, lines: Sequence[Line]) -> int | None:
    """The exit code of an attempt's process, as recorded by the harness; None: not recorded."""
    processes = (line for line in lines if isinstance(line, InProcess))
    process = next((one for one in processes if (one.s, one.a) == (subtask, attempt)), None)
    if process is None:
        return None
    ends = (line for line in lines if isinstance(line, ProcessReaped) and line.pid == process.pid)
    return next((end.code for end in ends if end.t >= process.t), None)


_ENDED = frozenset({"cut", "limited", "refused", "reset", "shut"})
"""What the proxy does to a connection by which its client loses it."""


def as_the_proxy_saw(seen: Seen, *, link: str | None) -> Seen:
    """`seen` of a lookup with a client of its own, which records no losses: those in the proxy's log of the fault.

    A code is what the proxy did, or the number of the error that it sent. Without a log nothing is added.
    """
    if link != "lookups":
        return seen
    lost = [(event.t_us, link, f"proxy: {event.did}") for event in seen.did(*_ENDED)]
    sent = [(event.t_us, link, event.more["code"]) for event in seen.did("error") if "code" in event.more]
    return replace(seen, losses=[*seen.losses, *lost], errors=[*seen.errors, *lost, *sent])


GONE: tuple[int | str, ...] = (
    0, 1053, 1152, 1927, 2003, 2006, 2013, 2055, 4031,
    "BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "ConnectionResetError",
    "IncompleteReadError",
)  # fmt: skip
"""The error codes by which clients report a connection that was lost or refused."""
