"""The pitfalls of a job, from what our proxy and the database's own logs saw of its statements; a function for each.

Answers to `harness.judge.pitfalls` for a program that is not ours. Invariants: what is named as the cause of a
conviction is named only beside it; only what was seen whole is named, and not what a right job does too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from harness.history.values import brief
from harness.levels.job.job_database import audited_session
from harness.levels.job.job_run import JobRun
from harness.levels.job.statement_log import every_literal
from harness.levels.job.traffic import Message, requests_over
from harness.proxy.mysql.commands import changed_tables, plain
from harness.scenario.outcome import Pitfall

_LEAST: Final = 20
_SHARE: Final = 0.9
"""Lookups, and connections for each of them, from which on a job connects for each call."""
_LEAVES_OPEN: Final = frozenset({"select", "with", "show", "insert", "update", "delete", "replace", "load"})
"""Statements that neither begin nor end a transaction; any other one may (SET, CALL, DDL)."""
_DEADLOCK: Final = 1213
"""The server has rolled the whole transaction back."""
_DDL: Final = frozenset({"create", "alter", "drop", "truncate", "rename"})
"""Statements that commit what is open, unless they are of a temporary table."""
_OF_A_TEMPORARY: Final = re.compile(r"\w+ (or replace )?temporary\b")
VALUE_CUT: Final = "value-cut"
_TEXT_CHARS: Final = 120
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_COMES_FROM_ELSEWHERE: Final = re.compile(r"\bselect\b|\"|@")
_CALLED: Final = re.compile(r"(\w+)`?\s*\(")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def connects_for_each_call(messages: Sequence[Message]) -> Iterator[Pitfall]:
    """The pitfall of a job that connects anew for each lookup, as the proxy saw it without faults."""
    asked = requests_over(messages, "lookups")
    calls = sum(one.statement in {"select", "with"} for one in asked)
    opened = len({one.connection for one in asked})
    if calls < _LEAST or opened < _SHARE * calls:
        return
    yield Pitfall(
        name="connects-for-each-call",
        says=f"Without faults the job opened {opened} connections for {calls} lookups: each call makes its own.",
        advice="Keep a connection, or a pool of them, for the life of the worker.",
        evidence={"opened": opened, "calls": calls},
    )


def not_deterministic(unsteady: Mapping[str, str]) -> Iterator[Pitfall]:
    """The pitfall of a job whose two calm twins differ; `unsteady`: what differs, a sentence for each id."""
    for first in list(unsteady.values())[:1]:
        yield Pitfall(
            name="not-deterministic",
            says=f"The job is not deterministic: {first}, and so of {len(unsteady)} in all.",
            advice="Mend it, or take the columns that differ from run to run out of `values`.",
            evidence={"apart": len(unsteady)},
        )


def without_transactions(run: JobRun) -> Iterator[Pitfall]:
    """The pitfall of a table whose engine has no transactions."""
    if engine := run.seen.facts.without_transactions:
        table = run.order.job.sink.table
        yield Pitfall(
            name="no-transactions",
            says=f"Table {table} is of the engine {engine}, which has no transactions: a row stays though its"
            " transaction is rolled back or its connection is lost.",
            advice=f"ALTER TABLE {table} ENGINE = InnoDB.",
            evidence={"engine": engine},
        )


CutValues = Mapping[str, Mapping[str, str]]
"""By the text of an id: the judged columns that the server cut to their length, each with the text that was sent."""


def cut_values(run: JobRun) -> CutValues:
    """The values that do not hold all of the text that the job sent, as IGNORE and a lax `sql_mode` allow.

    The value fills its column. A statement, of the row's session if that is known, has the row's id and the values of
    its other judged columns, a single longer text that begins with the value and none that equals it, and no value that
    is not written out in it. Blanks at a text's end do not count: the server drops them without IGNORE too.
    """
    columns, lengths, sink = run.seen.columns, run.seen.facts.lengths, run.order.job.sink
    judged = [column for column in sink.values if column in lengths]
    if columns is None or not judged:
        return {}
    found: dict[str, dict[str, str]] = {}
    texts: dict[str, list[tuple[int, frozenset[str]]]] | None = None
    for transaction in run.seen.transactions:
        session = audited_session(transaction)
        for change in transaction.changes:
            row = change.now
            if row is None or change.table != sink.table:
                continue
            values = {name: row.get(name) for name in judged}
            full = [
                name for name, one in values.items() if isinstance(one, str) and len(one) == lengths[name]
            ]
            if not full:
                continue
            texts = _texts_of_writes(run) if texts is None else texts
            own = [row.get(name) for name in (*sink.id, *sink.values) if name not in full]
            shown = {str(value) for value in own if isinstance(value, str | int)}
            sent = [
                those
                for sender, those in texts.get(str(row.get(sink.id[0])), ())
                if session in {None, sender} and shown <= those
            ]
            for column in full:
                beginning = row[column]
                longer = {one.rstrip(" ") for those in sent for one in those if one.startswith(beginning)}
                if len(longer) == 1 and beginning not in longer:
                    found.setdefault(columns.row(row).id_text, {})[column] = longer.pop()
    return found


def _texts_of_writes(run: JobRun) -> dict[str, list[tuple[int, frozenset[str]]]]:
    """Of each write to the table whose values are all written out in it: its session and its literals, by each."""
    found: dict[str, list[tuple[int, frozenset[str]]]] = {}
    table = run.order.job.sink.table.lower()
    for statement in run.statements:
        bare = _QUOTED.sub("?", statement.text).lower()
        is_computed = _COMES_FROM_ELSEWHERE.search(bare) or set(_CALLED.findall(bare)) - {
            "values",
            "value",
            table,
        }
        if not is_computed and writes_to(table, statement.text):
            those = frozenset(_ESCAPED.sub(r"\1", one) for one in every_literal(statement.text))
            for one in those:
                found.setdefault(one, []).append((statement.session, those))
    return found


def values_cut(run: JobRun, cut: CutValues) -> Iterator[Pitfall]:
    """The pitfall of a job whose values the server cut, by `cut_values`."""
    if not cut:
        return
    told, columns = next(iter(cut.items()))
    column, sent = next(iter(columns.items()))
    length = run.seen.facts.lengths[column]
    yield Pitfall(
        name=VALUE_CUT,
        says=f"The server cut {sum(map(len, cut.values()))} values to the length of their column, and the job went on:"
        f" of {column} = {brief(sent)} of record {told} it kept {length} characters.",
        advice="Widen the column. Without IGNORE and with a strict sql_mode such a statement fails; for a row that is"
        " already there use ON DUPLICATE KEY UPDATE.",
        evidence={"values": sum(map(len, cut.values())), "column": column, "length": length},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Writes to the table on one connection that were answered with OK, and that no COMMIT followed."""

    writes: Sequence[Message]
    behind: Message | None = None
    """The request behind them that may have ended the transaction; None: there was none."""
    code: int | None = None
    """The number of the error that it was answered with; 0: with none; None: it has no answer."""

    @property
    def connection(self) -> int:
        return self.writes[0].connection


