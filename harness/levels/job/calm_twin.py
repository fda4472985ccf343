"""What the calm twin of a job shows: its pace, its table, what passed the proxy, and whether it keeps state.

Invariant: each number was measured in a run without faults; what it says of the table is what SQL read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.faults.parts.triggers import LookupMoment, SinkMoment
from harness.levels.job.finished import ExpectedRows
from harness.levels.job.job_run import JobRun
from harness.levels.job.job_run_parts import Pace
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.traffic import Message, requests_over
from harness.system.errors import CannotHere
from harness.system.json_types import JsonView


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmRun:
    """What the calm run shows."""

    pace: Pace
    expected: ExpectedRows
    messages: tuple[Message, ...]
    """What passed both links of the proxy."""
    keeps_files: bool
    """Whether it left anything in its state folder."""
    keeps_tables: bool
    """Whether it wrote to a table that is not the sink's or the harness's."""
    batches: int
    """How many batches the longest checkpoint of Spark in its state folder has."""
    run: JobRun

    @property
    def names_table(self) -> bool:
        """Whether a statement named the sink's table; false if it changes by a view, a trigger or a function."""
        table = self.run.parts.order.job.sink.table
        return any(one.commits and one.changes(table) for one in requests_over(self.messages, "sink"))

    @property
    def keeps_state(self) -> bool:
        """Whether it left anything by which a further start knows what is done."""
        return self.keeps_files or self.keeps_tables

    @property
    def facts(self) -> JsonView:
        """For the report."""
        sink = requests_over(self.messages, "sink")
        commits = sum(one.commits for one in sink)
        return {
            "first_row_ms": round(self.pace.first_row_us / 1000),
            "gap_ms": round(self.pace.gap_us / 1000),
            "took_s": round(self.pace.took_us / 1e6, 2),
            "messages": len(sink),
            "commits": commits,
        }


def refuse_moments(scenario: JobScenario, messages: Sequence[Message], *, table: str, named: bool) -> None:
    """Raises CannotHere if a fault waits for a message that the undisturbed job does not send.

    `messages`: those of the calm twin. COMMITs and writes count if they change `table`; empty: any table. Their number
    may differ from run to run, so in a scenario that was named, a moment that is missed by little is waited for.
    """
    for fault in scenario.faults:
        when = fault.when
        if not isinstance(when, SinkMoment | LookupMoment):
            continue
        sent = requests_over(messages, when.link)
        kind, nth = when.counts, when.nth
        count = {
            "commit": sum(one.commits and one.changes(table) for one in sent),
            "write": sum(one.is_write and one.changes(table) for one in sent),
            "message": len(sent),
        }[kind]
        if (2 * count <= nth) if named else (count < nth):
            message = (
                f"scenario {scenario.scenario} cannot run here: fault {fault.id} waits for {kind} {nth} over the link"
                f" `{when.link}`{f' that changes {table}' if table and kind != 'message' else ''}, and the job without"
                f" faults sends {count} of them"
            )
            lower = f"--set faults.{fault.id}.when.nth={count}, or " if count else ""
            need = f"{nth} {'COMMIT' if kind == 'commit' else kind}s to the {when.link}"
            fix = f"{lower}choose a scenario with another moment, or --sweep"
            raise CannotHere(message, fix=fix, need=need)
