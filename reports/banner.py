"""The banner: what broke, for which record and why, in one sentence, and the numbers that a reader checks it by.

Answers to the first line of a test runner's failure. Invariant: a cause is said only if the events of the record show
it; otherwise the sentence is the checker's own. Numbers come from the tables, not from the verdict, so that they can
contradict it, and the banner says so where they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from harness.history.values import brief, visible
from harness.history.verdict import Anomaly, InvariantVerdict, Outcome
from harness.judge.explanation.events import Json, element_ids
from harness.scenario.outcome import RunOutcome
from harness.scenario.symptom import GRAVEST, OF_LOOKUP
from reports.history_view import HistoryView
from reports.losses import MomentLoss, losses_of
from reports.outside_view import OutsideView
from reports.reading import Reading, Tone, counts_towards, read_run, violates

_UNEXPLAINED: Final = "V24"
_SENTENCE_CHARS: Final = 220
"""The longest error or checker's sentence that is shown whole; sentences made here are never cut."""
_END_OF_PART: Final = re.compile(r"(?<=[.!?]) |; ")
_RAISED_CHARS: Final = 140
_RAISED_HEAD_CHARS: Final = 60
_ABSENT: Final = frozenset({"lost", "no-effect", "row-missing"})
"""Without `missing` of a checkpoint (V10), whose record may still be in the table."""
_TAKES_WAS: Final = frozenset({"lost", "taken back", "doubled", "wrong", "never offered", "never done"})
_ODD: Final = ("missing", "doubled", "disordered")
_DAMAGE: Final = {"missing": "lost", "doubled": "doubled", "disordered": "out of order"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One count of the banner; `odd`: a clean run has 0 of it."""

    name: str
    count: int
    odd: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """What stands in the banner beside the verdict."""

    broke: str
    """What broke, for which record and why; empty if nothing did."""
    rest: str
    """Further sentences, which do not repeat it."""
    numbers: tuple[Number, ...]
    contradiction: str
    """What the numbers say against a green verdict; empty if they fit."""


def banner_of(outcome: RunOutcome, view: HistoryView) -> Banner:
    broke = what_broke(outcome, view)
    counts = _of_table(outcome, view.outside) if view.outside is not None else _counted(outcome)
    usual = ("offered", "visible", "missing", "doubled")
    names = (*usual, *(name for name in ("disordered", "dead letters") if counts.get(name)))
    numbers = tuple(_number(name, counts[name]) for name in names if name in counts)
    return Banner(
        broke=broke,
        rest=_rest(outcome) if broke else read_run(outcome).sentence,
        numbers=numbers,
        contradiction=_contradiction(outcome, numbers),
    )


def banner_of_all(banners: Sequence[tuple[RunOutcome, Banner]], headline: Reading, *, whole: bool) -> Banner:
    """The banner over several runs: the first that broke, and the sums of their numbers.

    `whole`: whether these are all runs of the campaign, so that sums mean something.
    """
    if len(banners) == 1 and whole:
        return banners[0][1]
    broken = [(run, told) for run, told in banners if told.broke and read_run(run).tone is Tone.BAD]
    sums: dict[str, int] = {}
    for _, told in banners if whole else ():
        for number in told.numbers:
            sums[number.name] = sums.get(number.name, 0) + number.count
    first = "".join(f"{told.broke} ({run.scenario}, seed {run.seed})" for run, told in broken[:1])
    caught = _caught(banners) if headline.tone is Tone.GOOD else ""
    against = sum(bool(told.contradiction) for run, told in banners if not (caught and run.convicts))
    runs = "1 run is" if against == 1 else f"{against} runs are"
    return Banner(
        broke=first,
        rest=f"{caught}{headline.sentence}",
        numbers=tuple(_number(name, count) for name, count in sums.items()),
        contradiction=f"{runs} green although records are missing, doubled or out of order; each says why."
        if against and headline.tone is Tone.GOOD
        else "",
    )


def _caught(banners: Sequence[tuple[RunOutcome, Banner]]) -> str:
    """What the first planted defect did, that it was caught, and whether its scenario passes without it.

    Empty: none was planted.
    """
    planted = [(run, told) for run, told in banners if run.convicts]
    if not planted:
        return ""
    run, told = planted[0]
    counts = {number.name: number.count for number in told.numbers}
    damage = [f"{counts[name]} {word}" for name, word in _DAMAGE.items() if counts.get(name)]
    offered = f" of {counts['offered']} records" if "offered" in counts else ""
    said = f": {', '.join(damage)}{offered}" if damage else ""
    clean = any(not other.convicts and other.scenario == run.scenario for other, _ in banners)
    without = " Without it the same scenario passes." if clean else ""
    more = f" Caught like it: {len(planted) - 1} more." if len(planted) > 1 else ""
    return f"We planted a bug ({run.mutant}), and it was caught{said}.{without}{more} "


def gravest(outcome: RunOutcome) -> list[InvariantVerdict]:
    """The violated invariants, the gravest first: what the user's own function did, then what touches the rows."""
    raised = OF_LOOKUP.search(outcome.error or "") is not None
    ranks = {name: rank for rank, name in enumerate((_UNEXPLAINED, *GRAVEST) if raised else GRAVEST)}
    violated = outcome.judgement.convicted()
    return sorted(violated, key=lambda one: (bool(one.follows), ranks.get(one.invariant, len(ranks))))


def what_broke(outcome: RunOutcome, view: HistoryView) -> str:
    """What broke, for which record and why: one sentence without its full stop; empty if nothing did."""
    return "".join(_what_broke(outcome, view))


def _what_broke(outcome: RunOutcome, view: HistoryView) -> Iterator[str]:
    told = [v for v in gravest(outcome) if v.anomalies]
    raised = OF_LOOKUP.search(outcome.error or "")
    if raised is not None:
        first = _raised_first(told[0].anomalies[0], view) if told else None
        yield _one_line(_raised(first or raised))
        return
    if outcome.interrupted:
        return
    if told and view.outside is not None:
        kinds = {fault.id: fault.kind for fault in outcome.faults}
        losses = losses_of(outcome.judgement, view.outside, kinds=kinds, origin_us=view.origin_us)
        yield _one_line(_of_loss(losses[0]) if losses else "")
    elif told:
        yield _shortened(
            _of_waiting(outcome, told[0].anomalies[0], view) or _of_anomaly(told[0].anomalies[0], view)
        )
    elif outcome.error:
        yield _shortened(outcome.error)
    else:
        yield _shortened(_undecided(outcome))


_WAITS: Final = frozenset({"nested-acquire", "never-given-back"})
"""Pitfalls for which calls wait until a limit of time passes, whatever the database does."""


def _of_waiting(outcome: RunOutcome, anomaly: Anomaly, view: HistoryView) -> str:
    """The pitfall for which the run stood still, or the record timed out; empty: it is not that."""
    shown = [e for e in view.excerpts.events_of(anomaly) if e["n"] in anomaly.events]
    if anomaly.kind != "stuck" and not any(e.get("r") == "timeout" for e in shown):
        return ""
    found = (f"{pitfall.name}: {pitfall.says}" for pitfall in outcome.pitfalls if pitfall.name in _WAITS)
    return next(found, "")


def _raised(found: re.Match[str]) -> str:
    """`lookup raised KeyError: 13 at record 4, enrich.py:7`."""
    what = " ".join(visible(found["what"]).split())
    if len(what) > _RAISED_CHARS:  # its type, and its end: asyncio says last what is wrong
        what = f"{what[:_RAISED_HEAD_CHARS].rstrip()} … {what[_RAISED_HEAD_CHARS - _RAISED_CHARS :].lstrip()}"
    return f"lookup raised {what} at record {found['record']}, {found['line'].rpartition('/')[2]}"


def _raised_first(anomaly: Anomaly, view: HistoryView) -> re.Match[str] | None:
    """What the lookup raised where an attempt failed for the first time without a cause; None: it is not that."""
    if anomaly.kind != "unexplained-failure":
        return None
    errors = [e.get("error") for e in view.excerpts.events_of(anomaly) if e["k"] == "failed"]
    found = (OF_LOOKUP.search(error) for error in errors if isinstance(error, str))
    return next((match for match in found if match is not None), None)


def _of_anomaly(anomaly: Anomaly, view: HistoryView) -> str:
    raised = _raised_first(anomaly, view)
    if raised is not None:
        return _raised(raised)
    events = view.excerpts.events_of(anomaly)
    if anomaly.id is None or not events:
        return anomaly.say
    if anomaly.kind == "unexplained-failure":
        return _failed_call(anomaly, events) or anomaly.say
    record = f"record {brief(anomaly.id, limit=40)}"
    if anomaly.kind in _ABSENT:
        return _absent(record, anomaly, events)
    if anomaly.kind == "duplicate":
        return _doubled(record, events) or anomaly.say
    if anomaly.kind == "row-doubled":
        rows = [e for e in events if e["k"] == "row" and e["n"] in anomaly.events]
        return f"{record} was doubled: table {brief(anomaly.table, limit=40)} holds {len(rows)} rows of it"
    return anomaly.say if record in anomaly.say else f"{record}: {anomaly.say}"


def _failed_call(anomaly: Anomaly, events: Sequence[Json]) -> str:
    """How the call ended that failed an attempt, and after how long; empty: the history shows no such call."""
    ended = next((e for e in events if e["k"] == "res" and e["n"] in anomaly.events), None)
    if ended is None or ended.get("r") not in {"timeout", "err"}:
        return ""
    whose = tuple(ended.get(name) for name in ("s", "a", "id", "try"))
    began = [e for e in events if e["k"] == "call" and tuple(map(e.get, ("s", "a", "id", "try"))) == whose]
    after = f" after {(ended['t'] - began[-1]['t']) / 1e6:.1f} s" if began else ""
    did = "was not answered in time" if ended["r"] == "timeout" else f"failed with {ended.get('error')}"
    attempt = f"attempt {brief(ended.get('a'), limit=16)} of subtask {brief(ended.get('s'), limit=16)}"
    who = f"the call for record {brief(anomaly.id, limit=40)}"
    return f"{who} {did}{after}, which no fault explains, and failed {attempt}"


def _absent(record: str, anomaly: Anomaly, events: Sequence[Json]) -> str:
    """What happened to a record before it was lost, and the restored snapshot that omits it, if there is one."""
    answered = [e for e in events if e["k"] == "res" and e.get("final") is True and e.get("r") == "ok"]
    called = [e for e in events if e["k"] == "call"]
    did = (
        "accepted, answered"
        if answered
        else ("accepted, never answered" if called else "accepted, never called")
    )
    if not any(e["k"] == "in" for e in events):
        return anomaly.say
    if answered and all(e.get("v") == [] for e in answered):
        return f"the lookup returned nothing for {record}, of which results are expected"
    why = _omitted_by(anomaly.id, events)
    if why:
        return f"{record} was {did} and lost: {why}"
    left = any(e["k"] == "out" for e in events)
    fate = "it left the operator, and no table shows it" if left else "it never left the operator"
    return f"{record} was {did} and lost: {fate}"


def _omitted_by(record: object, events: Sequence[Json]) -> str:
    """The restored snapshot that was taken after the record came in, and does not hold it."""
    taken = next(e for e in events if e["k"] == "in")
    snaps = {e.get("c"): e for e in events if e["k"] == "snap" and e["n"] > taken["n"]}
    for event in events:
        snap = snaps.get(event.get("c")) if event["k"] == "restore" else None
        if snap is None or event["n"] < snap["n"] or record in element_ids(event):
            continue
        if (
            isinstance(snap.get("pos"), int)
            and isinstance(taken.get("pos"), int)
            and snap["pos"] > taken["pos"]
        ):
            left = any(e["k"] == "out" and e["n"] < snap["n"] for e in events)
            return "" if left else f"snapshot {brief(event.get('c'), limit=16)} omits it"
    return ""


def _doubled(record: str, events: Sequence[Json]) -> str:
    """Two emissions of one record, and what lay between them."""
    outs = [e for e in events if e["k"] == "out"]
    twice = [(one, two) for one, two in pairwise(outs) if one.get("j") == two.get("j")]
    if not twice:
        return ""
    one, two = twice[0]
    between = [e for e in events if one["n"] < e["n"] < two["n"]]
    back = next((e for e in between if e["k"] == "restore"), None)
    attempts = f"attempt {one.get('a')} emitted it, and attempt {two.get('a')} again"
    if one.get("a") == two.get("a"):
        attempts = f"attempt {one.get('a')} emitted it twice"
    after = "" if back is None else f" after checkpoint {brief(back.get('c'), limit=16)} was restored"
    return f"{record} was doubled: {attempts}{after}"


def _of_loss(loss: MomentLoss) -> str:
    if not loss.records:
        return f"{loss.word}: {loss.moment}"
    more = loss.count - 1
    if loss.first:
        return f"{loss.first}" + (
            f"; {more} more {loss.noun}s are {loss.word}" if (more := loss.count - 1) else ""
        )
    who = f"record {loss.records[0]}" + (f" and {more} more" if more else "")
    if loss.word in _TAKES_WAS:
        return f"{who} {'were' if more else 'was'} {loss.word}: {loss.moment}"
    return f"{who}: {loss.word}, {loss.moment}"


def _undecided(outcome: RunOutcome) -> str:
    """The first invariant that keeps the verdict open, and why."""
    if read_run(outcome).tone is not Tone.OPEN:
        return ""
    worst = outcome.judgement.outcome
    for verdict in outcome.judgement.invariants:
        if verdict.outcome is worst and verdict.why and counts_towards(outcome, verdict):
            return f"{verdict.invariant} is {verdict.outcome}: {verdict.why.splitlines()[-1]}"
    return ""


def _one_line(sentence: str) -> str:
    return " ".join(visible(sentence).split()).rstrip(".")


def _shortened(sentence: str) -> str:
    """One line; if it is cut, then after a sentence, a clause or at least a word."""
    line = _one_line(sentence)
    if len(line) <= _SENTENCE_CHARS:
        return line
    head, least = line[:_SENTENCE_CHARS], _SENTENCE_CHARS // 2
    ends = [found.start() for found in _END_OF_PART.finditer(head, least)] or [head.rfind(" ", least)]
    return (head[: ends[-1]] if ends[-1] > 0 else head).rstrip() + " …"


def _rest(outcome: RunOutcome) -> str:
    """What the reading of the run says beside the sentence of what broke."""
    if outcome.convicts:
        return read_run(outcome).sentence
    lines = [violates(outcome)] if outcome.judgement.convicted() else []
    if outcome.error:
        lines.append("It stopped early.")
    if read_run(outcome).tone is Tone.OPEN:
        lines.append("That is not a pass.")
    lines += [f"Threshold crossed: {threshold.says}." for threshold in outcome.crossed]
    lines += [outcome.values] if outcome.values else []
    lines += [f"Pitfall {pitfall.name}: {pitfall.says}" for pitfall in outcome.pitfalls]
    return " ".join(lines)


def _number(name: str, count: int) -> Number:
    return Number(name=name, count=count, odd=name in _ODD and count > 0)


def _counted(outcome: RunOutcome) -> Mapping[str, int]:
    beside = outcome.accounting
    found = {name: beside[name] for name in ("offered", *_ODD) if name in beside}
    if "offered" not in found and "records" in outcome.judgement.accounting:
        found["offered"] = outcome.judgement.accounting["records"]
    visible_records = next((beside[name] for name in ("records", "distinct", "rows") if name in beside), None)
    if visible_records is not None:
        found["visible"] = visible_records
    return {**found, "dead letters": beside.get("dead_letters", 0)}


def _of_table(outcome: RunOutcome, outside: OutsideView) -> Mapping[str, int]:
    kinds = [a.kind for v in outcome.judgement.convicted() for a in v.anomalies]
    found = {"offered": len(outside.offers_us)}
    if "table 1" in outside.counted:
        found["visible"] = outside.counted["table 1"]
    if any(
        v.invariant == "V8" and v.outcome in {Outcome.PASS, Outcome.FAIL}
        for v in outcome.judgement.invariants
    ):
        found["missing"] = sum(kind in {"lost", "deleted"} for kind in kinds)
        found["doubled"] = kinds.count("duplicate")
    return {**found, "dead letters": outside.counted.get("dead 1", 0)}


def _contradiction(outcome: RunOutcome, numbers: Sequence[Number]) -> str:
    """What a reader of a green banner must know of its numbers; empty if they fit it."""
    odd = [f"{number.count} {number.name}" for number in numbers if number.odd]
    if not odd or read_run(outcome).tone is not Tone.GOOD:
        return ""
    counts = ", ".join(odd)
    if outcome.convicts:
        return f"Green means that the planted defect was found. Its damage is real: {counts}."
    verdict = next((v.outcome for v in outcome.judgement.invariants if v.invariant == "V8"), None)
    judged = verdict or "not judged"
    return f"The tables do not look like those of a clean run: {counts}. V8 (exactly once) is {judged}."
