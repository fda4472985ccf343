"""Enrichment: each result knows its record and its place; none, one and many are told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.database.driver import AsyncMySqlDriver
from harness.database.endpoint import Endpoint
from harness.database.pool import ConnectionPool
from harness.history.journal import Journal
from harness.history.recorder import Recorder
from harness.scenario.workloads.shape import Lookup, StampedLookup
from harness.sut.function_under_test import (
    DeadLetter,
    Enriched,
    JournalProbe,
    answer_timeouts,
    enrich,
    stamped,
)
from harness.sut.phases import EarlierAttempts, PhaseHooks
from harness.sut.tests.handles import Notes
from reference_impl.elements import Record
from reference_impl.mailbox.loops import real_loop
from reference_impl.operator.result import Ending
from tools.cases import each

LOOKUP = Lookup(id=7, key=3, service_ms=0)
NOWHERE = Endpoint(host="127.0.0.1", port=1, user="nobody", password="-", database="-")


def enriched(answer: Any) -> list[Enriched]:
    async def function(record: Lookup, pool: ConnectionPool) -> Any:
        assert record is LOOKUP
        assert isinstance(pool, ConnectionPool)
        return answer

    with real_loop() as loop:
        call = enrich(function, ConnectionPool(AsyncMySqlDriver(NOWHERE), size=1), journal=Notes())(LOOKUP)
        return list(loop.run_until_complete(_awaited(call)))


async def _awaited(call: Any) -> list[Enriched]:
    found: list[Enriched] = await call
    return found


@each(
    ("answer", "values"),
    [
        (None, []),
        ([], []),
        ("one", ["one"]),
        (0, [0]),
        ({"a": 1}, [{"a": 1}]),
        (["a", None, "b"], ["a", None, "b"]),
        (("a", "b"), ["a", "b"]),
    ],
)
def test_an_answer_is_none_one_or_a_list_of_results(answer: Any, values: list[Any]) -> None:
    assert enriched(answer) == [Enriched(id=7, j=j, value=value) for j, value in enumerate(values)]


def test_a_result_carries_the_stamp_of_its_record() -> None:
    plain = Lookup(id=7, key=3, service_ms=0)
    stamped_lookup = StampedLookup(id=7, key=3, service_ms=0, stamp={"nth": 2})

    assert stamped(stamped_lookup, [{"name": "Ada"}, "a value"]) == [
        {"nth": 2, "name": "Ada"},
        {"nth": 2, "value": "a value"},
    ]
    assert stamped(plain, [{"name": "Ada"}, "a value"]) == [{"name": "Ada"}, "a value"]


def test_what_stands_in_for_a_timeout_belongs_to_the_record_too() -> None:
    assert answer_timeouts(["none", 0])(LOOKUP) == [
        Enriched(id=7, j=0, value="none"),
        Enriched(id=7, j=1, value=0),
    ]


def test_the_probe_journals_a_call_and_what_came_of_it(tmp_path: Path) -> None:
    record = Record(value=LOOKUP, timestamp=5, position=0)
    with Recorder(tmp_path / "a.jsonl") as recorder:
        journal = Journal(recorder, subtask=0, attempt=1)
        probe = JournalProbe(journal, PhaseHooks([], past=EarlierAttempts(), journal=journal))

        probe.called(record, attempt=1)
        probe.settled(record, attempt=1, ending=Ending.OK, final=True, results=enriched(["x", "y"]))
        probe.settled(record, attempt=2, ending=Ending.FAIL, final=False, error=ValueError("no"))

    call, ok, fail = (json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines())
    assert (call["k"], call["id"], call["try"]) == ("call", 7, 1)
    assert (ok["r"], ok["final"], ok["v"]) == ("ok", True, ["x", "y"])
    assert (fail["r"], fail["final"], fail["error"]) == ("fail", False, "ValueError: no")
    assert "v" not in fail


def test_a_dead_letter_is_journalled_as_the_failure_that_it_stands_for(tmp_path: Path) -> None:
    """Of a try that is not the last, too; the record is dead only when its letter leaves the operator."""
    record = Record(value=LOOKUP, timestamp=5, position=0)
    letter = DeadLetter(id=7, error="ValueError: no")
    with Recorder(tmp_path / "a.jsonl") as recorder:
        journal = Journal(recorder, subtask=0, attempt=1)
        probe = JournalProbe(journal, PhaseHooks([], past=EarlierAttempts(), journal=journal))

        probe.settled(record, attempt=1, ending=Ending.OK, final=False, results=[letter])
        probe.settled(record, attempt=2, ending=Ending.TIMEOUT, final=True, results=[letter])

    first, last = (json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines())
    assert (first["r"], first["final"], first["error"]) == ("fail", False, "ValueError: no")
    assert (last["r"], last["final"], last["error"]) == ("timeout", True, "ValueError: no")
    assert "v" not in first


def test_an_outcome_behind_a_timeout_whose_handler_completes_nothing_is_the_calls_own(tmp_path: Path) -> None:
    """A slow machine answers after the timeout; the header claims none, so a `timeout` would convict (V15)."""
    record = Record(value=LOOKUP, timestamp=5, position=0)
    with Recorder(tmp_path / "a.jsonl") as recorder:
        journal = Journal(recorder, subtask=0, attempt=1)
        hooks = PhaseHooks([], past=EarlierAttempts(), journal=journal)
        probe = JournalProbe(journal, hooks, timeout_answers=False)

        probe.settled(record, attempt=1, ending=Ending.TIMEOUT, final=True, results=enriched(["x"]))
        probe.settled(record, attempt=1, ending=Ending.TIMEOUT, final=True, error=ValueError("no"))

    answer, failure = (json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines())
    assert (answer["r"], answer["v"]) == ("ok", ["x"])
    assert (failure["r"], failure["error"]) == ("fail", "ValueError: no")