def unfinished(requests: Iterable[Message], codes: Mapping[int, int], *, table: str) -> Iterator[Unfinished]:
    """The transactions that wrote to `table` and that no COMMIT ended, of the sink's `requests`.

    `codes`: the number of the error that each was answered with, by the request's number; 0: with none.
    """
    by_connection: dict[int, list[Message]] = {}
    for one in requests:
        by_connection.setdefault(one.connection, []).append(one)
    for of_connection in by_connection.values():
        writes: list[Message] = []
        for one in of_connection:
            if one.command in {"quit", "ping"}:
                continue
            code = codes.get(one.n)
            if one.commits or one.statement not in _LEAVES_OPEN or code == _DEADLOCK:
                if writes and not one.commits:
                    yield Unfinished(writes=writes, behind=one, code=code)
                writes = []
            elif code == 0 and _is_write(one, table):
                writes.append(one)
        if writes:
            yield Unfinished(writes=writes)


def _is_write(request: Message, table: str) -> bool:
    names = {name.rpartition(".")[2] for name in request.tables}
    return bool(request.writes) and table.lower() in names


def writes_to(table: str, text: str) -> bool:
    """Whether a statement changes rows of `table`, given in lower case, and names it."""
    return table in {name.rpartition(".")[2] for name in changed_tables(text.encode())}


