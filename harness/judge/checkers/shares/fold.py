"""The fold: from what is seen and found of each share to the judgement of the whole history.

Answers to `conclude` over views that lie on different machines. Invariant: the judgement equals that of
`harness.judge.checkers.judge.judge_file` on the whole; where shares alone cannot decide (a record in two subtasks, a
row of another subtask's record, an error in the format), the whole is read on one machine.

One share as the exact checkers judge it: a suspected subtask by itself, in the memory that its events take.

Invariant: the findings are those of the same checkers on the whole history, because a `SubtaskView` depends on its
own subtask and on the coordinator's events only; a finding that needs another subtask is flagged, not guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Final, Protocol, TypeVar

from msgspec import UNSET

from harness.history.event import Abort, Call, Done, Event, FaultEvent, GiveUp, Res
from harness.history.header import Expects
from harness.history.read import open_text
from harness.history.strict_json import integers_of_any_length
from harness.history.text import header_line, line_of
from harness.history.values import identity
from harness.history.verdict import InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.evidence import evidence_found
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Findings, Invariant, in_full, settle
from harness.judge.checkers.judge import Malformed, accounting_of, judgement_of, uncollected
from harness.judge.checkers.liveness import Liveness
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.account import US_PER_MS
from harness.judge.checkers.screen.totals import Distinct
from harness.judge.checkers.screen_verdicts import SCREENED
from harness.judge.checkers.shares.seen import SharedEvents, ShareSeen, by_number

_ACROSS_SHARES: Final = frozenset({"V9", "V13", "V19"})
"""Invariants whose findings across all subtasks are the sum of those in each share; of V9 and V19 see `foreign`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFound:
    """The findings of one share that travel to the fold."""

    s: int
    malformed: bool = False
    """Whether the share breaks the format, so that the whole is read again to name every breach."""
    findings: Mapping[str, Findings] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why an invariant does not apply to this share; empty if it does."""
    foreign: frozenset[str] = frozenset()
    """Invariants for the whole to decide: this share shows something of another one, or the checker failed."""
    accounting: Mapping[str, int] = field(default_factory=dict)
    completed: frozenset[int] = frozenset()
    ids: Distinct = field(default_factory=Distinct)
    nonces: Distinct = field(default_factory=Distinct)


def examine_share(
    s: int,
    around: SharedEvents,
    batches: Iterable[Sequence[Event]],
    *,
    names: Collection[str],
    finished: bool,
) -> ShareFound:
    """Judge one share by the checkers of `names`; `finished`: whether every subtask of the history has ended."""
    own = list(chain.from_iterable(batches))
    with uncollected(), integers_of_any_length():
        lines = map(line_of, sorted([*own, *around.told_to(s)], key=by_number))
        reader = open_text(b"".join((header_line(around.header), *lines)))
        for _ in reader.events():
            pass
        if reader.breaches:  # of the rules between events, inside the share
            return ShareFound(s=s, malformed=True)
        trace = Trace(around.header).extend(sorted([*own, *around.told], key=by_number))
        trace.last = around.last
        case = IndexedHistory(trace)
        vars(case)["finished"] = finished  # a property of all subtasks, computed on first use
        return _found(s, case, [checker for checker in CHECKERS if checker.name in names])


def _found(s: int, case: IndexedHistory, checkers: Sequence[Invariant]) -> ShareFound:
    findings: dict[str, Findings] = {}
    foreign = set[str]()
    for checker in checkers:
        try:
            found = sum((checker.examine(view) for view in case.views), Findings())
            across = checker.across(case) if checker.name in _ACROSS_SHARES else Findings()
            found += across
            findings[checker.name] = replace(found, anomalies=tuple(in_full(found.anomalies)))
        except Exception:  # noqa: BLE001  (on the whole, the judge says how the checker failed)
            foreign.add(checker.name)
    if any(effect.id not in case.owner for effect in case.trace.effects):
        foreign.add("V9")
    if any(anomaly.kind == "phantom" for anomaly in findings.get("V8", Findings()).anomalies):
        foreign.add("V8")  # another share may have taken the record in
    own = {identity(call.nonce) for call in _calls(case)}
    answers = (event for event in _of_attempts(case) if isinstance(event, Res) and event.nonce is not UNSET)
    if any(identity(answer.nonce) not in own for answer in answers):
        foreign.add("V19")  # it may be another share's
    return ShareFound(
        s=s,
        findings=findings,
        reasons={checker.name: checker.not_claimed(case) for checker in CHECKERS},
        foreign=frozenset(foreign),
        accounting=accounting_of(case),
        completed=frozenset(c for view in case.views for c in view.checkpoints.distinct),
        ids=_distinct(case.owner),
        nonces=_distinct(call.nonce for call in _calls(case)),
    )


def _calls(case: IndexedHistory) -> Iterator[Call]:
    """The calls that have a nonce."""
    for event in _of_attempts(case):
        if isinstance(event, Call) and event.nonce is not UNSET:
            yield event


def _of_attempts(case: IndexedHistory) -> Iterator[Event]:
    for view in case.views:
        for attempt in view.subtask.attempts.values():
            yield from attempt.events


def _distinct(values: Iterable[object]) -> Distinct:
    """Of values each of which counts once, however often this share has it."""
    found = Distinct()
    found.pending.extend({identity(value): value for value in values}.values())
    return found


_T = TypeVar("_T")

Whole = Callable[[Sequence[Invariant]], Judgement | Malformed]
"""Judges the whole history by these checkers, on one machine."""

_NEVER_LOCAL: Final = frozenset({"V16", "V18", "V23", "V24"})
"""Invariants that no share decides, or of which a share's suspicion says nothing (V18: with sink `atomic` it does).
Nor does a share decide an invariant that the screen does not know.
"""


class Shares(Protocol):
    """A history whose shares lie somewhere."""

    def around(self) -> SharedEvents | None:
        """What shares are told; None: the events are not in order, or not all of them can be given to a share."""

    def see(self, around: SharedEvents) -> Iterable[ShareSeen]:
        """What the screen sees of each share, in the order of their subtasks."""

    def examine(
        self, around: SharedEvents, names: Mapping[int, Collection[str]], *, finished: bool
    ) -> Iterable[ShareFound]:
        """What the exact checkers of these names find in these shares, in the order of their subtasks."""


def judge_shares(shares: Shares, whole: Whole, *, checkers: Sequence[Invariant]) -> Judgement | Malformed:
    """Judge a history in shares, and by `whole` what they cannot decide."""
    around = shares.around()
    if around is None:
        return whole(checkers)
    header = around.header
    of_checkpoints = header.barrier_every or header.keeps or header.fixed_source
    of_values = header.tables or header.expect_from is not None or header.by_key or header.versions
    if of_checkpoints or of_values:
        return whole(checkers)  # one share does not show these
    if header.bounds.service_after is not None:
        return whole(checkers)  # V16 counts the outcomes of all
    seen = list(shares.see(around))
    fold = _Fold(around, seen, checkers)
    if not fold.can_go_on():
        return whole(checkers)
    fold.found = {found.s: found for found in shares.examine(around, fold.suspects(), finished=fold.finished)}
    if any(found.malformed for found in fold.found.values()) or not fold.records_differ():
        return whole(checkers)
    undecided = fold.undecided()
    rest: Mapping[str, InvariantVerdict] = {}
    if undecided:
        judged = whole([checker for checker in checkers if checker.name in undecided])
        if isinstance(judged, Malformed):
            return judged
        rest = {verdict.invariant: verdict for verdict in judged.invariants}
    return fold.judgement(rest)


class _Fold:
    """The summaries of all shares. Mutable: `found` is filled after the first pass."""

    def __init__(
        self, around: SharedEvents, seen: Sequence[ShareSeen], checkers: Sequence[Invariant]
    ) -> None:
        self.around = around
        self.seen = seen
        self.found: dict[int, ShareFound] = {}
        """By subtask, of those that had to be examined exactly."""
        self._checkers = checkers
        self._names = {checker.name for checker in checkers}
        self._unknown = frozenset(self._names - SCREENED)
        self._atomic = around.header.sink == "atomic"
        attempts = [share.ended for share in seen if share.ended is not None]
        self.finished = bool(attempts) and all(attempts)
        """As `IndexedHistory.finished`."""

    def can_go_on(self) -> bool:
        """Whether any subtask started, and digests of different machines can be compared."""
        started = any(share.ended is not None for share in self.seen)
        return started and len({share.hashed for share in self.seen}) == 1

    def suspects(self) -> Mapping[int, Collection[str]]:
        """The shares to examine exactly, each with the invariants that the screen could not decide there."""
        found = {share.s: self._suspected(share) for share in self.seen}
        return {s: names for s, names in found.items() if names is not None}

    def _suspected(self, share: ShareSeen) -> Collection[str] | None:
        """None: the screen has decided all that a share can decide."""
        never = self._unknown | (_NEVER_LOCAL - {"V18"} if self._atomic else _NEVER_LOCAL)
        if share.grounds is None:
            return self._names - never
        return (share.suspected & self._names) - never or None

    def records_differ(self) -> bool:
        """Whether no record is in two shares, and no number of a row; if so, the format is broken."""
        ids = [self.found[share.s].ids if share.grounds is None else share.ids for share in self.seen]
        return _all_different(ids) and _all_different([share.seqs for share in self.seen])

    def undecided(self) -> frozenset[str]:
        """The invariants that only the whole history can decide."""
        names = set(self._unknown).union(*(found.foreign for found in self.found.values()))
        nonces = [self._nonces(share) for share in self.seen]
        irregular = any(share.grounds is None for share in self.seen)
        if not _all_different(nonces):
            names.add("V19")
        if irregular or any("V24" in share.suspected for share in self.seen):
            names.add("V24")
        if self._told(GiveUp):
            names |= {"V16", "V24"}
        if {event.c for event in self._told(Done)} & {event.c for event in self._told(Abort)}:
            names.add("V10")
        if self.around.header.effects is None and any(share.seqs for share in self.seen):
            names.add("V9")  # rows of one subtask make the claim for the records of all
        if not self._gaps_are_short():
            names.add("V18")
        claimed = {name for name in names & self._names if not self._not_claimed(name)}
        return frozenset(claimed)

    def _nonces(self, share: ShareSeen) -> Distinct:
        return self.found[share.s].nonces if share.s in self.found else share.nonces

    def _told(self, kind: type[_T]) -> list[_T]:
        return [event for event in self.around.told if isinstance(event, kind)]

    def _gaps_are_short(self) -> bool:
        """Whether checkpoints of the job certainly follow each other within the bound of V18."""
        bound_ms = self.around.header.bounds.checkpoint_gap
        if bound_ms is None or self._atomic:
            return True
        starts = [share.first_start_t for share in self.seen if share.first_start_t is not None]
        ends = [share.last_end_t for share in self.seen if share.last_end_t is not None]
        dones = self._told(Done)
        if any(later.c <= before.c for before, later in pairwise(dones)):
            return False
        until = max(ends) if self.finished and ends else self.around.last.t
        times = [min(starts), *(done.t for done in dones), until]
        return all(0 <= later - before <= bound_ms * US_PER_MS for before, later in pairwise(times))

    def _not_claimed(self, name: str) -> str:
        """Why an invariant does not apply; empty if it applies to any share."""
        shares = [self.found[share.s] if share.grounds is None else share.grounds for share in self.seen]
        reasons = [share.reasons[name] for share in shares]
        return "" if "" in reasons else reasons[0]

    def judgement(self, rest: Mapping[str, InvariantVerdict]) -> Judgement:
        """The judgement of the whole; `rest`: the verdicts that the whole had to decide."""
        counts = self._accounting()
        verdicts = {
            checker.name: rest.get(checker.name) or self._verdict(checker, counts)
            for checker in self._checkers
        }
        return judgement_of(
            self.around.header,
            verdicts,
            took_anything=counts["records"] + counts["watermarks"] > 0,
            accounting=counts,
            warnings=[warning for share in self.seen for warning in share.warnings],
        )

    def _accounting(self) -> dict[str, int]:
        """The counts of all shares; what every share was told is counted once."""
        summed = Counter[str]()
        done = set[int]() if self._atomic else {event.c for event in self._told(Done)}
        order: Mapping[str, int] = {}
        for share in self.seen:
            given = self.found[share.s] if share.grounds is None else share.grounds
            order = given.accounting
            summed.update(given.accounting)
            done |= given.completed
        faults = sum(fault.phase == "begin" for fault in self._told(FaultEvent))
        once = {"events": self.around.events, "checkpoints": len(done), "faults": faults}
        return {name: once.get(name, summed[name]) for name in order}

    def _verdict(self, checker: Invariant, counts: Mapping[str, int]) -> InvariantVerdict:
        name = checker.name
        if reason := self._not_claimed(name):
            return InvariantVerdict(invariant=name, outcome=Outcome.NOT_CLAIMED, why=reason)
        match name:
            case "V16":
                return settle(checker, [self._liveness()])
            case "V18" if not self._atomic:
                return settle(checker, [Findings(observed=len(self._told(Done)), exposed=True)])
            case "V23":
                expects = self.around.header.expects or Expects()
                due = {name: counts[name] for name in ("records", "checkpoints", "restores")}
                return settle(checker, [evidence_found(self._told(FaultEvent), expects, **due)])
        return settle(checker, [self._findings(share, name) for share in self.seen])

    def _findings(self, share: ShareSeen, name: str) -> Findings:
        found = self.found.get(share.s)
        if found is not None and name in found.findings:
            return found.findings[name]
        assert share.grounds is not None, f"{name} of an irregular share is found exactly"
        return share.grounds.findings[name]

    def _liveness(self) -> Findings:
        """Without any `giveup`: whether the run has finished."""
        case = IndexedHistory(Trace(self.around.header))
        vars(case)["finished"] = self.finished
        return Liveness().across(case)


def _all_different(parts: Sequence[Distinct]) -> bool:
    """Whether no value is in two of them, nor twice in one."""
    merged = Distinct()
    for part in parts:
        merged.merge(part)
    return merged.all_different()
