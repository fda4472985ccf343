"""The moment of a job: which message is held is decided while it is held, and nothing stays held."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from harness.faults.parts.triggers import SinkMoment
from harness.faults.real.evidence import ProxyEvidence
from harness.faults.real.held_message import HeldMessage
from harness.faults.real.held_moment import held_at
from harness.faults.real.server_control import ServerControl
from harness.faults.tests.fake_job import MessageProxy, Server, noted


def hold(
    connection: int,
    *,
    answer: bool = False,
    statement: str = "commit",
    table: str = "",
    tables: str = "enriched",
) -> ProxyEvidence:
    """The log's entry of a message that is held; connection 1 is session 40001 of the server."""
    stream = "downstream" if answer else "upstream"
    return ProxyEvidence(
        t_us=1,
        did="held",
        toxic=f"f.{stream}",
        connection=connection,
        stream=stream,
        command="commit",
        more={
            "statement": statement,
            "table": table,
            "tables": tables,
            "session": 40_000 + connection,
            "peer": 50_000 + connection,
        },
    )


def waited(
    proxy: MessageProxy,
    server: Server,
    over: threading.Event | None = None,
    of_table: str = "enriched",
    **when: Any,
) -> HeldMessage | None:
    """What is held when the block begins."""
    moment = SinkMoment.model_validate(when)
    ended = over or threading.Event()
    with held_at(
        moment,
        name="f",
        control=proxy,
        server=cast("ServerControl", server),
        over=ended,
        table=of_table,
        armed=lambda: arrive(proxy),
    ) as held:
        return held


def arrive(proxy: MessageProxy) -> None:
    """The messages come only when nothing can be missed any more."""
    proxy.noted.extend(coming)


coming: list[ProxyEvidence] = []


@pytest.fixture(autouse=True)
def _nothing_comes_yet() -> None:
    coming.clear()


def test_a_commit_that_changed_no_row_goes_on_and_the_next_is_held() -> None:
    """As of an UPDATE that found its row as it wanted it, which its answer counts under CLIENT_FOUND_ROWS."""
    coming.extend([hold(1), hold(2), hold(3)])
    proxy = MessageProxy()

    held = waited(proxy, Server({40_002: 4, 40_003: 9}), sink="commit", nth=1)

    assert held is not None
    assert (held.connection, held.rows_modified, held.name) == (2, 4, "before COMMIT 1 of enriched")
    assert proxy.log == [
        "+f.upstream", "release 1", "no more f.upstream", "release 3", "release 2", "-f.upstream"
    ]  # fmt: skip


def test_the_proxy_counts_the_commits_so_that_two_moments_do_not_disturb_each_other() -> None:
    coming.append(hold(3))
    proxy = MessageProxy()

    held = waited(proxy, Server({40_003: 2}), sink="commit", nth=2)

    assert held is not None
    assert held.connection == 3
    assert proxy.toxics["f.upstream"].attributes == {
        "do": "hold", "on": "commit", "table": "enriched", "nth": 2, "times": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("of_table", "tables", "counted"),
    [
        ("Enriched", "shop.enriched,offsets", "of Enriched"),
        ("enriched", "offsets,?", "of tables that it does not tell"),
        ("*", "offsets", "of any table"),
    ],
)
def test_a_held_commit_says_of_which_table_it_was_counted(of_table: str, tables: str, counted: str) -> None:
    coming.append(hold(1, tables=tables))

    held = waited(MessageProxy(), Server({40_001: 1}), of_table=of_table, sink="commit", nth=2)

    assert held is not None
    assert held.name == f"before COMMIT 2 {counted}"


def test_after_a_commit_it_is_its_own_answer_that_is_held() -> None:
    coming.extend([hold(1), hold(2)])
    proxy = MessageProxy()
    answers = {connection: [hold(connection, answer=True)] for connection in (1, 2)}
    proxy.after_release = lambda connection: proxy.noted.extend(answers.pop(connection, []))

    held = waited(proxy, Server({40_002: 4}), sink="commit", nth=1, moment="after")

    assert held is not None
    assert (held.connection, held.toxic, held.name) == (2, "f.downstream", "after COMMIT 1 of enriched")


def test_a_write_is_found_by_the_proxy_and_named_by_its_table() -> None:
    coming.append(hold(1, answer=True, statement="update", table="enriched"))
    proxy = MessageProxy()

    held = waited(proxy, Server({}), sink="write", nth=7, moment="after")

    assert held is not None
    assert held.name == "after UPDATE enriched (write 7 of enriched)"
    assert proxy.toxics["f.downstream"].attributes == {
        "do": "hold", "on": "write", "table": "enriched", "nth": 7, "times": 1
    }  # fmt: skip


def test_a_moment_that_never_comes_leaves_no_toxic() -> None:
    proxy, over = MessageProxy(), threading.Event()
    over.set()

    assert waited(proxy, Server({}), over, sink="message", nth=3) is None
    assert proxy.log == ["+f.upstream", "-f.upstream"]


def test_a_message_is_let_go_once_even_if_the_fault_fails() -> None:
    coming.append(hold(1))
    proxy = MessageProxy()

    def fail() -> None:
        with held_at(
            SinkMoment.model_validate({"sink": "message"}),
            name="f",
            control=proxy,
            server=cast("ServerControl", Server({})),
            over=threading.Event(),
            armed=lambda: arrive(proxy),
        ) as held:
            assert held is not None
            held.cut()
            raise ValueError("the fault failed")

    with pytest.raises(ValueError, match="failed"):
        fail()
    assert proxy.log == ["+f.upstream", "cut 1", "-f.upstream"]


def test_the_job_stands_still_before_anything_is_asked_and_goes_on_where_the_moment_was_another() -> None:
    before, beside, behind = (noted("insert", 3, t_us=t_us) for t_us in (1, 9_000, 9_002))
    coming.extend([before, hold(1), hold(2), beside, behind])
    proxy, server, stood = MessageProxy(), Server({40_002: 4}), list[tuple[str, int]]()

    @contextmanager
    def standing_still() -> Iterator[int]:
        stood.append(("stops", server.asked))
        yield 9_001
        stood.append(("goes on", server.asked))

    with held_at(
        SinkMoment.model_validate({"sink": "commit"}),
        name="f",
        control=proxy,
        server=cast("ServerControl", server),
        over=threading.Event(),
        armed=lambda: arrive(proxy),
        standing_still=standing_still,
    ) as held:
        assert held is not None
        assert (held.connection, held.lag_ms, held.meanwhile) == (2, 9.0, 1)
        assert stood == [("stops", 0), ("goes on", 1), ("stops", 1)]
    assert stood[-1] == ("goes on", 2)
