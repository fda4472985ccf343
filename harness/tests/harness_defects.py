"""Defects of the harness itself, each planted in one of its parts (T9): none may end in a pass.

They are no `Defect`: what judges is what is wrong, so the verdict of a run cannot show them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from harness.database import audit, stored_tables
from harness.database.simulated import statements
from harness.database.simulated.tables import SimulatedTables
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.database.stored_tables import ROWS_OF, counting
from harness.engine import attempt, canaries_in_world, findings, in_world, perform, reading
from harness.engine import run as running
from harness.faults.real import evidence
from harness.faults.real.witnesses import CLIENTS, PROXY
from harness.history import merge as merging
from harness.history.event import Event, In, Out
from harness.history.journal import Journal
from harness.history.recorder import Recorder
from harness.history.verdict import InvariantVerdict, Outcome
from harness.judge.checkers import judge as judging
from harness.judge.checkers.invariant import conclude, settle
from harness.judge.checkers.judge import overall
from harness.judge.checkers.screen_verdicts import ScreenVerdicts
from harness.levels.sim import canaries as sim_canaries
from harness.levels.sim import fault_schedule, place
from harness.levels.sim import level as sim_level
from harness.levels.sim import run as sim_run
from harness.scenario import claims
from harness.scenario.claims import AUDIT, OUTPUTS
from harness.scenario.workloads import lookups
from harness.system import choices

Plant = Callable[[pytest.MonkeyPatch], None]


# --------------------------------------------------------------------------------------------- recorder


def forgets_repeated_outputs(patch: pytest.MonkeyPatch) -> None:
    """The recorder drops an output that it has written before, and numbers on without a gap."""
    for recorder in (MemoryRecorder, Recorder):
        patch.setattr(recorder, "event", _forgetting(recorder.event))


def _forgetting(honest: Callable[..., None]) -> Callable[..., None]:
    written: dict[tuple[Any, ...], None] = {}

    def event(self: Any, kind: Any, **fields: Any) -> None:
        name = (id(self), fields.get("id"), fields.get("j"))
        if kind is Out and name in written:
            return
        if kind is Out:
            written[name] = None
        honest(self, kind, **fields)

    return event


# ------------------------------------------------------------------------------------------------ merge


def loses_the_last_file(patch: pytest.MonkeyPatch) -> None:
    """The merge reads all files of a run but the last one of the attempts."""
    honest = merging.read_leftovers

    def lossy(folder: Path) -> merging.Leftovers:
        last = max(folder.glob("subtask-*.jsonl"))
        last.rename(last.with_suffix(".away"))
        return honest(folder)

    for module in (in_world, canaries_in_world):
        patch.setattr(module, "read_leftovers", lossy)


def reorders_lines(patch: pytest.MonkeyPatch) -> None:
    """The merge sorts the outputs of each attempt by their records."""
    honest = merging.merge

    def sorting(leftovers: merging.Leftovers, **parts: Any) -> list[Event]:
        outs = [line for line in leftovers.lines if isinstance(line, Out)]
        in_order = iter(sorted(outs, key=lambda line: (line.s, line.a, line.id, line.j)))
        lines = tuple(
            msgspec.structs.replace(next(in_order), t=line.t) if isinstance(line, Out) else line
            for line in leftovers.lines
        )
        return honest(replace(leftovers, lines=lines), **parts)

    patch.setattr(reading, "merge", sorting)


# ------------------------------------------------------------------------------------------ audit, rows


def skips_the_audit(patch: pytest.MonkeyPatch) -> None:
    """The audit is not read."""
    without = {table: query for table, query in ROWS_OF.items() if table != "audit"}
    patch.setattr(place, "ROWS_OF", without)
    patch.setattr(reading, "ROWS_OF", without)


def invents_the_audit(patch: pytest.MonkeyPatch) -> None:
    """The rows of the audit are those of the outputs."""
    audit_rows, output_rows = ROWS_OF[AUDIT], ROWS_OF[OUTPUTS]

    def selecting(tables: SimulatedTables, query: str) -> Sequence[Sequence[Any]]:
        return statements.select(tables, output_rows if query == audit_rows else query)

    patch.setattr(place, "select", selecting)


def invents_rows(patch: pytest.MonkeyPatch) -> None:
    """The rows of the outputs are made of the audit's; the table is not looked at."""
    honest = audit.read_table

    def of_the_audit(tables: Any, table: str, take: Any) -> int:
        return honest(tables, "audit" if table == "output" else table, take)

    patch.setattr(reading, "read_table", of_the_audit)


# ----------------------------------------------------------------------------------------------- counts


