"""The invariants by a short name, and what an outcome means, for readers without the specification at hand.

Answers to the rule names of the Reactive Streams TCK. Invariant: ids and sentences are those of
`harness.invariants`; a name that is not listed there is shown bare, never dropped.
"""

from __future__ import annotations

from harness.invariants import INVARIANTS

__all__ = ["OUTCOME_MEANING", "TITLES", "describe_invariant", "title_of"]

TITLES: dict[str, str] = {
    "V1": "ordered",
    "V2": "within segments",
    "V3": "order per key",
    "V4": "watermarks rise",
    "V5": "no crossing",
    "V6": "watermarks pass",
    "V7": "no phantom watermark",
    "V8": "exactly once",
    "V9": "one effect",
    "V10": "checkpoint cut",
    "V11": "restore",
    "V12": "epochs",
    "V13": "fencing",
    "V14": "capacity",
    "V15": "tries and timeouts",
    "V16": "liveness",
    "V18": "checkpoints go on",
    "V19": "integrity",
    "V20": "errors are visible",
    "V21": "one thread",
    "V23": "evidence",
}
"""Two or three words each, for tables and headings."""

OUTCOME_MEANING = {
    "pass": "nothing in this history breaks it",
    "fail": "this history breaks it; the events are shown",
    "unknown": "the history does not say",
    "vacuous": "nothing happened that could have broken it, so nothing is shown",
    "not-claimed": "does not apply to this operator",
}


def title_of(invariant: str) -> str:
    """Its short name, or nothing where this version does not know it."""
    return TITLES.get(invariant, "")


def describe_invariant(invariant: str) -> str:
    """What it says, one whole sentence."""
    return INVARIANTS.get(invariant, "Not described in this version of Floodmark.")
