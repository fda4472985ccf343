"""The log of a link: floods are added up without losing a byte, the log is bounded, what fell out is counted."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from harness.proxy.link_log import EVENTS_MAX, PAGE_MAX, WINDOW_S, LinkLog
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as loop:
        yield loop


def _pass(loop: VirtualLoop, seconds: float) -> None:
    loop.call_later(seconds, loop.stop)
    loop.run_forever()


def test_the_first_of_a_flood_is_written_at_once_and_the_rest_added_up(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop)

    for _ in range(1_000):
        log.note(1, "upstream", "lag", "delayed", bytes=10, ms=5)

    first, rest = log.after(0).events
    assert first.numbers == {"bytes": 10, "ms": 5}
    assert rest.numbers == {"bytes": 9_990, "ms": 5}


def test_a_flood_makes_a_event_a_window(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop)

    for _ in range(10):
        log.note(1, "upstream", "lag", "delayed", bytes=1)
        log.note(1, "upstream", "lag", "delayed", bytes=1)
        _pass(loop, WINDOW_S)

    page = log.after(0)
    assert sum(int(event.numbers["bytes"]) for event in page.events) == 20
    assert len(page.events) <= 12


def test_windows_close_by_themselves(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop, file=(file := io.StringIO()))
    log.note(1, "upstream", "lag", "delayed", bytes=1)
    log.note(1, "upstream", "lag", "delayed", bytes=2)

    _pass(loop, 3 * WINDOW_S)

    written = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [event["bytes"] for event in written] == [1, 2]
    assert written[0]["link"] == "db"


def test_different_connections_toxics_and_commands_are_not_mixed(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop)

    for connection, toxic, command in (
        (1, "a", "query"),
        (2, "a", "query"),
        (1, "b", "query"),
        (1, "a", "commit"),
    ):
        log.note(connection, "upstream", toxic, "dropped", bytes=1, command=command)

    assert len(log.after(0).events) == 4


def test_a_event_about_one_match_is_never_added_up(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop)

    for match in (1, 2, 3):
        log.note(1, "upstream", "lost", "dropped", bytes=1, match=match)

    assert [event.numbers["match"] for event in log.after(0).events] == [1, 2, 3]


def test_what_was_added_up_comes_before_the_connections_next_event(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop)
    log.note(1, "upstream", "lag", "delayed", bytes=1)
    log.note(1, "upstream", "lag", "delayed", bytes=2)

    log.note(1, "", "", "reset")

    assert [event.did for event in log.after(0).events] == ["delayed", "delayed", "reset"]


def test_the_log_is_bounded_and_counts_what_fell_out(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.proxy.link_log.EVENTS_MAX", 100)
    log = LinkLog(link="db", loop=loop)

    for number in range(250):
        log.note(number, "", "", "reset")

    page = log.after(0)
    assert [event.n for event in page.events] == list(range(151, 251))
    assert (page.lost, page.next) == (150, 250)
    assert log.after(200).lost == 0


def test_a_page_goes_on_where_the_last_one_ended(loop: VirtualLoop) -> None:
    log = LinkLog(link="db", loop=loop)
    for number in range(PAGE_MAX + 5):
        log.note(number, "", "", "reset")

    first = log.after(0)
    second = log.after(first.next)
    third = log.after(second.next)

    assert (len(first.events), len(second.events), len(third.events)) == (PAGE_MAX, 5, 0)
    assert third.next == second.next == PAGE_MAX + 5
    assert EVENTS_MAX > PAGE_MAX
