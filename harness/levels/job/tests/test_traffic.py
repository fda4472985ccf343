"""The proxy's log as the journal of a job: calls with their ends, errors by number, and who lost a connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from harness.faults.real.evidence import LogPage, ProxyEvidence
from harness.faults.real.fault_site import MessageControl
from harness.levels.job.traffic import NOTES, Traffic, requests_over

SINK = "sink"


class Log:
    """A control with only a log of one link."""

    def __init__(self, *events: ProxyEvidence, of: str = SINK) -> None:
        self._events, self._of = events, of

    def link_log(self, link: str, after: int = 0) -> LogPage:
        mine = self._events if link == self._of else ()
        return LogPage(events=mine[after:], next=len(mine))


def noted(
    t_us: int, statement: str, *, answer: bool = False, connection: int = 1, **more: Any
) -> ProxyEvidence:
    """A noted message, the `match`-th of its direction."""
    stream = "downstream" if answer else "upstream"
    fields = {
        "match": 1,
        "statement": statement,
        "peer": 50_001,
        **({"reply": "ok"} if answer else {}),
        **more,
    }
    return ProxyEvidence(
        t_us=t_us, did="noted", toxic=f"{NOTES}.{stream}", connection=connection, stream=stream,
        command=statement if statement == "commit" else "query", more=fields,
    )  # fmt: skip


def did(t_us: int, what: str, *, stream: str = "", toxic: str = "", **more: Any) -> ProxyEvidence:
    return ProxyEvidence(t_us=t_us, did=what, toxic=toxic, connection=1, stream=stream, more=more)


def read(*events: ProxyEvidence, of: str = SINK) -> Traffic:
    traffic = Traffic(control=cast("MessageControl", Log(*events, of=of)))
    traffic.poll()
    return traffic


def test_a_call_lasts_from_its_request_to_its_answer() -> None:
    traffic = read(noted(10, "insert", table="rows"), noted(30, "insert", answer=True))

    (call,) = traffic.calls
    assert (call.began_us, call.ended_us, call.ending, call.link) == (10, 30, "ok", SINK)
    assert [message.name for message in requests_over(traffic.messages, SINK)] == ["INSERT rows"]


def test_entries_that_the_proxys_log_has_dropped_are_told() -> None:
    class Full(Log):
        def link_log(self, link: str, after: int = 0) -> LogPage:
            return replace(super().link_log(link, after), lost=3 if link == SINK else 0)

    traffic = Traffic(control=cast("MessageControl", Full()))
    traffic.poll()

    assert traffic.trouble.startswith("3 entries of the proxy's log were dropped")
    assert read(noted(10, "insert")).trouble == ""


def test_an_answer_that_is_an_error_fails_its_call_by_its_number() -> None:
    traffic = read(noted(10, "commit"), noted(30, "commit", answer=True, reply="error", code=1213))

    assert [call.ending for call in traffic.calls] == ["fail"]
    assert traffic.errors == [(30, SINK, 1213)]
    assert traffic.losses == []


def test_a_client_that_hangs_up_while_it_waits_has_given_up_its_call() -> None:
    traffic = read(noted(10, "insert"), did(40, "ended", stream="upstream", toxic=f"{NOTES}.upstream"))

    assert [call.ending for call in traffic.calls] == ["timeout"]
    assert traffic.losses == []


def test_a_connection_that_the_server_or_the_proxy_ends_is_lost_once() -> None:
    by_server = read(noted(10, "insert"), did(40, "ended", stream="downstream", toxic=f"{NOTES}.downstream"))
    by_us = read(did(20, "reset"), did(21, "ended", toxic=f"{NOTES}.downstream"))

    assert by_server.losses == [(40, SINK, 2013)]
    assert [call.ending for call in by_server.calls] == ["fail"]
    assert by_us.losses == [(20, SINK, 2013)]


def test_a_server_that_cannot_be_reached_is_a_refused_connection() -> None:
    assert read(did(5, "undialled", stream="downstream", toxic=f"{NOTES}.downstream")).losses == [
        (5, SINK, 2003)
    ]


def test_a_read_that_a_lock_holds_up_counts_though_it_was_sent_before() -> None:
    waits = noted(10, "select", table="inbox")
    traffic = read(waits, noted(20, "select", table="inbox", connection=2))

    assert traffic.reads_of("inbox", 15) == [False, False]
    answered = read(waits, noted(30, "select", answer=True), noted(40, "select", table="inbox"))
    assert answered.reads_of("inbox", 15) == [False]
    assert answered.reads_of("inbox", 5) == [False, True]


def test_a_request_without_an_answer_is_waiting() -> None:
    traffic = read(noted(10, "insert"))

    assert [(call.began_us, call.ended_us) for call in traffic.waiting()] == [(10, None)]


@pytest.mark.parametrize("is_noted_first", [True, False], ids=["a long request", "a short one"])
def test_an_error_of_the_proxys_own_ends_the_call_that_it_answers(*, is_noted_first: bool) -> None:
    sent = [
        noted(10, "insert", match=1),
        did(10, "error", stream="upstream", toxic="victim.upstream", code=1213),
    ]
    later = [noted(20, "insert", match=2), noted(21, "insert", match=1, answer=True)]

    traffic = read(*(sent if is_noted_first else reversed(sent)), *later)

    assert traffic.errors == [(10, SINK, 1213)]
    assert [call.ending for call in traffic.calls] == ["fail", "ok"]
    assert traffic.codes == {1: 1213, 2: 0}
    assert traffic.unsent == {1}


def test_what_a_client_sends_around_its_lookups_is_no_call_there_and_one_on_the_sinks_link() -> None:
    sent = [
        noted(n, word, answer=n % 2 == 0)
        for n, word in enumerate(["set", "set", "commit", "commit"], start=1)
    ]

    assert read(*sent, of="lookups").calls == []
    assert [call.link for call in read(*sent).calls] == [SINK, SINK]


def test_the_statements_of_a_query_are_counted_as_the_proxy_counts_them() -> None:
    (message,) = read(
        noted(1, "begin; insert; commit", writes=3, commits=2, tables="shop.rows,place")
    ).messages

    assert (message.writes, message.commits, message.changes("rows")) == (3, 2, True)
