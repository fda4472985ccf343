"""A second judge: the page read literally and slowly, on the JSON alone, for all invariants and the verdict.

Shares no code with the checkers, on purpose: `test_two_judges` compares them, for each invariant the outcome and every
anomaly (class, subtask, id or watermark, checkpoint, table, `j`), as often as it is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from harness.checkers.tests import naive_attempts as attempts
from harness.checkers.tests import naive_checkpoints as checkpoints
from harness.checkers.tests import naive_outputs as outputs
from harness.checkers.tests import naive_tables as tables
from harness.checkers.tests import naive_values as values
from harness.checkers.tests.naive_causes import v24
from harness.checkers.tests.naive_notions import Json, Page
from harness.checkers.tests.naive_retries import retries

__all__ = ["Opinion", "opinions", "verdict"]

Told = Counter[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """On one invariant."""

    outcome: str
    anomalies: Told = field(default_factory=Counter)
    shown: frozenset[tuple[Any, ...]] = frozenset()
    """Anomalies that one event shows, each with the `n` of that event."""
    counts: bool = False
    """Whether a `vacuous` counts in the verdict."""


def opinions(lines: list[Json]) -> dict[str, Opinion]:
    """Of a well-formed history."""
    page = Page(lines)
    operator = page.operator
    results = any(e["k"] == "out" for s in page.subtasks for e in page.visible(s))
    marks = bool(page.kind("wm", "owm")) or any(page.marks(s) for s in page.subtasks)
    calls = bool(page.kind("call"))
    keys = any("key" in e for e in page.kind("in"))
    keeps_keys = page.ordered or operator.get("per_key_order", False)
    epochs = page.sink in {"atomic", "two-phase"}
    snaps = any(page.completed_snaps(s) for s in page.subtasks)
    restarts = any(e["from"] is not None for e in page.kind("start"))
    several = any(len(page.attempts(s)) > 1 for s in page.subtasks) or bool(page.kind("rescale"))
    written = page.kind("effect") or any("a" in e for e in page.kind("commit")) or page.tables_of("audit")
    fenced = page.header.get("fenced", True) and written
    gap = page.bounds.get("checkpoint_gap")
    lives = bool(page.kind(*attempts.LIVES))
    unfinished = not page.finished()
    return {
        "V1": _opinion(outputs.v1(page), claimed=page.ordered, exposed=results),
        "V2": _opinion(outputs.v2(page), claimed=not page.ordered and not page.coalesces, exposed=results),
        "V3": _opinion(outputs.v3(page), claimed=keeps_keys and keys, exposed=results),
        "V4": _opinion(outputs.v4(page), exposed=marks),
        "V5": _opinion(outputs.v5(page), exposed=marks),
        "V6": _opinion(
            outputs.v6(page), exposed=marks, pending=unfinished and any(outputs.lost_watermarks(page))
        ),
        "V7": _opinion(outputs.v7(page), exposed=marks),
        "V8": _v8(page, results=results),
        "V9": _v9(page),
        "V10": _opinion(checkpoints.v10(page), exposed=snaps),
        "V11": _opinion(
            checkpoints.v11(page), claimed=restarts or bool(page.kind("rescale")),
            pending=checkpoints.waiting_shares(page),
        ),
        "V12": _opinion(checkpoints.v12(page), claimed=epochs, exposed=snaps or bool(page.kind("commit"))),
        "V13": _opinion(
            checkpoints.v13(page), claimed=bool(fenced), exposed=several, pending=page.not_whole("audit")
        ),
        "V14": _opinion(attempts.v14(page), exposed=calls),
        "V15": _opinion([*attempts.v15(page), *retries(page)], exposed=calls),
        "V16": _opinion(
            attempts.v16(page),
            pending=bool(attempts.excused_giveups(page)) or (unfinished and not page.kind("giveup")),
        ),
        "V18": _opinion(
            checkpoints.v18(page) if gap is not None else (), claimed=gap is not None, exposed=bool(page.kind("start"))
        ),
        "V19": _opinion(attempts.v19(page), claimed=any("nonce" in e for e in page.kind("call", "res"))),
        "V20": _v20(page),
        "V21": _opinion(attempts.v21(page), exposed=lives),
        "V23": _opinion(
            (), claimed="expects" in page.header or bool(page.kind("fault")), exposed=not attempts.shortfalls(page)
        ),
        "V24": _opinion(
            v24(page) if "explained" in page.header else (), claimed="explained" in page.header,
            exposed=bool(page.kind("start")),
        ),
    }  # fmt: skip


def _v8(page: Page, *, results: bool) -> Opinion:
    rows = list(tables.output_rows(page))
    found = [*outputs.v8(page), *values.inconsistent(page), *values.versions(page), *_certain(rows)]
    lost = not page.finished() and any(outputs.lost_outputs(page))
    told = any(page.rows(name) for name in page.tables_of("outputs"))
    opinion = _opinion(
        found, exposed=results or told, pending=lost or page.not_whole("outputs") or bool(rows)
    )
    if not values.without_values(page):
        return opinion
    return replace(opinion, outcome="vacuous" if opinion.outcome == "pass" else opinion.outcome, counts=True)


def _v9(page: Page) -> Opinion:
    rows = list(tables.effect_rows(page))
    lost = page.has_audit() and not page.finished() and any(outputs.lost_effects(page))
    expecting = any(_sized(page.expected(s, record)) for s, record in page.accepted())
    told = any(page.rows(name) for name in page.tables_of("effects"))
    read = page.tables_of("effects") + page.tables_of("audit")
    return _opinion(
        [*(outputs.v9(page) if page.has_audit() else ()), *_certain(rows)],
        claimed=bool(page.kind("effect") or page.header.get("effects") or read),
        exposed=expecting or told,
        pending=lost or page.not_whole("effects") or page.not_whole("audit") or bool(rows),
    )


def _v20(page: Page) -> Opinion:
    rows = list(tables.dead_rows(page))
    told = any(page.rows(name) for name in page.tables_of("dead"))
    return _opinion(
        [*attempts.v20(page), *_certain(rows)],
        exposed=bool(attempts.fails(page)) or told,
        pending=bool(attempts.waiting_failures(page)) or page.not_whole("dead") or bool(rows),
    )


def _certain(suspicions: list[tables.Suspicion]) -> list[outputs.Finding]:
    return [finding for certain, finding in suspicions if certain]


def _sized(outputs_expected: object) -> bool:
    return isinstance(outputs_expected, list) and bool(outputs_expected)


def _opinion(
    findings: Iterable[outputs.Finding], *, claimed: bool = True, exposed: bool = True, pending: bool = False
) -> Opinion:
    if not claimed:
        return Opinion(outcome="not-claimed")
    found = {_full(finding) for finding in findings}
    if found:
        shown = frozenset(finding for finding in found if isinstance(finding[-1], int))
        return Opinion(outcome="fail", anomalies=Counter(finding[:-1] for finding in found), shown=shown)
    return Opinion(outcome="unknown" if pending else "pass" if exposed else "vacuous")


def _full(finding: outputs.Finding) -> outputs.Finding:
    """With a table and `j`, if only none."""
    return finding if len(finding) == 7 else (*finding[:4], None, None, finding[4])


def verdict(lines: list[Json], given: dict[str, Opinion]) -> str:
    """The overall one, of what was said on each invariant."""
    decisive = lines[0].get("decisive")
    counted: list[str] = []
    for name, opinion in given.items():
        named = decisive is not None and name in decisive
        match opinion.outcome:
            case "fail" | "pass":
                counted.append(opinion.outcome)
            case "unknown" if decisive is None or named:
                counted.append("unknown")
            case "vacuous" if named or name == "V23" or opinion.counts:
                counted.append("vacuous")
            case "not-claimed" if named:
                counted.append("vacuous")
            case _:
                pass
    if "fail" in counted or "unknown" in counted:
        return "fail" if "fail" in counted else "unknown"
    took = any(e["k"] in {"in", "wm"} for e in lines[1:])
    return "pass" if counted and "vacuous" not in counted and took else "vacuous"
