"""The declared differences that connections meet, each shown on both."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from select import select

import pytest

from harness.proxy.conformance.tests.differences import shows
from harness.proxy.conformance.tests.peers import (
    WAIT_S,
    End,
    Pair,
    Server,
    connected,
    end_of,
    receive,
    reset_on_close,
    upstream,
)
from harness.proxy.conformance.tests.subject import Link, Subject
from harness.system.clock import Deadline, wait_until

NOWHERE = ("127.0.0.1", 1)
pytestmark = pytest.mark.real

DEATH_LIMIT_S = 60.0
"""Toxiproxy fills a gigabyte of stack before it dies, which takes its time on a busy machine."""

HANGS_S = 1.0
"""A call that takes longer than this does not answer at once."""

Start = Callable[..., AbstractContextManager[Subject]]


def dies(subject: Subject) -> bool:
    """Whether the process ends soon."""
    return wait_until(lambda: not subject.alive, deadline=Deadline(DEATH_LIMIT_S), every_s=0.02)


def sends(link: Link, server: Server, count: int = 100) -> bytes:
    """What of so many bytes arrives downstream on a new connection."""
    with connected(link.address, server) as pair:
        pair.server.sendall(bytes(count))
        return receive(pair.client, count)


def hangs(act: Callable[[], object]) -> bool:
    """Whether a call is not answered in time."""
    try:
        act()
    except TimeoutError:
        return True
    return False


@shows("slicer-of-nothing")
def test_a_slicer_of_no_size(lone_proxy: Subject, server: Server) -> None:
    link = lone_proxy.link(server.address)
    reply = lone_proxy.ask("POST", f"{link.path}/toxics", {"type": "slicer"})

    if lone_proxy.is_own:
        assert reply.status == 400
        assert "average_size" in reply.json["error"]
        assert len(sends(link, server)) == 100
    else:
        assert reply.status == 200
        sends(link, server)
        assert dies(lone_proxy)


@shows("slicer-varies-too-much")
def test_a_slicer_that_varies_by_more_than_its_size(lone_proxy: Subject, server: Server) -> None:
    link = lone_proxy.link(server.address)
    link.poison("slicer", {"average_size": 5, "size_variation": 50})

    delivered = sends(link, server, 10_000)

    if lone_proxy.is_own:
        assert len(delivered) == 10_000
    else:
        assert dies(lone_proxy)


@shows("negative-rate")
def test_a_negative_rate(lone_proxy: Subject, server: Server) -> None:
    link = lone_proxy.link(server.address)
    body = {"type": "bandwidth", "attributes": {"rate": -1}}
    reply = lone_proxy.ask("POST", f"{link.path}/toxics", body)

    if lone_proxy.is_own:
        assert reply.status == 400
        assert len(sends(link, server)) == 100
    else:
        assert reply.status == 200
        sends(link, server)
        assert dies(lone_proxy)


@shows("half-close")
def test_a_half_closed_connection(proxy: Subject, server: Server) -> None:
    with connected(proxy.link(server.address).address, server) as pair:
        pair.client.sendall(b"question")
        pair.client.shutdown(socket.SHUT_WR)
        assert end_of(pair.server) == (b"question", End.FIN)
        with suppress(OSError):
            pair.server.sendall(b"answer")
            pair.server.shutdown(socket.SHUT_WR)

        assert end_of(pair.client) == ((b"answer" if proxy.is_own else b""), End.FIN)


@shows("peer-resets")
def test_a_peer_that_resets(proxy: Subject, server: Server) -> None:
    with connected(proxy.link(server.address).address, server) as pair:
        reset_on_close(pair.server)
        pair.server.close()

        assert end_of(pair.client) == (b"", End.RST if proxy.is_own else End.FIN)


@shows("reset-of-live-connections")
def test_a_reset_of_a_live_connection(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    with connected(link.address, server) as pair:
        pair.server.sendall(b"live")
        assert receive(pair.client, 4) == b"live"
        link.poison("reset_peer", {"timeout": 0})
        pair.server.sendall(b"x")

        assert end_of(pair.client)[1] is (End.RST if proxy.is_own else End.FIN)


@shows("reset-leaves-run_loop_after_close")
def test_a_connection_after_a_reset_toxic_is_gone(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    name = link.poison("reset_peer", {"timeout": 0})
    with connected(link.address, server) as pair:
        link.cure(name)
        pair.server.close()

        assert end_of(pair.client)[1] is (End.FIN if proxy.is_own else End.RST)


@shows("removal-waits-for-a-sleep")
def test_a_removal_while_a_reset_waits(lone_proxy: Subject, server: Server) -> None:
    link = lone_proxy.link(server.address)
    name = link.poison("reset_peer", {"timeout": 3_000})
    with connected(link.address, server) as pair:
        pair.server.sendall(b"x")
        receive(pair.client, 1, limit_s=0.1)

        assert hangs(lambda: link.cure(name, limit_s=HANGS_S)) != lone_proxy.is_own
        if lone_proxy.is_own:
            assert end_of(pair.client)[1] is End.RST


@shows("timeout-of-a-busy-connection")
def test_a_timeout_on_a_busy_connection(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    with connected(link.address, server) as pair:
        link.poison("timeout", {"timeout": 200})
        over = Deadline(0.8)

        def closed() -> bool:
            with suppress(OSError):
                pair.server.sendall(b"busy")
            return end_of(pair.client, limit_s=0.02)[1] is not None

        assert wait_until(closed, deadline=over, every_s=0.02) == proxy.is_own


@shows("toxicity-is-drawn-again")
def test_toxicity_when_another_toxic_comes(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    link.poison("timeout", {"timeout": 0}, toxicity=0.5)
    with ExitStack() as stack:
        pairs = [stack.enter_context(connected(link.address, server)) for _ in range(30)]
        before = spared(pairs)
        link.poison("noop")

        assert (spared(pairs) == before) == proxy.is_own


def spared(pairs: list[Pair]) -> list[bool]:
    """Through which connections a byte comes."""
    for pair in pairs:
        pair.server.sendall(b"x")
    clients = [pair.client for pair in pairs]
    wait_until(lambda: len(select(clients, [], [], 0)[0]) == len(clients), deadline=Deadline(1.0))
    return [receive(client, 1, limit_s=0.001) == b"x" for client in clients]


@shows("seed")
@pytest.mark.parametrize("name", ["own", pytest.param("toxiproxy", marks=pytest.mark.real)])
def test_the_same_seed_twice(name: str, server: Server, start: Start) -> None:
    options = ("--seed", "7") if name == "own" else ("-seed", "7")
    hit: list[list[bool]] = []
    for _ in range(2):
        with start(name, *options) as subject, ExitStack() as stack:
            body = {"name": "l", "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{server.address[1]}"}
            subject.ask("POST", "/proxies", body)
            link = Link(subject=subject, name="l")
            link.poison("timeout", {"timeout": 0}, toxicity=0.5)
            hit.append(spared([stack.enter_context(connected(link.address, server)) for _ in range(30)]))

    assert (hit[0] == hit[1]) == (name == "own")
    assert 0 < sum(hit[0]) < 30


@shows("hangs-for-ever")
def test_a_removal_while_a_client_does_not_read(lone_proxy: Subject, server: Server) -> None:
    link = lone_proxy.link(server.address)
    name = link.poison("latency", {"latency": 50})
    with connected(link.address, server) as pair:
        pair.server.setblocking(False)
        over = Deadline(0.6)
        sent = 0

        def never() -> bool:
            nonlocal sent
            with suppress(BlockingIOError):
                sent += pair.server.send(bytes(262_144))
            return False

        wait_until(never, deadline=over, every_s=0.001)
        removal_hangs = hangs(lambda: link.cure(name, limit_s=HANGS_S))
        listing_hangs = hangs(lambda: lone_proxy.ask("GET", "/proxies", limit_s=HANGS_S))

        assert (removal_hangs, listing_hangs) == ((False, False) if lone_proxy.is_own else (True, True))
        if lone_proxy.is_own:
            assert len(receive(pair.client, sent)) == sent


@shows("waits-for-a-dial")
def test_disabling_while_a_dial_waits(lone_proxy: Subject) -> None:
    with upstream(backlog=0) as full, ExitStack() as stack:
        for _ in range(3):  # its queue is full then, and the kernel answers no more SYN
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.address)
        link = lone_proxy.link(full.address)
        stack.enter_context(socket.create_connection(link.address, timeout=WAIT_S))
        stack.enter_context(socket.create_connection(link.address, timeout=WAIT_S))

        def disable() -> object:
            return lone_proxy.ask("PATCH", link.path, {"enabled": False}, limit_s=HANGS_S)

        assert hangs(disable) != lone_proxy.is_own
