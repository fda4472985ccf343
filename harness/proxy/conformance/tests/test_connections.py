"""Connections and links: opening, closing, moving, refusing, holding back; the same of both."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from harness.proxy.conformance.tests.peers import (
    WAIT_S,
    End,
    Pair,
    Server,
    connected,
    end_of,
    receive,
    upstream,
)
from harness.proxy.conformance.tests.subject import Link, Subject
from harness.system.clock import Deadline, wait_until

pytestmark = pytest.mark.real


def refused(address: tuple[str, int]) -> bool:
    """Whether a connect is refused."""
    try:
        socket.create_connection(address, timeout=WAIT_S).close()
    except ConnectionRefusedError:
        return True
    return False


def test_bytes_pass_both_ways(pair: Pair) -> None:
    pair.client.sendall(b"question")
    assert receive(pair.server, 8) == b"question"

    pair.server.sendall(b"answer")
    assert receive(pair.client, 6) == b"answer"


def test_a_close_reaches_the_other_end_behind_the_last_bytes(pair: Pair) -> None:
    pair.server.sendall(b"last words")
    pair.server.close()

    assert end_of(pair.client) == (b"last words", End.FIN)


def test_a_client_that_leaves_is_seen_upstream(pair: Pair) -> None:
    pair.client.close()

    assert end_of(pair.server) == (b"", End.FIN)


def test_disabling_cuts_and_refuses_and_enabling_listens_on_the_same_port(
    link: Link, server: Server, pair: Pair
) -> None:
    address = link.address
    assert link.set(enabled=False).json["enabled"] is False

    assert end_of(pair.client) == (b"", End.FIN)
    assert end_of(pair.server) == (b"", End.FIN)
    assert refused(address)
    assert link.set(enabled=True).json["listen"] == f"{address[0]}:{address[1]}"
    with connected(address, server) as again:
        again.client.sendall(b"x")
        assert receive(again.server, 1) == b"x"


def test_disabling_discards_what_is_delayed(link: Link, pair: Pair) -> None:
    link.poison("latency", {"latency": 60_000})
    pair.server.sendall(b"late")

    link.set(enabled=False)

    assert end_of(pair.client) == (b"", End.FIN)


def test_fifty_toggles_leave_a_link_that_works(link: Link, server: Server) -> None:
    for _ in range(50):
        assert link.set(enabled=False).status == 200
        assert link.set(enabled=True).status == 200

    with connected(link.address, server) as pair:
        pair.client.sendall(b"x")
        assert receive(pair.server, 1) == b"x"


def test_toggles_at_the_same_time_end_in_one_state(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    with ThreadPoolExecutor(max_workers=8) as pool:
        replies = list(pool.map(lambda number: link.set(enabled=bool(number % 2)), range(50)))
    assert {reply.status for reply in replies} == {200}

    assert link.set(enabled=True).json["enabled"] is True
    with connected(link.address, server) as pair:
        pair.client.sendall(b"x")
        assert receive(pair.server, 1) == b"x"


def test_toggles_of_many_links_at_the_same_time_keep_their_ports(proxy: Subject, server: Server) -> None:
    links = [proxy.link(server.address) for _ in range(10)]
    ports = [link.shown["listen"] for link in links]

    def toggle(link: Link) -> None:
        for _ in range(5):
            link.set(enabled=False)
            link.set(enabled=True)

    with ThreadPoolExecutor(max_workers=10) as pool:
        list(pool.map(toggle, links))

    assert [link.shown["listen"] for link in links] == ports


@pytest.mark.parametrize("how", ["upstream", "listen"])
def test_a_moved_link_cuts_its_connections_and_keeps_its_toxics(
    link: Link, server: Server, pair: Pair, how: str
) -> None:
    link.poison("latency", {"latency": 1})
    with upstream() as other, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        target = other if how == "upstream" else server
        port = other.address[1] if how == "upstream" else free
        assert link.set(**{how: f"127.0.0.1:{port}"}).status == 200

        assert end_of(pair.client)[1] is not None
        assert len(link.shown["toxics"]) == 1
        with connected(link.address, target) as moved:
            moved.client.sendall(b"x")
            assert receive(moved.server, 1) == b"x"


def test_deleting_a_link_cuts_its_connections(proxy: Subject, link: Link, pair: Pair) -> None:
    address = link.address
    assert proxy.ask("DELETE", link.path).status == 204

    assert end_of(pair.client) == (b"", End.FIN)
    assert refused(address)


def test_a_dead_upstream_means_connect_then_close_and_its_return_needs_no_call(proxy: Subject) -> None:
    with upstream() as gone:
        port = gone.address[1]
    link = proxy.link(("127.0.0.1", port))
    with socket.create_connection(link.address, timeout=WAIT_S) as client:
        assert end_of(client)[1] is not None

    with upstream(port) as back, connected(link.address, back) as pair:
        pair.client.sendall(b"x")
        assert receive(pair.server, 1) == b"x"


def test_a_client_that_does_not_read_finally_blocks_the_server_and_loses_nothing(pair: Pair) -> None:
    chunk = bytes(65_536)
    pair.server.setblocking(False)
    sent = 0

    def stuck() -> bool:
        nonlocal sent
        before = sent
        with suppress(BlockingIOError):
            while sent < 512 << 20:
                sent += pair.server.send(chunk)
        return sent == before

    assert wait_until(lambda: stuck() and stuck(), deadline=Deadline(WAIT_S), every_s=0.1)

    assert sent < 64 << 20, "buffers are bounded"
    assert len(receive(pair.client, sent, limit_s=20)) == sent


def test_a_client_that_does_not_read_never_blocks_another(link: Link, server: Server, pair: Pair) -> None:
    pair.server.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            pair.server.send(bytes(65_536))

    with connected(link.address, server) as other:
        other.server.sendall(b"fine")
        assert receive(other.client, 4) == b"fine"


def test_a_hundred_connections_at_once_each_get_their_own_answer(link: Link, server: Server) -> None:
    with ExitStack() as stack:
        pairs = [stack.enter_context(connected(link.address, server)) for _ in range(100)]
        for number, pair in enumerate(pairs):
            pair.client.sendall(b"%03d" % number)

        assert [receive(pair.server, 3) for pair in pairs] == [b"%03d" % number for number in range(100)]