def causes(run: JobRun, kinds: Callable[[], Collection[str]]) -> Iterator[Pitfall]:
    """What is the cause of the anomalies of V8; `kinds`: theirs, asked for only if there may be a cause."""
    seen = _Statements(run)
    for one in unfinished(seen.requests, run.faults.traffic.codes, table=seen.table):
        for cause in (_lost_with_its_connection, _rolled_back, _left_uncommitted, _committed_by_ddl):
            found = cause(seen, one)
            if found is not None and not _EXPLAINS[found.name].isdisjoint(kinds()):
                yield found
                return


_LOST: Final = frozenset({"lost", "deleted", "changed-again"})
_EXPLAINS: Final = {
    "lost-with-its-connection": _LOST,
    "rolled-back-by-deadlock": _LOST,
    "left-uncommitted": _LOST,
    "committed-by-ddl": frozenset({"duplicate", "changed-again", "wrong-value", "phantom", "lost"}),
}


class _Statements:
    """What is known of a run's statements beside their messages."""

    def __init__(self, run: JobRun) -> None:
        self.run = run
        self.table = run.order.job.sink.table
        self.began_us = run.recording.began_us
        self.requests = requests_over(run.faults.traffic.messages, "sink")

    def at(self, message: Message) -> str:
        """When it came, in a sentence."""
        return f"{(message.t_us - self.began_us) / 1e6:.3f} s"

    def living(self, message: Message) -> int | None:
        """The start that alone was going on when it came; None: there were others, or none."""
        lives = self.starts.items()
        living = [start for start, (begun, ended, _) in lives if begun <= message.t_us <= ended]
        return living[0] if len(living) == 1 else None

    @cached_property
    def starts(self) -> Mapping[int, tuple[int, float, bool]]:
        """When each start began and exited, and whether it did so by itself with code 0."""
        found: dict[int, tuple[int, float, bool]] = {}
        for t_us, _, kind, fields in self.run.recording.told():
            if kind == "start":
                found[fields["start"]] = (t_us, math.inf, False)
            elif kind == "exit":
                is_well = fields.get("code") == 0 and fields.get("by") is None
                found[fields["start"]] = (found[fields["start"]][0], t_us, is_well)
        return found

    def never_again(self, writes: Sequence[Message]) -> list[str]:
        """The texts of those writes that the job did not send a second time in the run; none if they are not known."""
        counts = Counter(one.text for one in self.run.statements)
        sent = [self._texts[one.n] for one in writes if one.n in self._texts]
        return [text for text in sent if counts[text] == 1]

    @cached_property
    def _texts(self) -> Mapping[int, str]:
        """The text of each answered write to the table, where the general log has as many of its session.

        It may have one more, whose answer was lost with the connection.
        """
        traffic, answered, asked = self.run.faults.traffic, dict[int, list[Message]](), Counter[int]()
        for one in self.requests:
            if one.session and one.n not in traffic.unsent and _is_write(one, self.table):
                asked[one.session] += 1
                if one.n in traffic.codes:
                    answered.setdefault(one.session, []).append(one)
        logged: dict[int, list[str]] = {}
        for statement in self.run.statements:
            if writes_to(self.table.lower(), statement.text):
                logged.setdefault(statement.session, []).append(statement.text)
        return {
            one.n: text
            for session, those in answered.items()
            if len(those) <= len(logged.get(session, ())) <= asked[session]
            for one, text in zip(those, logged[session], strict=False)
        }

    def commits_later(
        self, after_us: int, *, start: int | None, connection: int | None = None
    ) -> Message | None:
        """The first COMMIT of changes of the table behind that time, of this start, on this connection or any."""
        for one in self.requests:
            is_there = connection is None or one.connection == connection
            if one.t_us > after_us and one.commits and one.changes(self.table) and is_there:
                return one if start is not None and self.living(one) == start else None
        return None


