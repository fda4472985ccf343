"""The function that explains each class of anomaly.

Answers to Elle's table of anomalies. Invariant: every class of `docs/reference/history.md` is here; an unknown class is
explained by the checker's sentence and its invariant's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.history.verdict import Explanation
from harness.judge.explanation import calls, cuts, effects, life, order, results, retries, rows
from harness.judge.explanation.contradiction import Contradiction

__all__ = ["REASONS"]

Reason = Callable[[Contradiction], Explanation]

REASONS: Mapping[str, Reason] = {
    "reordered": order.reordered,
    "overtook-watermark": order.overtook,
    "key-reordered": order.key_reordered,
    "watermark-back": order.watermark_back,
    "crossed": order.crossed,
    "watermark-lost": order.watermark_lost,
    "held": order.held,
    "phantom-watermark": order.phantom_watermark,
    "repeated-watermark": order.repeated_watermark,
    "after-end": order.after_end,
    "phantom": results.phantom,
    "duplicate": results.duplicate,
    "wrong-value": results.wrong_value,
    "lost": results.lost,
    "row-missing": rows.row_missing,
    "row-doubled": rows.row_doubled,
    "row-foreign": rows.row_foreign,
    "row-altered": rows.row_altered,
    "row-disordered": rows.row_disordered,
    "row-deleted": rows.row_deleted,
    "inconsistent": results.inconsistent,
    "stale": results.stale,
    "future": results.future,
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
    "two-ends": cuts.two_ends,
    "stale-ack": cuts.stale_ack,
    "bad-restore": cuts.bad_restore,
    "restore-differs": cuts.restore_differs,
    "wrong-position": cuts.wrong_position,
    "left-behind": cuts.redistributed,
    "restored-twice": cuts.redistributed,
    "not-stored": cuts.redistributed,
    "shared-partition": cuts.redistributed,
    "committed-twice": effects.committed_twice,
    "commit-order": effects.commit_order,
    "unknown-epoch": effects.unknown_epoch,
    "early-commit": effects.early_commit,
    "never-committed": effects.never_committed,
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
    "retry-missing": retries.retry_missing,
    "retry-early": retries.retry_early,
    "retry-late": retries.retry_late,
    "gave-up-early": retries.gave_up_early,
    "retried-anyway": retries.retried_anyway,
    "stuck": life.stuck,
    "checkpoint-gap": effects.checkpoint_gap,
    "foreign-response": calls.foreign_response,
    "nonce-reused": calls.nonce_reused,
    "swallowed": life.swallowed,
    "double-routed": life.double_routed,
    "foreign-thread": life.foreign_thread,
    "outside-life": life.outside_life,
    "interleaved": life.interleaved,
    "unexplained-failure": life.unexplained_failure,
}