def invents_counts(patch: pytest.MonkeyPatch) -> None:
    """A count that looks good is not asked of the database."""
    select, count_rows = statements.select, audit.count_rows

    def constant(tables: Any, query: str) -> Any:
        return [(0,)] if query == counting(ordered=False)["doubled"] else select(tables, query)

    def flattering(tables: Any, *, ordered: bool) -> Mapping[str, int]:
        return {**count_rows(tables, ordered=ordered), "doubled": 0}

    patch.setattr(place, "select", constant)
    patch.setattr(reading, "count_rows", flattering)


# ----------------------------------------------------------------------------- expectations, the screen


def forgets_expectations(patch: pytest.MonkeyPatch) -> None:
    """No record is told with the results that it must have."""
    patch.setattr(attempt, "_expectation", lambda *_: None)


def forgets_every_other_expectation(patch: pytest.MonkeyPatch) -> None:
    """Every second record is told without them."""
    honest: Any = attempt._expectation
    numbers = count()

    def forgetful(*parts: Any) -> Any:
        expect = honest(*parts)
        return lambda lookup: None if next(numbers) % 2 else expect(lookup)

    patch.setattr(attempt, "_expectation", forgetful)


def loses_expectations(patch: pytest.MonkeyPatch) -> None:
    """The merge drops what was recorded as expected."""
    honest = merging.read_leftovers

    def lossy(folder: Path) -> merging.Leftovers:
        leftovers = honest(folder)
        lines = (
            msgspec.structs.replace(line, expect=UNSET) if isinstance(line, In) else line
            for line in leftovers.lines
        )
        return replace(leftovers, lines=tuple(lines))

    patch.setattr(in_world, "read_leftovers", lossy)


def acquits_everything(patch: pytest.MonkeyPatch) -> None:
    """The screen acquits whatever it is shown."""

    def acquit(header: Any, batches: Any, *, checkers: Sequence[Any]) -> ScreenVerdicts:
        verdicts = {
            checker.name: InvariantVerdict(invariant=checker.name, outcome=Outcome.PASS)
            for checker in checkers
        }
        return ScreenVerdicts(verdicts=verdicts, accounting={}, took_anything=True)

    patch.setattr(judging, "screen_history", acquit)


# -------------------------------------------------------------------------------------- evidence, seeds


def invents_evidence(patch: pytest.MonkeyPatch) -> None:
    """A fault that shows nothing is given evidence."""
    tell_end, time_of = fault_schedule.ActingHere._tell_end, findings._time

    def telling(self: Any) -> None:
        honest = self.act
        self.act = _Boasting(honest)
        try:
            tell_end(self)
        finally:
            self.act = honest

    def boasting(*parts: Any) -> Any:
        time = time_of(*parts)
        return time if time.evidence else replace(time, evidence={"acted": True})

    patch.setattr(fault_schedule.ActingHere, "_tell_end", telling)
    patch.setattr(findings, "_time", boasting)


class _Boasting:
    def __init__(self, act: Any) -> None:
        self._act = act

    def evidence(self) -> Mapping[str, Any]:
        return self._act.evidence() or {"acted": True}


def ignores_the_seed(patch: pytest.MonkeyPatch) -> None:
    """Every stream of choices is that of seed 1."""
    honest = choices.Draw.__init__
    patch.setattr(choices.Draw, "__init__", lambda self, _, purpose: honest(self, 1, purpose))


def follows_no_seed(patch: pytest.MonkeyPatch) -> None:
    """Every stream of choices differs from all before."""
    honest, numbers = choices.Draw.__init__, count()
    patch.setattr(choices.Draw, "__init__", lambda self, _, purpose: honest(self, next(numbers), purpose))


def runs_another_seed(patch: pytest.MonkeyPatch) -> None:
    """The level runs every order with seed 1."""
    honest = sim_run.simulate_scenario
    patch.setattr(
        sim_level, "simulate_scenario", lambda order, **parts: honest(replace(order, seed=1), **parts)
    )


def plans_another_seed(patch: pytest.MonkeyPatch) -> None:
    """The workers of a run get a plan with seed 1."""
    honest = running.plan_of
    patch.setattr(in_world, "plan_of", lambda run: msgspec.structs.replace(honest(run), seed=1))


def draws_another_source(patch: pytest.MonkeyPatch) -> None:
    """The records of every run are those of seed 1; the rest follows the seed."""
    honest = lookups.LookupSource.__init__

    def drawing(self: Any, *, seed: int, **parts: Any) -> None:
        honest(self, seed=1, **parts)

    patch.setattr(lookups.LookupSource, "__init__", drawing)