def _lost_with_its_connection(seen: _Statements, one: Unfinished) -> Pitfall | None:
    lost_us = seen.run.faults.traffic.lost_us.get(one.connection)
    if one.behind is not None or lost_us is None:
        return None
    start = seen.living(one.writes[-1])
    later, texts = seen.commits_later(lost_us, start=start), seen.never_again(one.writes)
    if later is None or not texts:
        return None
    return Pitfall(
        name="lost-with-its-connection",
        says=f"Connection {one.connection} was lost at {(lost_us - seen.began_us) / 1e6:.3f} s with {len(one.writes)}"
        f" statements answered with OK and not committed. Start {start} went on, committed at {seen.at(later)} on"
        f" connection {later.connection}, and never sent {len(texts)} of them again, such as"
        f" {brief(texts[0], limit=_TEXT_CHARS)}.",
        advice="After a lost connection begin the whole transaction again, from its first statement.",
        evidence={"statements": len(texts), "connection": one.connection, "start": start},
    )


def _rolled_back(seen: _Statements, one: Unfinished) -> Pitfall | None:
    if one.behind is None or one.code != _DEADLOCK:
        return None
    start = seen.living(one.behind)
    later = seen.commits_later(one.behind.t_us, start=start, connection=one.connection)
    texts = seen.never_again(one.writes)
    if later is None or not texts:
        return None
    return Pitfall(
        name="rolled-back-by-deadlock",
        says=f"{one.behind.name} was answered with a deadlock (1213) at {seen.at(one.behind)}, which rolled back"
        f" {len(one.writes)} statements before it in its transaction. The job went on, committed at {seen.at(later)},"
        f" and never sent {len(texts)} of them again, such as {brief(texts[0], limit=_TEXT_CHARS)}.",
        advice="After a deadlock begin the whole transaction again, not with the statement that failed.",
        evidence={"statements": len(texts), "connection": one.connection, "start": start},
    )


def _left_uncommitted(seen: _Statements, one: Unfinished) -> Pitfall | None:
    """A killed start rightly leaves some; of starts beside each other it is not known whose they are."""
    start, is_lost = seen.living(one.writes[-1]), one.connection in seen.run.faults.traffic.lost_us
    if one.behind is not None or is_lost or start is None or not seen.starts[start][2]:
        return None
    return Pitfall(
        name="left-uncommitted",
        says=f"{len(one.writes)} statements such as {one.writes[0].name}, from {seen.at(one.writes[0])} on, were"
        f" answered with OK on connection {one.connection}, and no COMMIT followed there before start {start} exited"
        " with code 0.",
        advice="Commit, or set autocommit on each connection: a new one, after an error, has the default.",
        evidence={"statements": len(one.writes), "connection": one.connection, "start": start},
    )


def _committed_by_ddl(seen: _Statements, one: Unfinished) -> Pitfall | None:
    if one.behind is None or one.code != 0 or one.behind.statement not in _DDL:
        return None
    word, session = one.behind.statement, one.behind.session
    sent = [own.n for own in seen.requests if own.session == session and own.statement == word]
    texts = [plain(own.text.encode()) for own in seen.run.statements if own.session == session]
    texts = [text for text in texts if text.startswith(word)]
    text = texts[sent.index(one.behind.n)] if len(texts) == len(sent) else ""
    if not text or _OF_A_TEMPORARY.match(text):
        return None
    return Pitfall(
        name="committed-by-ddl",
        says=f"{brief(text, limit=_TEXT_CHARS)} at {seen.at(one.behind)} committed {len(one.writes)} statements"
        f" such as {one.writes[0].name} before the job's own COMMIT: a statement that defines a table ends the"
        " transaction.",
        advice="Make tables before the transaction, or temporary ones in it.",
        evidence={"statements": len(one.writes), "connection": one.connection},
    )
