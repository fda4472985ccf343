"""A connection through our proxy behaves like one without: bytes, FIN and RST arrive as what they are."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from harness.proxy.link import Cutting
from harness.proxy.tests.conftest import Stand
from harness.proxy.toxics.stage import Stream


def test_bytes_pass_in_both_directions(stand: Stand) -> None:
    client, server = stand.pair()

    client.sendall(b"question")
    question = stand.read(server, 8)
    server.sendall(b"answer")

    assert (question, stand.read(client, 6)) == (b"question", b"answer")


def test_an_answer_after_half_close_still_arrives(stand: Stand) -> None:
    """Toxiproxy closes both ways at the first FIN."""
    client, server = stand.pair()
    client.sendall(b"last words")
    client.shutdown(socket.SHUT_WR)

    heard = stand.read(server, 100)
    server.sendall(b"late answer")
    server.close()

    assert (heard, stand.read(client, 100)) == (b"last words", b"late answer")


def test_a_fin_of_both_ends_leaves_nothing_behind(stand: Stand) -> None:
    client, server = stand.pair()

    client.close()
    assert stand.ending(server) == "fin"
    server.close()

    stand.until(lambda: not stand.link.connections())


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_of_one_end_is_a_reset_at_the_other(stand: Stand, who: str) -> None:
    client, server = stand.pair()
    aborted, other = (client, server) if who == "client" else (server, client)

    stand.abort(aborted)

    assert stand.ending(other) == "rst"
    stand.until(lambda: not stand.link.connections())


def test_a_reset_is_passed_on_while_its_sender_is_not_read(stand: Stand) -> None:
    client, server = stand.pair()
    stand.flood(server)

    stand.abort(server)

    assert stand.ending(client) == "rst"


@pytest.mark.parametrize(("how", "seen"), [(Cutting.RST, "rst"), (Cutting.FIN, "fin")])
def test_a_cut_reaches_both_ends_of_an_idle_connection(stand: Stand, how: Cutting, seen: str) -> None:
    client, server = stand.pair()
    stand.until(lambda: stand.link.connections()[0]["state"] == "live")

    cut = stand.call(lambda: stand.link.cut(how))

    assert cut == [1]
    assert (stand.ending(client), stand.ending(server)) == (seen, seen)
    assert len(stand.log("reset" if how is Cutting.RST else "cut")) == 1


def test_a_cut_ends_what_was_unread_by_a_fin_all_the_same(stand: Stand) -> None:
    """Unread bytes in the proxy's socket would turn its FIN into a reset."""
    client, server = stand.pair()
    stand.add("bandwidth", stream=Stream.UPSTREAM, rate=0)
    client.sendall(b"never read")
    stand.until(lambda: stand.link.traffic()[Stream.UPSTREAM][0] > 0)

    stand.call(lambda: stand.link.cut(Cutting.FIN))

    assert (stand.ending(client), stand.ending(server)) == ("fin", "fin")


def test_a_dead_upstream_means_accepted_then_closed(stand: Stand) -> None:
    stand.call(lambda: stand.link.retarget("127.0.0.1:1"))

    client = stand.client()

    assert stand.ending(client) == "fin"


def test_an_upstream_that_returns_needs_no_call(stand: Stand) -> None:
    address = stand.upstream.getsockname()
    stand.upstream.close()
    assert stand.ending(stand.client()) == "fin"

    stand.upstream = socket.create_server(address)
    client, server = stand.pair()
    server.sendall(b"!")

    assert stand.read(client, 1) == b"!"


def test_an_upstream_may_be_a_name(stand: Stand) -> None:
    port = stand.upstream.getsockname()[1]
    stand.call(lambda: stand.link.retarget(f"localhost:{port}"))

    client, server = stand.pair()
    server.sendall(b"!")

    assert stand.read(client, 1) == b"!"


def test_an_upstream_that_is_no_address_means_accepted_then_closed(stand: Stand) -> None:
    stand.call(lambda: stand.link.retarget("nonsense"))

    assert stand.ending(stand.client()) == "fin"


def test_a_dial_that_hangs_keeps_nobody_waiting(stand: Stand) -> None:
    """A server whose queue is full answers no SYN: Toxiproxy's accept loop then stands still."""
    good = stand.link.upstream
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        stand.link.upstream = "{}:{}".format(*full.getsockname())
        hanging = stand.client()
        stand.until(lambda: [each["state"] for each in stand.link.connections()] == ["dialling"])

        stand.link.upstream = good
        client, server = stand.pair()
        server.sendall(b"!")

        assert stand.read(client, 1) == b"!"
        hanging.close()


def test_a_client_that_leaves_during_the_dial_ends_it(stand: Stand) -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        stand.link.upstream = "{}:{}".format(*full.getsockname())
        client = stand.client()
        stand.until(lambda: len(stand.link.connections()) == 1)

        stand.abort(client)

        stand.until(lambda: not stand.link.connections())


def test_no_linger_is_left_behind_by_a_reset_of_others(stand: Stand) -> None:
    client, server = stand.pair()
    stand.until(lambda: stand.link.connections()[0]["state"] == "live")
    stand.call(lambda: stand.link.cut(Cutting.RST))
    assert stand.ending(client) == stand.ending(server) == "rst"

    client, server = stand.pair()
    server.close()

    assert stand.ending(client) == "fin"
