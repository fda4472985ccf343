"""The canaries of a session: each takes the way of a run at its level, from what is recorded to the verdict.

Answers to the self-test of a smoke detector before it is trusted. Invariant: a session whose harness overlooks a
canary, condemns an honest history or counts its rows wrongly ends with an error of the harness, never with a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from harness.engine.level import RunRecord
from harness.engine.perform import judged
from harness.history.verdict import Outcome
from harness.judge.canaries.canary import Canary, canaries, is_found
from harness.system.errors import BlindHarness, HarnessError

Carry = Callable[[Canary], RunRecord]
"""Takes a canary along the way of a level's runs, up to the judge."""

_NAMED_MAX: Final = 8
"""Most canaries that an error names."""


def refuse_overlooked(carry: Carry, *, level: str) -> None:
    """Raises BlindHarness, with their names, if the harness does not say of each canary what it must."""
    missed = []
    shown = canaries("operator")
    for canary in shown:
        try:
            record = carry(canary)
            is_judged_right = is_found(canary, judged(record))
            if not (record.whole and is_judged_right and _is_counted(canary, record.accounting)):
                missed.append(canary.name)
        except HarnessError as error:
            missed.append(f"{canary.name} ({error.what})")
    honest_rows = next(canary for canary in shown if canary.name == "honest rows")
    refuse_blindness([*missed, *_overlooked_in(carry(honest_rows))], level=level)


def _overlooked_in(honest: RunRecord) -> Iterator[str]:
    """Names of what is overlooked beside an honest history: a gap in its recording, a count that contradicts it."""
    if judged(replace(honest, whole=False)).outcome is Outcome.PASS:
        yield "of a recording with a gap"
    with suppress(HarnessError):
        judged(replace(honest, accounting={**honest.accounting, "doubled": 1}))
        yield "of a count that contradicts the verdict"


def refuse_blindness(missed: list[str], *, level: str) -> None:
    """Raises BlindHarness if `missed`, the names of the canaries that were overlooked at `level`, is not empty."""
    if missed:
        more = f" and {len(missed) - _NAMED_MAX} more" if len(missed) > _NAMED_MAX else ""
        message = (
            f"the harness is blind at level {level}: it overlooks the canaries {', '.join(missed[:_NAMED_MAX])}{more},"
            " so none of its verdicts counts"
        )
        raise BlindHarness(message, fix="please report it; no run was judged")


def _is_counted(canary: Canary, accounting: Mapping[str, int]) -> bool:
    """Whether the counts are those of its rows; a way without a database has none."""
    tables = canary.header.get("tables", {})
    rows = [line for line in canary.events if line["k"] == "row"]
    outputs = Counter((row["id"], row["j"]) for row in rows if row["table"] == "output")
    counts: dict[str, int] = {}
    if "output" in tables and "output" not in canary.unread:
        counts |= {
            "rows": outputs.total(),
            "records": len({record for record, _ in outputs}),
            "doubled": sum(count > 1 for count in outputs.values()),
        }
    if "dead_letter" in tables:
        counts["dead_letters"] = sum(row["table"] == "dead_letter" for row in rows)
    return not accounting or all(accounting.get(name) == count for name, count in counts.items())
