"""What a scenario needs and a job does not have: it is refused if it was named, and left out if not.

Invariants: what the job's file shows is known before anything starts, the rest once the calm twin has run; nothing is
left out because of what happened in a run with a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.faults.hold_reply import HoldReply
from harness.faults.parts.triggers import LookupMoment, RecordTaken, SinkMoment, SparkGap
from harness.levels.job.job_file import JobFile
from harness.levels.job.job_run import CalmRun
from harness.levels.job.job_scenario import JobEngine, JobScenario
from harness.levels.job.order import JobOrder
from harness.levels.job.records import JobInput
from harness.levels.job.traffic import Message, has_lookups_beside, requests_over
from harness.system.errors import CannotHere


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lack:
    need: str
    """What is needed, in a word or two, for a count of several scenarios: `2 need Kafka`."""
    say: str
    fix: str = "choose another scenario"


def refuse_unmet(job: JobFile, scenario: JobScenario, given: JobInput) -> None:
    """Raises CannotHere if the job's file shows that it cannot meet the scenario."""
    _refuse(scenario, _lacks_of_file(job, scenario, given))


def refuse_unmet_by_calm(order: JobOrder, calm: CalmRun) -> None:
    """Raises CannotHere if the job without faults does nothing of what a fault of its scenario waits for or acts on."""
    _refuse(order.scenario, _lacks_of_calm(order, calm))
    table = order.job.sink.table if calm.names_table else ""
    refuse_moments(order.scenario, calm.messages, table=table, named=order.named)


def _refuse(scenario: JobScenario, lacks: Iterator[_Lack]) -> None:
    for lack in lacks:
        message = f"scenario {scenario.scenario} cannot run here: {lack.say}"
        raise CannotHere(message, fix=lack.fix, need=lack.need)


def _lacks_of_file(job: JobFile, scenario: JobScenario, given: JobInput) -> Iterator[_Lack]:
    if job.job.engine != "auto":
        yield from _other_engine(scenario, job.job.engine)
    kind = job.source.kind
    if scenario.loses_commits and kind == "table":
        yield _Lack(
            need="a source outside the database",
            say="it makes the database forget, and the source `table` stands in it",
            fix="use a source that keeps what was offered: folder, file or kafka",
        )
    if scenario.gaps and not job.source.gaps:
        say = "it is for a source whose gaps fill later, and the job's file tells of none"
        fix = 'if several writers fill the table, write `source.kind = "table"` and `source.gaps = true`'
        yield _Lack(need="a source with gaps", say=say, fix=fix)
    if scenario.loses_commits and job.sink.rows == "key":
        say = "the database forgets commits, and rows of keys do not show which records those were of"
        yield _Lack(need="a row for each record", say=say)
    for fault in scenario.faults:
        if fault.of_sources and kind not in fault.of_sources:
            say = f"`{fault.do}` (fault {fault.id}) acts on another source than `{kind}`"
            wanted = " or ".join(fault.of_sources)
            yield _Lack(need=wanted.capitalize(), say=say, fix=f'let the job read `source.kind = "{wanted}"`')
        if isinstance(fault.when, RecordTaken) and fault.when.record > len(given.records):
            say = f"fault {fault.id} waits for record {fault.when.record}, and there are {len(given.records)}"
            yield _Lack(need=f"{fault.when.record} records", say=say, fix="add to `source.records`")


def _other_engine(scenario: JobScenario, engine: JobEngine) -> Iterator[_Lack]:
    if engine not in scenario.engines:
        wanted = {"plain": "a plain job", "spark": "Spark"}[scenario.engines[0]]
        is_a = {"plain": "a plain one", "spark": "one of Spark"}[engine]
        yield _Lack(need=wanted, say=f"it needs {wanted}, and this job is {is_a}")


def _lacks_of_calm(order: JobOrder, calm: CalmRun) -> Iterator[_Lack]:
    scenario, run = order.scenario, calm.run
    if order.job.job.engine == "auto":
        yield from _other_engine(scenario, "spark" if run.has_driver else "plain")
    of_lookups = [fault.id for fault in scenario.faults if fault.on_link == "lookups"]
    is_used = any(message.link == "lookups" for message in calm.messages)
    if not is_used and (of_lookups or scenario.lookups_from):
        acts = f"fault {of_lookups[0]} acts on the link `lookups`" if of_lookups else "it moves the lookups"
        say = f"{acts}, and the job without faults sends nothing over it: its lookups go over the sink's link"
        yield _Lack(need="lookups over their own link", say=say, fix="give the job {lookups.url} for them")
    for fault in scenario.faults:
        if (
            isinstance(fault, HoldReply)
            and fault.link == "lookups"
            and is_used
            and not has_lookups_beside(calm.messages)
        ):
            say = f"fault {fault.id} lets answers overtake one, and the job never has two connections for lookups"
            yield _Lack(need="several connections for lookups", say=say)
    reads_sink = any(one.statement == "select" and one.table == order.job.sink.table for one in calm.messages)
    is_in_database = not calm.keeps_files and (calm.keeps_tables or reads_sink)
    if scenario.loses_commits and not is_in_database and not order.named:
        say = "the database forgets commits, and the job keeps no position there that would be forgotten with them"
        yield _Lack(need="the position in the sink's database", say=say)
    for fault in scenario.faults:
        if fault.do == "kill_executor" and not run.has_executors:
            say = f"fault {fault.id} kills an executor, and the job has none beside its driver"
            fix = "run the job on a standalone cluster (`cluster = 2`), or use kill_driver or kill_owner"
            yield _Lack(need="executors", say=say, fix=fix)
        if isinstance(fault.when, SparkGap) and fault.when.batch >= calm.batches:
            say = (
                f"fault {fault.id} waits for batch {fault.when.batch} of a streaming query, and the job without faults"
                f" has {calm.batches} in a checkpoint below its state folder"
            )
            need = f"a checkpoint of {fault.when.batch + 1} batches"
            yield _Lack(need=need, say=say, fix="keep the query's checkpoint in {state}")


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
            "commit": sum(one.commits for one in sent if one.changes(table)),
            "write": sum(one.writes for one in sent if one.changes(table)),
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
