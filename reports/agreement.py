"""Whether what a command says agrees with what was judged: its files, its printed lines and its exit code (T9).

Answers to double-entry bookkeeping: everything is read back as its readers get it, and compared with the judgement of
each run and with the history beside the report. Invariant: a contradiction is a defect of the harness, never a result.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from harness.history.verdict import Outcome
from harness.scenario.outcome import CountedRun, RunOutcome
from harness.system.errors import Exit, HarnessError, HistoryError
from harness.system.json_types import JsonView
from reports.run_document import load_document
from reports.sweep_strip import strips_of

_GOOD: Final = frozenset({"conformant", "defect convicted", "as expected"})
_SIGN: Final = "✓"
_HEADLINE: Final = re.compile(r"^([✓✗?]) [A-Z][A-Z ]+  ", re.MULTILINE)
_HEADLINE_IN: Final = {
    "summary.md": re.compile(r"\A## .*: (.*)$", re.MULTILINE),
    "index.html": re.compile(r'<p class="word">.*</span> (.*)</p>'),
}
_EVENT: Final = re.compile(
    rb'\{"n":\d+,"t":\d+,"k":"(\w+)"(?:,"table":"(\w+)"|,"f":"[^"]*","phase":"(\w+)")?'
)
_JSON: Final = ".jsonl"


def refuse_other_files(
    folder: Path, outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun] = ()
) -> None:
    """Raises HarnessError if a file of the report in `folder` says something else than the judgements."""
    document = folder / "run.json"
    try:
        load_document(document)
    except HistoryError as error:
        _refuse([error.what])
    told = json.loads(document.read_bytes())
    said = [f"run.json {words}" for words in _of_document(told, outcomes, counted)]
    if not said:
        said = [f"junit.xml {words}" for words in _of_junit(folder / "junit.xml", told, outcomes, counted)]
    for name, headline in _HEADLINE_IN.items():
        found = headline.search((folder / name).read_text(encoding="utf-8", errors="replace"))
        if found is None or found[1] != told["reading"]:
            said.append(f"the headline of {name} is not `{told['reading']}`, as in run.json")
    _refuse(said)
    for run in told["runs"]:
        _refuse([f"the history of run {run['run_id']} {words}" for words in _of_history(folder, run)])


def refuse_other_document(
    text: str, outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun] = ()
) -> None:
    """Raises HarnessError if a printed document says something else than the judgements."""
    _refuse([f"the printed document {words}" for words in _of_document(json.loads(text), outcomes, counted)])


def refuse_other_lines(
    printed: str, outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun] = ()
) -> None:
    """Raises HarnessError if the headlines printed for the runs, in order, are not those of their judgements.

    Where all went as expected, a few may stand for all. Of a sweep those that its strip tells may be left out. The last
    one is of all runs, if they were `counted` or swept.
    """
    signs = [match[1] == _SIGN for match in _HEADLINE.finditer(printed)]
    good = [_is_good(outcome) for outcome in outcomes]
    each_is_told = signs[: len(good)] == good or bool(signs and all(signs) and all(good))
    is_swept = not each_is_told and bool(strips_of(outcomes))
    shown = signs[:-1]
    if not each_is_told and not (is_swept and _is_part(shown, good) and all(shown) == all(good)):
        _refuse(["the printed headlines do not say which runs went as expected"])
    whole = [_was_good(run) for run in counted] or (good if is_swept else [])
    if len(whole) > 1 and f"  {len(whole)} runs: {sum(whole)} as expected, " not in printed:
        _refuse([f"the printed total is not that of all {len(whole)} runs"])


def _is_part(some: Sequence[bool], whole: Sequence[bool]) -> bool:
    """Whether `some` are left if others are taken out of `whole`."""
    left = iter(whole)
    return all(one in left for one in some)


def refuse_other_exit(code: Exit, outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun] = ()) -> None:
    """Raises HarnessError if the command's exit code hides a violation, or a run that did not go as expected."""
    good = all(map(_is_good, outcomes)) and all(map(_was_good, counted))
    if (code is Exit.HOLD and not good) or (
        code not in {Exit.VIOLATION, Exit.INTERNAL} and any(map(_is_violated, outcomes))
    ):
        _refuse([f"the exit code is {int(code)}, though not every run went as expected"])


def _refuse(said: Sequence[str]) -> None:
    if said:
        raise HarnessError("; ".join(said), fix="please report it, with the report's folder")


# --------------------------------------------------------------------------- what the judgement itself says


def _failed(outcome: RunOutcome) -> set[str]:
    return {verdict.invariant for verdict in outcome.judgement.invariants if verdict.outcome is Outcome.FAIL}


def _is_good(outcome: RunOutcome) -> bool:
    """Whether the run went as expected, by the verdicts on the invariants, and what else makes it fail."""
    if (outcome.fails_on_pitfall and outcome.pitfalls) or _is_too_slow(outcome):
        return False
    if not outcome.convicts:
        return outcome.judgement.outcome is Outcome.PASS and not _failed(outcome)
    vacuous = any(v.invariant == "V23" and v.outcome is Outcome.VACUOUS for v in outcome.judgement.invariants)
    return bool(_failed(outcome) & set(outcome.convicts)) or (vacuous and "V23" in outcome.convicts)


def _is_too_slow(outcome: RunOutcome) -> bool:
    """Whether a threshold that counts was crossed."""
    return not outcome.convicts and any(threshold.verdict == "crossed" for threshold in outcome.thresholds)


