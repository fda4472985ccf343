"""The invariants by id, one sentence each: the one list that scenarios, `list` and reports take them from.

Answers to the tables of `docs/history.md`. Invariant: an id is here if and only if a history can be judged by it,
and has a checker.
"""

from __future__ import annotations

__all__ = ["INVARIANTS", "NOT_ON_A_HISTORY"]

INVARIANTS: dict[str, str] = {
    "V1": "Ordered mode: results leave in the order of their records, and watermarks keep their place.",
    "V2": "Unordered mode: no result leaves before a watermark that came in ahead of its record.",
    "V3": "Results of one key leave in the order of that key's records.",
    "V4": "Watermarks leave in the order in which they came in; none goes back.",
    "V5": "A watermark leaves only after everything that came in ahead of it is resolved.",
    "V6": "Every watermark leaves, and none is held once nothing ahead of it is open.",
    "V7": "A watermark leaves only if it came in, as often as it did, and nothing follows the last one.",
    "V8": "Every record's results are visible in the end, each once, with the right value and time.",
    "V9": "The database shows the effect of every record once: not twice, not missing, not altered.",
    "V10": "A checkpoint cuts cleanly: each element before it has either left or is stored in it.",
    "V11": "A restart goes on from a completed checkpoint, with its elements and its source position.",
    "V12": "An epoch becomes visible whole, once, in order, and only when its checkpoint allows it.",
    "V13": "Once a newer attempt has taken effect, nothing of an older one does.",
    "V14": "No more elements are in flight than the capacity allows, with one more at most waiting to enter.",
    "V15": "Each record's calls end in exactly one outcome, in time, within the allowed tries.",
    "V16": "After the last fault has healed the operator goes on to its end.",
    "V18": "Checkpoints keep completing, however full the queue and however slow the database.",
    "V19": "Every answer belongs to the call that asked for it.",
    "V20": "A record that failed for good fails its task or goes to the dead letters; it is never swallowed.",
    "V21": "Only the task's thread acts, between its start and its close, one record's results at a time.",
    "V23": "Every fault left evidence that it bit, and as much was observed as the scenario asks for.",
}
"""In the order of `floodmark check --format json`."""

NOT_ON_A_HISTORY: dict[str, str] = {
    "V17": "the time to recover is a measurement; it is reported, not judged",
    "V22": "the database's own isolation is judged on a probe's history, not on a run's",
}
"""Numbers of the catalogue that no history can be judged by, and why."""
