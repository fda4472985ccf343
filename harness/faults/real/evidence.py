"""The evidence of faults at real levels: what the run recorded while a fault was on, and what is found in it.

Answers to the part of a Jepsen history between two nemesis operations, and to a packet capture beside a test.
Everything in it was written down by a witness (an attempt, the proxy, the fault itself); a plan is never
evidence, and a fault that did not act has nothing to be found. A deed of the proxy is logged when done, with
the machine's monotonic clock. Of server faults only errors that clients wrote down count, from the moment the
fault began to act. Few delayed chunks are no evidence; without a log nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from harness.history.follower import TimedCall

__all__ = [
    "GONE",
    "NOTICE_US",
    "Deed",
    "DeedsRead",
    "Evidence",
    "Found",
    "Line",
    "Loss",
    "Seen",
    "acts",
    "attempt_of",
    "client_errors",
    "deed_of",
    "delayed_chunks",
    "fact",
    "fastest_ms",
    "from_its_beginning",
    "is_speech",
    "loss_evidence",
    "measurements",
    "median_ms",
    "reaped_code",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One thing that the proxy did to a connection, from its log; several alike may be told as one."""

    t_us: int
    did: str
    """`held`, `swallowed`, `cut`, `reset`, `refused`, `stalled`, `delayed`, `sliced`, `paced`, `limited`, ..."""
    toxic: str = ""
    """Empty: no toxic's doing, but the link's (it was disabled, or cut)."""
    connection: int = 0
    stream: str = ""
    """`upstream` or `downstream`."""
    bytes: int = 0
    packets: int = 0
    ms: int = 0
    command: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the log says of it."""

    def line(self) -> dict[str, Any]:
        """As JSON, from which `deed_of` makes it again; what is empty is left out."""
        told = {name: getattr(self, name) for name in _OWN if getattr(self, name)}
        return {"t": self.t_us, **told, **self.more}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeedsRead:
    """A part of a proxy's log."""

    deeds: Sequence[Deed]
    next: int
    """What to ask for next (`after`)."""
    lost: int = 0
    """How many had fallen out of the log before they could be read."""


_OWN = ("did", "toxic", "connection", "stream", "bytes", "packets", "ms", "command")


def deed_of(line: Mapping[str, Any]) -> Deed:
    """A deed from the proxy's JSON."""
    told = {name: line[name] for name in _OWN if line.get(name) is not None}
    more = {name: value for name, value in line.items() if name not in (*_OWN, "t", "n")}
    return Deed(t_us=int(line["t"]), more=more, **told)


Evidence = dict[str, Any]

Loss = tuple[int, str, int | str]
"""When (microseconds), over which link, with which error code."""

NOTICE_US = 500_000
"""How long after healing a client may take to notice what became of its connection or its statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of one fault, from `armed_us` to `healed_us`; what lies around that time is there to compare."""

    armed_us: int
    healed_us: int
    arming_us: int | None = None
    """When arming began, from when on it may have done something; None: no sooner than `armed_us`."""
    calls: Sequence[TimedCall] = ()
    """Of the whole run, over both links."""
    losses: Sequence[Loss] = ()
    """Each connection that was lost or refused, in the whole run."""
    errors: Sequence[Loss] = ()
    """Each error that a client met, losses among them, in the whole run."""
    deeds: Sequence[Deed] | None = None
    """What the proxy did on the fault's account; None: it keeps no log, or the fault is not the proxy's."""
    found: Sequence[Mapping[str, Any]] = ()
    """What the fault itself saw."""
    events: Sequence[Mapping[str, Any]] = ()
    """Every line of the run; none while it still runs."""

    def fact(self, what: str) -> Mapping[str, Any] | None:
        """The first that the fault itself saw of that kind."""
        return next((fact for fact in self.found if fact["what"] == what), None)

    def over(self, link: str) -> Seen:
        """Of one link only."""
        return replace(
            self,
            calls=[call for call in self.calls if call.link == link],
            losses=[loss for loss in self.losses if loss[1] == link],
            errors=[error for error in self.errors if error[1] == link],
        )

    def during(self) -> list[TimedCall]:
        """Calls that began under the fault."""
        return [call for call in self.calls if self.armed_us <= call.began_us < self.healed_us]

    def inside(self) -> list[TimedCall]:
        """Calls that began and ended under the fault: all of each happened to it."""
        return [
            call for call in self.during() if call.ended_us is not None and call.ended_us <= self.healed_us
        ]

    def waiting(self) -> list[TimedCall]:
        """Calls that had begun and had no outcome yet when the fault healed."""
        begun = (call for call in self.calls if call.began_us < self.healed_us)
        return [call for call in begun if call.ended_us is None or call.ended_us > self.healed_us]

    def timed_out(self) -> int:
        """How many calls timed out that the fault may have kept waiting.

        The answer may have been on its way when the fault was armed, and its call may have given up after the end.
        """
        begun = (call for call in self.calls if call.began_us < self.healed_us and call.ending == "timeout")
        return sum(1 for call in begun if call.ended_us is not None and call.ended_us >= self._since_us)

    def before(self) -> list[TimedCall]:
        """Calls that had ended when the fault was armed."""
        return [call for call in self.calls if call.ended_us is not None and call.ended_us < self.armed_us]

    def after(self) -> list[TimedCall]:
        """Calls that began when the fault had healed."""
        return [call for call in self.calls if call.began_us >= self.healed_us]

    def losses_during(self, *, grace_us: int = 0) -> list[int | str]:
        """Codes of connections that were lost under the fault, or within the grace after it."""
        return [loss[2] for loss in self.losses if self._is_inside(loss[0], grace_us)]

    def errors_during(self, *codes: int | str, grace_us: int = 0) -> list[int | str]:
        """Those of `codes` (all, if none is named) that clients met under the fault, or within the grace after it."""
        met = [error[2] for error in self.errors if self._is_inside(error[0], grace_us)]
        return [code for code in met if not codes or code in codes]

    def did(self, *dids: str, stream: str = "") -> list[Deed]:
        """The proxy's deeds of these sorts, of one direction if it is named."""
        return [
            deed for deed in self.deeds or () if deed.did in dids and (not stream or deed.stream == stream)
        ]

    def _is_inside(self, at_us: int, grace_us: int) -> bool:
        return self._since_us <= at_us <= self.healed_us + grace_us

    @property
    def _since_us(self) -> int:
        """When it may have begun to act."""
        return self.armed_us if self.arming_us is None else self.arming_us


