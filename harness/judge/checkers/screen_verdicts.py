"""The screen's verdicts: for each invariant that it does not suspect, the verdict its exact checker would give.

Invariant: only `pass`, `vacuous` and `not-claimed` come from here. To decide `not-claimed`, the checker itself is
run on a tiny specimen history with the same features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from traceback import format_exc
from typing import Any, Final, NamedTuple

from harness.history.event import Call, Commit, Effect, Event, FaultEvent, In, Start
from harness.history.header import Expects, Header
from harness.history.verdict import InvariantVerdict, Outcome
from harness.judge.checkers.evidence import evidence_found
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Findings, Invariant, settle
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.screen import Screen
from harness.judge.checkers.screen.totals import Irregular

_BY_NAME: Mapping[str, Invariant] = {checker.name: checker for checker in CHECKERS}
SCREENED: Final = frozenset(
    {
        *("V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13"),
        *("V14", "V15", "V16", "V18", "V19", "V20", "V21", "V23", "V24"),
    }
)
"""The invariants that the screen knows, those of `_Grounds`; others are always judged exactly, on the whole history."""
_KNOWN = frozenset(type(checker) for checker in CHECKERS if checker.name in SCREENED)
_WITHOUT_CALLS = frozenset({"V1", "V2", "V3", "V4", "V5", "V7", "V8"})
"""Invariants whose checkers look at no `call`: at inputs, outcomes, emissions, snaps and commits only."""
_SPECIMENS_MAX = 256
_VERDICTS_MAX = 4096


class ScreenVerdicts(NamedTuple):
    """The verdicts that the screen can give, and its counts."""

    verdicts: Mapping[str, InvariantVerdict]
    """By name, of the invariants that certainly hold or do not apply."""
    accounting: Mapping[str, int]
    took_anything: bool


class NotScreened(NamedTuple):
    """The screen gives no verdict; the exact checkers judge the whole history."""

    warnings: tuple[str, ...] = ()
    """The traceback if the screen itself failed; empty if the history was merely irregular."""


def screen_history(
    header: Header, batches: Iterable[Sequence[Event]], *, checkers: Sequence[Invariant]
) -> ScreenVerdicts | NotScreened:
    """Run the screen over a history, in one pass. Exceptions that `batches` raises are passed on."""
    screen = Screen(header, asks_of_calls=not {checker.name for checker in checkers} <= _WITHOUT_CALLS)
    for events in batches:
        declined = _declined(partial(screen.feed, events))
        if declined is not None:
            return declined
    found: list[ScreenVerdicts] = []

    def conclude() -> None:
        screen.finish()
        found.append(acquit(screen, checkers))

    return _declined(conclude) or found[0]


def _declined(step: Callable[[], object]) -> NotScreened | None:
    try:
        step()
    except Irregular:
        return NotScreened()
    except Exception:  # noqa: BLE001  (a defect of the screen must cost time, not a verdict)
        return NotScreened((f"the screen failed, so everything was judged exactly:\n{format_exc()}",))
    return None


def acquit(screen: Screen, checkers: Sequence[Invariant]) -> ScreenVerdicts:
    """The verdicts of a screen whose `finish` has run."""
    account = screen.account
    outs, owms = map(sum, zip(*(strand.visible() for strand in screen.strands.values()), strict=True))
    accounting = _accounting(screen, outs, owms)
    seen = _Grounds(screen, outs)
    reasons = _not_claimed(_claims(account.header), seen.features)
    verdicts = {
        checker.name: _verdict(checker.name, reasons[checker.name], *seen.by_name[checker.name])
        for checker in checkers
        if type(checker) in _KNOWN and checker.name not in account.suspected
    }
    if "V23" in verdicts and not reasons["V23"]:
        expects = account.header.expects or Expects()
        counts = {name: accounting[name] for name in ("records", "checkpoints", "restores")}
        verdicts["V23"] = settle(_BY_NAME["V23"], [evidence_found(account.faults, expects, **counts)])
    return ScreenVerdicts(
        verdicts, accounting, took_anything=accounting["records"] + accounting["watermarks"] > 0
    )


class ScreenEvidence(NamedTuple):
    """What a screen whose `finish` has run saw of each invariant, whether suspected or not; picklable."""

    findings: Mapping[str, Findings]
    reasons: Mapping[str, str]
    """Why an invariant does not apply; empty if it does."""
    accounting: Mapping[str, int]
    completed: frozenset[int]
    """The numbers of the completed checkpoints."""


def screen_evidence(screen: Screen) -> ScreenEvidence:
    """The counts of one screen, to be added to those of others; of suspected invariants they say nothing certain."""
    outs, owms = map(sum, zip(*(strand.visible() for strand in screen.strands.values()), strict=True))
    seen = _Grounds(screen, outs)
    return ScreenEvidence(
        findings={name: Findings(observed=o, exposed=e) for name, (o, e) in seen.by_name.items()},
        reasons=_not_claimed(_claims(screen.account.header), seen.features),
        accounting=_accounting(screen, outs, owms),
        completed=frozenset(screen.account.completed),
    )


@lru_cache(maxsize=_VERDICTS_MAX)
def _verdict(name: str, reason: str, observed: int, exposed: bool) -> InvariantVerdict:  # noqa: FBT001
    """Cached: verdicts are frozen, and many short histories get equal ones."""
    if reason:
        return InvariantVerdict(invariant=name, outcome=Outcome.NOT_CLAIMED, why=reason)
    return settle(_BY_NAME[name], [Findings(observed=observed, exposed=exposed)])


class _Features(NamedTuple):
    """What in the events, besides the header, decides whether an invariant applies."""

    keyed: bool
    restarts: bool
    effects: bool
    named_commits: bool
    asked: bool
    faults: bool


class _Grounds:
    """Observed count and exposure of each invariant that the screen knows, from its counters."""

    def __init__(self, screen: Screen, outs: int) -> None:
        account, strands = screen.account, screen.strands.values()
        effects, faults = screen.rows.count, len(account.faults)
        rows = screen.tables.count
        in_outputs, in_effects, in_dead = rows("outputs"), rows("effects"), rows("dead")
        self.features = _Features(
            keyed=account.keyed,
            restarts=account.restarts > 0,
            effects=effects > 0,
            named_commits=account.named_commits > 0,
            asked=bool(account.nonces),
            faults=faults > 0,
        )
        atomic = account.header.sink == "atomic"
        completions = account.completed_snaps if atomic else len(account.completed)
        acts = account.calls + account.answers + account.outs + account.owms + account.snaps
        marks = account.watermarks > 0
        cuts = account.completed_snaps
        self.by_name: Mapping[str, tuple[int, bool]] = {
            **dict.fromkeys(("V1", "V2", "V3"), (outs, outs > 0)),
            "V8": (outs + in_outputs, outs + in_outputs > 0),
            **dict.fromkeys(("V4", "V5", "V7"), (account.owms, marks)),
            "V6": (account.watermarks, marks),
            "V9": (effects + in_effects, outs + in_effects > 0),
            "V10": (cuts, cuts > 0),
            "V11": (account.restarts, True),
            "V12": (account.commits, account.commits + cuts > 0),
            "V13": (account.commits + effects, any(strand.attempts > 1 for strand in strands)),
            **dict.fromkeys(("V14", "V15"), (account.calls, account.calls > 0)),
            "V16": (0, True),
            "V18": (completions, True),
            "V19": (account.answers, True),
            "V20": (account.failures + in_dead, account.failures + in_dead > 0),
            "V21": (acts, acts > 0),
            "V23": (faults, True),
            "V24": (account.incidents, True),
        }


def _accounting(screen: Screen, outs: int, owms: int) -> dict[str, int]:
    account, strands = screen.account, screen.strands.values()
    return {
        "events": screen.events,
        "subtasks": len(strands),
        "attempts": sum(strand.attempts for strand in strands),
        "records": sum(strand.source.high for strand in strands) - account.watermarks,
        "watermarks": account.watermarks,
        "outputs": outs,
        "output_watermarks": owms,
        "checkpoints": len(account.completed),
        "restores": account.restores,
        "effects": screen.rows.count,
        "faults": sum(fault.phase == "begin" for fault in account.faults),
    }


@lru_cache(maxsize=_SPECIMENS_MAX)
def _not_claimed(claims: tuple[Any, ...], features: _Features) -> Mapping[str, str]:
    """For each invariant, by name, why it does not apply; empty if it does."""
    operator, sink, effects, fenced, tables, bounds, expects, explained, barrier_every = claims
    header = Header(
        operator=operator, sink=sink, effects=effects, fenced=fenced, tables=dict(tables), bounds=bounds,
        expects=expects, explained=explained, barrier_every=barrier_every,
    )  # fmt: skip
    case = IndexedHistory(Trace(header).extend(_specimen(features)))
    return {checker.name: checker.not_claimed(case) for checker in CHECKERS}


def _claims(header: Header) -> tuple[Any, ...]:
    """The hashable parts of a header that decide which invariants apply: the key of the cache."""
    limits = header.bounds, header.expects, header.explained, header.barrier_every
    tables = tuple((header.tables or {}).items())
    return header.operator, header.sink, header.effects, header.fenced, tables, *limits


def _specimen(features: _Features) -> Iterator[Event]:
    """Events that show exactly these features."""
    yield Start(n=1, t=0, s=0, a=1, from_=0 if features.restarts else None, pos=0)
    if features.keyed:
        yield In(n=2, t=0, s=0, a=1, pos=0, id=0, key=0)
    if features.asked:
        yield Call(n=3, t=0, s=0, a=1, id=0, try_=1, nonce=0)
    if features.named_commits:
        yield Commit(n=4, t=0, s=0, c=0, a=1)
    if features.effects:
        yield Effect(n=5, t=0, s=0, id=0, token=1, seq=1)
    if features.faults:
        yield FaultEvent(n=6, t=0, f="", phase="begin")
