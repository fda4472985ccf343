"""Every class of anomaly, and what explains it.

Answers to Elle's table of anomalies. Invariant: a class is here if `docs/history.md` has it; one that is not
(a checker newer than this table) is told by its sentence and its invariant's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.explanation.contradiction import Contradiction
from harness.explanation.reasons import calls, cuts, effects, epochs, life, order, results, watermarks
from harness.verdict import Explanation

__all__ = ["REASONS", "Reason"]

Reason = Callable[[Contradiction], Explanation]

REASONS: Mapping[str, Reason] = {
    "reordered": order.reordered,
    "overtook-watermark": order.overtook,
    "key-reordered": order.key_reordered,
    "watermark-back": watermarks.watermark_back,
    "crossed": watermarks.crossed,
    "watermark-lost": watermarks.watermark_lost,
    "held": watermarks.held,
    "phantom-watermark": watermarks.phantom_watermark,
    "repeated-watermark": watermarks.repeated_watermark,
    "after-end": watermarks.after_end,
    "phantom": results.phantom,
    "duplicate": results.duplicate,
    "wrong-value": results.wrong_value,
    "lost": results.lost,
    "double-effect": effects.double_effect,
    "phantom-effect": effects.phantom_effect,
    "wrong-effect": effects.wrong_effect,
    "no-effect": effects.no_effect,
    "missing": cuts.missing,
    "already-out": cuts.already_out,
    "torn": cuts.torn,
    "both-sides": cuts.both_sides,
    "foreign": cuts.foreign,
    "twice": cuts.twice,
    "misordered": cuts.misordered,
    "skipped": cuts.skipped,
    "incomplete": cuts.incomplete,
    "bad-restore": cuts.bad_restore,
    "restore-differs": cuts.restore_differs,
    "wrong-position": cuts.wrong_position,
    "committed-twice": epochs.committed_twice,
    "commit-order": epochs.commit_order,
    "unknown-epoch": epochs.unknown_epoch,
    "early-commit": epochs.early_commit,
    "never-committed": epochs.never_committed,
    "zombie-effect": effects.zombie_effect,
    "zombie-commit": effects.zombie_commit,
    "over-capacity": calls.over_capacity,
    "over-admitted": calls.over_admitted,
    "two-outcomes": calls.two_outcomes,
    "call-after-final": calls.call_after_final,
    "concurrent-call": calls.concurrent_call,
    "tries": calls.tries,
    "early-timeout": calls.early_timeout,
    "late-timeout": calls.late_timeout,
    "out-before-outcome": calls.out_before_outcome,
    "unknown-record": calls.unknown_record,
    "unknown-call": calls.unknown_call,
    "stuck": life.stuck,
    "checkpoint-gap": epochs.checkpoint_gap,
    "foreign-response": calls.foreign_response,
    "nonce-reused": calls.nonce_reused,
    "swallowed": life.swallowed,
    "double-routed": life.double_routed,
    "foreign-thread": life.foreign_thread,
    "outside-life": life.outside_life,
    "interleaved": life.interleaved,
}