def median_ms(calls: Sequence[TimedCall]) -> float | None:
    """The median length of those that ended; None if none did."""
    lengths = [call.took_ms for call in calls if call.took_ms is not None]
    return median(lengths) if lengths else None


def fastest_ms(calls: Sequence[TimedCall]) -> float | None:
    """The shortest length of those that ended; None if none did."""
    return min((call.took_ms for call in calls if call.took_ms is not None), default=None)


def loss_evidence(seen: Seen, *, grace_us: int = 0) -> Evidence:
    """How many connections were lost or refused under the fault, by error code."""
    lost = seen.losses_during(grace_us=grace_us)
    codes = Counter(str(code) for code in lost)
    return {"connections_lost": len(lost), "codes": dict(sorted(codes.items()))} if lost else {}


Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One fault as the run recorded it; times are the recorders' microseconds."""

    began_us: int
    measured_us: int | None = None
    """When what shows that it bit was recorded; None: nothing shows it."""
    ended_us: int | None = None
    """None: it had not ended when the run was over."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Empty: nothing shows that it bit."""


def acts(fault: str, lines: Sequence[Line]) -> list[Line]:
    """The notes of what `fault` did inside attempts."""
    return [line for line in lines if line["k"] == "~acted" and line["f"] == fault]


def measurements(fault: str, lines: Sequence[Line]) -> Iterator[Line]:
    """The notes of what attempts measured of `fault`."""
    return (line for line in lines if line["k"] == "~measured" and line["f"] == fault)


def is_speech(line: Line) -> bool:
    """Whether an attempt itself wrote `line`; its `kill` is the harness's word."""
    return "a" in line and line["k"] != "kill"


def attempt_of(pid: int, started: int, lines: Sequence[Line]) -> tuple[int, int] | None:
    """The subtask and the attempt that a process was, the last one of it."""
    own = [
        line for line in lines if line["k"] == "~process" and (line["pid"], line["started"]) == (pid, started)
    ]
    return (own[-1]["s"], own[-1]["a"]) if own else None


def reaped_code(subtask: int, attempt: int, lines: Sequence[Line]) -> int | None:
    """How the process of an attempt ended, as whoever reaped it says; None: nobody says."""
    process = next(
        (line for line in lines if line["k"] == "~process" and (line["s"], line["a"]) == (subtask, attempt)),
        None,
    )
    if process is None:
        return None
    ends = (line for line in lines if line["k"] == "~reaped" and line["pid"] == process["pid"])
    return next((line["code"] for line in ends if line["t"] >= process["t"]), None)


GONE: tuple[int | str, ...] = (
    0, 1053, 1152, 1927, 2003, 2006, 2013, 2055, 4031,
    "BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "ConnectionResetError",
    "IncompleteReadError",
)  # fmt: skip
"""How clients tell that their connection is gone, or could not be had."""


def fact(seen: Seen, name: str) -> Any:
    """The last of what the fault itself found under this name; None if it found nothing so."""
    return next((facts[name] for facts in reversed(seen.found) if name in facts), None)


def from_its_beginning(seen: Seen) -> Seen:
    """The same, from when the fault began to act (its fact `began_us`)."""
    began_us = fact(seen, "began_us")
    return seen if began_us is None else replace(seen, armed_us=min(seen.armed_us, began_us))


def client_errors(seen: Seen, codes: Iterable[int | str], *, grace_us: int = 0) -> dict[str, int]:
    """How often clients met which of these errors since the fault began to act; by code, in their order."""
    met = from_its_beginning(seen).errors_during(*codes, grace_us=grace_us)
    return dict(sorted(Counter(str(code) for code in met).items()))


_CHUNKS_MIN = 5


def delayed_chunks(seen: Seen, *, stream: str) -> Evidence | None:
    """What the proxy's log says of delays in that direction; nothing without a log, None if it shows too few."""
    if seen.deeds is None:
        return {}
    late = [deed for deed in seen.did("delayed", stream=stream) if deed.ms > 0]
    chunks = sum(int(deed.more.get("chunks", 1)) for deed in late)
    if chunks < _CHUNKS_MIN:
        return None
    return {
        "bytes_delayed": sum(deed.bytes for deed in late),
        "connections_delayed": len({deed.connection: None for deed in late}),
        "chunks_delayed": chunks,
        "longest_delay_ms": max(deed.ms for deed in late),
    }