def _is_violated(outcome: RunOutcome) -> bool:
    if (outcome.fails_on_pitfall and outcome.pitfalls) or _is_too_slow(outcome):
        return True
    return bool(_failed(outcome)) and not outcome.convicts


def _was_good(run: CountedRun) -> bool:
    return run.as_expected and not run.falls and (run.mutant is not None or run.verdict is Outcome.PASS)


# ---------------------------------------------------------------------------------- what is said instead


def _of_document(
    told: JsonView, outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun]
) -> Iterator[str]:
    """`told["runs"]` are some of the outcomes, `told["counted"]` are all runs."""
    made = {outcome.run_id: outcome for outcome in outcomes}
    shown = [run["run_id"] for run in told["runs"]]
    if [name for name in made if name in set(shown)] != shown or bool(outcomes) > bool(shown):
        yield "holds other runs than were made"
        return
    for run in told["runs"]:
        yield from (f"of run {run['run_id']} {words}" for words in _of_run(run, made[run["run_id"]]))
    rows = [
        (row["scenario"], row["mutant"], row["seed"], row["verdict"], row["as_expected"])
        for row in told["counted"]
    ]
    if rows != list(_rows(outcomes, counted)):
        yield "lists other runs than were made, or with other verdicts"
    all_good = all(row[-1] for row in rows) and told["asked"] == len(rows)
    if (told["reading"] in _GOOD) > all_good:
        yield f"says `{told['reading']}` over runs that did not go as expected"


def _rows(
    outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun]
) -> Iterator[tuple[str, str | None, int, str, bool]]:
    """Each run with its verdict and whether it went as expected."""
    for run in counted:
        yield run.scenario, run.mutant, run.seed, str(run.verdict), _was_good(run)
    for outcome in () if counted else outcomes:
        verdict = str(outcome.judgement.outcome)
        yield outcome.scenario, outcome.mutant, outcome.seed, verdict, _is_good(outcome)


def _of_run(run: JsonView, outcome: RunOutcome) -> Iterator[str]:
    judgement, good = outcome.judgement, _is_good(outcome)
    if _failed(outcome) and judgement.outcome is not Outcome.FAIL:
        yield f"is judged {judgement.outcome}, though an invariant is violated"
    if (run["verdict"], run["seed"]) != (str(judgement.outcome), outcome.seed):
        yield f"says {run['verdict']} of seed {run['seed']}, not {judgement.outcome} of seed {outcome.seed}"
    if {run["as_expected"], run["reading"] in _GOOD} != {good}:
        yield f"says `{run['reading']}`, which is not its judgement"
    verdicts = {verdict["invariant"]: verdict["verdict"] for verdict in run["invariants"]}
    if verdicts != {verdict.invariant: str(verdict.outcome) for verdict in judgement.invariants}:
        yield "has other verdicts on the invariants"
    if (run["accounting"], run["counts"]) != (dict(outcome.accounting), dict(judgement.accounting)):
        yield "has other counts"


def _of_junit(
    path: Path, told: JsonView, outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun]
) -> Iterator[str]:
    """A suite for each run shown in full, then suites with a case for each other run."""
    suites = ET.parse(path).getroot().findall("testsuite")  # noqa: S314  our own file
    made = {outcome.run_id: outcome for outcome in outcomes}
    shown = [made[run["run_id"]] for run in told["runs"]]
    red = [any(map(_is_red, suite.iter("testcase"))) for suite in suites[: len(shown)]]
    rest = [
        case
        for suite in suites[len(shown) :]
        for case in suite.iter("testcase")
        if case.get("classname") != "campaign"
    ]
    rows = list(_rows(outcomes, counted))
    bad_rest = Counter(row[:3] for row in rows if not row[-1])
    bad_rest -= Counter((run.scenario, run.mutant, run.seed) for run in shown)
    if red != [not _is_good(outcome) for outcome in shown] or sum(map(_is_red, rest)) != bad_rest.total():
        yield "is not red where a run did not go as expected"
    not_run = sum(case.find("skipped") is not None for case in rest)
    if len(shown) + len(rest) - not_run != len(rows):
        yield "holds other runs than were made"


def _is_red(case: ET.Element) -> bool:
    return any(case.find(kind) is not None for kind in ("failure", "error"))


def _of_history(folder: Path, run: JsonView) -> Iterator[str]:
    """Contradictions between a run's history, counted line by line, and the counts beside its verdict."""
    stored = run["history"]
    if stored is None or not stored["file"].endswith(_JSON):
        return
    kinds: Counter[tuple[bytes, bytes]] = Counter()
    with (folder / stored["file"]).open("rb") as file:
        header = json.loads(next(file))["run"]
        for line in file:
            if (event := _EVENT.match(line)) is not None:
                kinds[event[1], event[2] or event[3] or b""] += 1
    if (header["scenario"], header["seed"], header["mutant"]) != (
        run["scenario"],
        run["seed"],
        run["mutant"],
    ):
        yield f"is that of {header['scenario']}, seed {header['seed']}"
    counts, rows = run["counts"], kinds[b"row", b"output"]
    found = {
        "events": kinds.total(),
        "attempts": kinds[b"start", b""],
        "effects": kinds[b"effect", b""],
        "faults": kinds[b"fault", b"begin"],
        **({"outputs": rows} if kinds[b"read", b"output"] and run["verdict"] == Outcome.PASS else {}),
    }
    for name, count in found.items():
        if counts.get(name, count) != count:
            yield f"has {count} {name}, the report says {counts[name]}"
    if kinds[b"read", b"output"] and run["accounting"].get("rows", rows) != rows:
        yield f"has {rows} rows, the report says {run['accounting']['rows']}"