# ------------------------------------------------- values, kinds of events, what the judge is shown


def clips_values(patch: pytest.MonkeyPatch) -> None:
    """Texts are cut, in what is recorded as in what is expected and read."""
    written, stored_value = Journal.event, stored_tables.stored_value

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cut(part) for name, part in value.items()}
        return [cut(part) for part in value] if isinstance(value, list) else _cut_text(value)

    def event(self: Journal, kind: Any, **fields: Any) -> None:
        texts = {name: cut(fields[name]) for name in ("v", "expect") if name in fields}
        written(self, kind, **fields | texts)

    patch.setattr(Journal, "event", event)
    for module in (place, reading):
        patch.setattr(module, "stored_value", lambda text: cut(stored_value(text)))


def _cut_text(value: Any) -> Any:
    return value[:100] if isinstance(value, str) else value


def drops_rows_without_a_value(patch: pytest.MonkeyPatch) -> None:
    """A row whose value is null is not read."""
    select, read_table = statements.select, audit.read_table

    def selecting(tables: Any, query: str) -> Any:
        return [row for row in select(tables, query) if row[-1] != "null"]

    def reading_some(root: Any, table: str, take: Any) -> int:
        taken = count()

        def taking(row: Any) -> None:
            if row.text != "null":
                next(taken)
                take(row)

        read_table(root, table, taking)
        return next(taken)

    patch.setattr(place, "select", selecting)
    patch.setattr(reading, "read_table", reading_some)


