"""Planted defects of a task with state by key, timers and two inputs: what each is, and who is meant to convict it.

Answers to mutation testing, as `harness.sut.mutants`. Each shows in a scenario of the catalogue with a `task:`, where
every later record of a key tells what became of its state: so a loss is a wrong value, V8. What each replaces:
`harness.sut.keyed_task.defects`. Invariant: the scenario named here names the defect, too.
"""

from __future__ import annotations

from harness.sut.mutant import Mutant

__all__ = ["KEYED_MUTANTS"]

KEYED_MUTANTS = (
    Mutant(
        number=26,
        name="min-watermark-lost",
        about="of several inputs the highest watermark counts, not the lowest",
        mirrors="FLINK-40517, FLINK-18934",
        convicted_by=("V8",),
        scenario="sessions-of-the-slower-input",
    ),
    Mutant(
        number=None,
        name="snapshot-omits-keyed-state",
        about="a snapshot holds timers and elements, but no keyed state",
        mirrors="an operator whose backend nobody asks",
        convicted_by=("V8",),
        scenario="sessions-at-snapshot",
    ),
    Mutant(
        number=None,
        name="state-one-checkpoint-old",
        about="a checkpoint holds the keyed state of the one before it",
        mirrors="FLINK-26968, a copy with the wrong version",
        convicted_by=("V8",),
        scenario="sessions-after-commit",
    ),
    Mutant(
        number=None,
        name="state-shared-with-snapshot",
        about="a snapshot shares its keyed state with the task, which goes on writing to it",
        mirrors="FLINK-10567, FLINK-26968",
        convicted_by=("V8",),
    ),
    Mutant(
        number=None,
        name="restores-one-state-of-two",
        about="of two states of one operator one is read back, the other begins anew",
        mirrors="FLINK-17218, a state that is registered too late",
        convicted_by=("V8",),
        scenario="sessions-crash-loop",
    ),
    Mutant(
        number=None,
        name="key-group-off-by-one",
        about="the last key group of a range is not restored",
        mirrors="a range that is taken for half open",
        convicted_by=("V8",),
        scenario="sessions-idempotent",
    ),
    Mutant(
        number=None,
        name="timers-lost-on-restore",
        about="timers are saved and not restored",
        mirrors="a session that never ends",
        convicted_by=("V8",),
        scenario="sessions-at-timer",
    ),
    Mutant(
        number=None,
        name="timers-one-checkpoint-old",
        about="a checkpoint holds the timers of the one before it: those that have fired since fire again",
        mirrors="a timer that fires twice after a restore",
        convicted_by=("V8",),
        scenario="sessions-full-queue",
    ),
    Mutant(
        number=None,
        name="snapshot-keeps-deleted-timers",
        about="a timer that was deleted is in the next snapshot, and fires once that is restored",
        mirrors="a deletion that only the heap hears of",
        convicted_by=("V8",),
        scenario="sessions-in-restore",
    ),
    Mutant(
        number=None,
        name="timer-of-another-key",
        about="a timer fires while the key of the last record is still the current one",
        mirrors="a key context that is set for records only",
        convicted_by=("V8",),
        scenario="sessions-calm",
    ),
    Mutant(
        number=None,
        name="snapshot-at-first-barrier",
        about="the snapshot is taken at the first barrier of a checkpoint, before those of other inputs have come",
        mirrors="FLINK-24068, an alignment that does not wait",
        convicted_by=("V10",),
        scenario="sessions-while-aligning",
    ),
)
