"""The invariants in one sentence each, for readers who do not have the specification open.

Answers to the rule names of the Reactive Streams TCK. Invariant: the names and meanings are those of
`spec/history.md`; a name that is not listed here is shown bare, never dropped.
"""

from __future__ import annotations

__all__ = ["OUTCOME_MEANING", "describe_invariant", "title_of"]

_SENTENCES = {
    "V1": ("ordered", "records and watermarks leave in the order in which they came in"),
    "V2": ("within segments", "a record overtakes others only between two watermarks"),
    "V3": ("order per key", "records of one key leave in the order in which they came in"),
    "V4": ("watermarks rise", "no watermark that leaves is lower than one before it"),
    "V5": ("no crossing", "a watermark leaves only when all records before it are resolved"),
    "V6": ("watermarks pass", "a watermark that is ready leaves, and in time"),
    "V7": ("no phantom watermark", "a watermark leaves only if it came in, and as often"),
    "V8": ("exactly once", "each expected output is visible once, with its value, and nothing else is"),
    "V9": ("one effect", "the database shows each effect once"),
    "V10": ("checkpoint cut", "each record before a checkpoint is in it or has left, and none is both"),
    "V11": ("restore", "a restart replays exactly what its checkpoint holds, from the position it names"),
    "V12": ("epochs", "outputs become visible by whole epochs, each once, in order"),
    "V13": ("fencing", "a superseded attempt takes no effect"),
    "V14": ("capacity", "no more than the stated number of elements is in flight"),
    "V15": ("tries and timeouts", "each record has one outcome, in time, within its tries"),
    "V16": ("liveness", "once the faults are gone, the work gets done"),
    "V18": ("checkpoints go on", "checkpoints complete within the stated gap"),
    "V19": ("integrity", "each reply belongs to its own request"),
    "V20": ("errors are visible", "a final failure is reported, dead-lettered or ends the attempt"),
    "V21": ("one thread", "the operator acts on its own thread, between its start and its close"),
    "V23": ("evidence", "each fault left evidence, and enough was observed"),
}

OUTCOME_MEANING = {
    "pass": "nothing in this history breaks it",
    "fail": "this history breaks it; the events are shown",
    "unknown": "the history does not say",
    "vacuous": "nothing happened that could have broken it, so nothing is shown",
    "not-claimed": "does not apply to this operator",
}


def title_of(invariant: str) -> str:
    """Its short name, or nothing where this version does not know it."""
    return _SENTENCES.get(invariant, ("", ""))[0]


def describe_invariant(invariant: str) -> str:
    """What it says, one sentence without a full stop."""
    return _SENTENCES.get(invariant, ("", "not described in this version of Floodmark"))[1]