def drops_what_the_coordinator_notes(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements and aborted checkpoints are not recorded."""
    patch.setattr(Tape, "note", lambda self, kind, **fields: None)


def shows_one_subtask(patch: pytest.MonkeyPatch) -> None:
    """Checkers examine the first subtask only."""

    def concluding(invariant: Any, case: Any) -> InvariantVerdict:
        if invariant.not_claimed(case):
            return conclude(invariant, case)
        return settle(invariant, [invariant.examine(case.views[0]), invariant.across(case)])

    patch.setattr(judging, "conclude", concluding)


def counts_what_is_decisive(patch: pytest.MonkeyPatch) -> None:
    """A violation counts only of an invariant that the header names."""

    def lenient(verdicts: Any, *, decisive: Any, **more: Any) -> Outcome:
        named = [one for one in verdicts if decisive is None or one.invariant in decisive]
        return overall(named, decisive=decisive, **more)

    patch.setattr(judging, "overall", lenient)


def takes_unknown_for_pass(patch: pytest.MonkeyPatch) -> None:
    """A verdict that is unknown counts as a pass."""

    def lenient(*parts: Any, **more: Any) -> Outcome:
        outcome = overall(*parts, **more)
        return Outcome.PASS if outcome is Outcome.UNKNOWN else outcome

    patch.setattr(judging, "overall", lenient)


def sees_no_gap(patch: pytest.MonkeyPatch) -> None:
    """A recording is whole whatever is missing."""
    honest = merging.read_leftovers
    for module in (sim_run, sim_canaries):
        patch.setattr(module, "missing_of", lambda tape: 0)
    for module in (in_world, canaries_in_world):
        patch.setattr(module, "read_leftovers", lambda folder: replace(honest(folder), missing=0))


def compares_no_counts(patch: pytest.MonkeyPatch) -> None:
    """The counts by SQL are compared with nothing."""
    patch.setattr(perform, "hold_together", lambda *_: None)


# ------------------------------------------------------------------------- claims and expectations


def claims_less(patch: pytest.MonkeyPatch) -> None:
    """The header claims ten times the capacity."""
    honest = claims.header_of

    def lenient(order: Any, **rest: Any) -> Mapping[str, Any]:
        header = honest(order, **rest)
        operator = {**header["operator"], "capacity": 10 * header["operator"]["capacity"]}
        return {**header, "operator": operator}

    for module in (sim_run, in_world):
        patch.setattr(module, "header_of", lenient)


def claims_no_values(patch: pytest.MonkeyPatch) -> None:
    """The header does not claim that each record is told with its results."""
    patch.setattr(claims, "_expect_from", lambda order, expected: {})


def expects_what_came(patch: pytest.MonkeyPatch) -> None:
    """What is expected of a record is what the operator answered, here a tier too high."""
    honest: Any = attempt._expectation

    def obliging(*parts: Any) -> Any:
        expect = honest(*parts)
        return lambda lookup: [{**value, "tier": value["tier"] + 1} for value in expect(lookup)]

    patch.setattr(attempt, "_expectation", obliging)


def counts_nothing(patch: pytest.MonkeyPatch) -> None:
    """SQL is asked for no count."""
    patch.setattr(sim_level, "count_tables", lambda tables, *, ordered: {})
    patch.setattr(reading, "count_rows", lambda root, *, ordered: {})


# ------------------------------------------------------------------------------- evidence of a fault


def counts_what_was_before(patch: pytest.MonkeyPatch) -> None:
    """A fault's evidence is looked for from the beginning of the run on."""
    honest: Any = evidence.Seen

    def early(**parts: Any) -> Any:
        return honest(**{**parts, "armed_us": 0, "arming_us": 0})

    patch.setattr(findings, "Seen", early)


def trusts_one_witness(patch: pytest.MonkeyPatch) -> None:
    """Whoever saw a fault, two witnesses are told."""
    patch.setattr(findings, "witnesses_of", lambda *_, **__: (PROXY, CLIENTS))


IN_SIMULATION: Mapping[str, tuple[Plant, str]] = {
    "recorder": (forgets_repeated_outputs, "V8 duplicate"),
    "audit, skipped": (skips_the_audit, "V9"),
    "audit, invented": (invents_the_audit, "V9"),
    "counts": (invents_counts, "V8 row-doubled (SQL counts 0 doubled"),
    "expectations": (forgets_expectations, "has no expected results"),
    "expectations, some": (forgets_every_other_expectation, "has no expected results"),
    "screen": (acquits_everything, "V1 reordered"),
    "evidence": (invents_evidence, "of a fault that acted on nothing"),
    "seed, one for all": (ignores_the_seed, "of another seed"),
    "seed, none": (follows_no_seed, "of a seed that gives one run"),
    "seed, another one": (runs_another_seed, "what the source of seed 7 does not have there"),
    "seed, another source": (draws_another_source, "of another seed, which gives other records"),
    "values": (clips_values, "V8 wrong-value at the end of a long one"),
    "rows without a value": (drops_rows_without_a_value, "V8 row-foreign without a value"),
    "coordinator": (drops_what_the_coordinator_notes, "V10 stale-ack, V10 two-ends"),
    "subtasks": (shows_one_subtask, "V1 reordered in the second subtask"),
    "verdict, decisive": (counts_what_is_decisive, "V1 reordered though not decisive"),
    "verdict, unknown": (takes_unknown_for_pass, "V8 unfinished"),
    "gaps": (sees_no_gap, "of an event that was not recorded"),
    "counts, compared": (compares_no_counts, "of a count that contradicts the verdict"),
    "counts, none": (counts_nothing, "SQL did not count them"),
    "claims": (claims_less, "the header claims capacity"),
    "claims, values": (claims_no_values, "the header claims known results"),
    "expectations, from outputs": (expects_what_came, "is told with the results"),
}
"""Of each part: how it is planted, and what `floodmark run --level sim --seed 7` says."""
IN_FILES: Mapping[str, tuple[Plant, str]] = {
    "recorder": (forgets_repeated_outputs, "V8 duplicate"),
    "merge, a file": (loses_the_last_file, "V1 reordered"),
    "merge, the order": (reorders_lines, "V1 reordered"),
    "screen": (acquits_everything, "V1 reordered"),
    "seed, one for all": (ignores_the_seed, "of another seed"),
    "seed, none": (follows_no_seed, "of a seed that gives one source"),
    "values": (clips_values, "V8 wrong-value at the end of a long one"),
    "subtasks": (shows_one_subtask, "V1 reordered in the second subtask"),
    "gaps": (sees_no_gap, "of a line that is missing in a file"),
    "evidence, one witness": (trusts_one_witness, "of a fault with one witness"),
}
"""Those that the canaries in files see, without a world."""
IN_THE_DATABASE: Mapping[str, tuple[Plant, str]] = {
    "audit, skipped": (skips_the_audit, "of the database, delete audit"),
    "audit, invented": (invents_rows, "of the database, delete output"),
    "counts": (invents_counts, "of the database, delete output, .*SQL counts 0 doubled"),
    "rows without a value": (drops_rows_without_a_value, "SQL counts 3 rows, the history holds 2"),
}
"""Those that only the canaries in a real database see."""
IN_A_RUN: Mapping[str, tuple[Plant, str]] = {
    "expectations": (loses_expectations, "has no expected results"),
    "evidence": (invents_evidence, "has evidence of an effect before it has acted"),
    "counts, none": (counts_nothing, "SQL did not count them"),
    "claims": (claims_less, "the header claims capacity"),
    "seed, another one": (plans_another_seed, "what the source of seed 7 does not have there"),
}
"""Those that a run in a world shows."""
