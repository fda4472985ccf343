"""A link's port: open, shut, refusing, stalling; its connections are numbered and counted."""

from __future__ import annotations

import socket
import threading

import pytest

from harness.proxy.link import Cutting, Link
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.tests.conftest import Stand
from harness.proxy.toxics.stage import Stream
from harness.system.process_identity import ProcessIdentity
from reference_impl.mailbox.loops import real_loop


def test_a_stopped_link_ends_its_connections_and_refuses_new_ones(stand: Stand) -> None:
    client, server = stand.pair()

    stand.call(stand.link.stop)

    assert (stand.ending(client), stand.ending(server)) == ("fin", "fin")
    with pytest.raises(ConnectionRefusedError):
        stand.client()
    assert len(stand.log("shut")) == 1


def test_a_link_stops_and_starts_on_its_port_fifty_times(stand: Stand) -> None:
    address = stand.address

    for _ in range(50):
        stand.call(stand.link.stop)
        stand.call(stand.link.start)
        stand.client()

    assert stand.address == address


def test_nobody_takes_the_port_of_a_stopped_link(stand: Stand) -> None:
    stand.call(stand.link.stop)

    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind(stand.address)


def test_a_port_that_is_taken_is_an_error_of_the_system(stand: Stand) -> None:
    def start_another() -> None:
        host, port = stand.address
        with real_loop() as loop:
            parts = ProxyParts(loop, seed=1)
            Link(name="other", listen=f"{host}:{port}", upstream="127.0.0.1:1", parts=parts).start()

    with pytest.raises(OSError, match="in use"):
        start_another()


def test_a_link_that_cannot_move_stays_where_it_is(stand: Stand) -> None:
    before = stand.link.listen
    taken = "{}:{}".format(*stand.upstream.getsockname())

    with pytest.raises(OSError, match="in use"):
        stand.call(lambda: stand.link.move(listen=taken))

    assert stand.link.listen == before
    stand.pair()


def test_a_moved_link_serves_at_its_new_address_only(stand: Stand) -> None:
    before = stand.address

    stand.call(lambda: stand.link.move(listen="127.0.0.1:0"))

    stand.pair()
    assert stand.address != before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(before)


def test_refuse_spares_live_connections(stand: Stand) -> None:
    client, server = stand.pair()

    stand.add("refuse")

    with pytest.raises(ConnectionRefusedError):
        stand.client()
    server.sendall(b"!")
    assert stand.read(client, 1) == b"!"
    assert len(stand.log("refused")) == 1


def test_refuse_removed_listens_at_the_same_port(stand: Stand) -> None:
    stand.pair()
    stand.add("refuse")
    stand.add("refuse", name="second")
    address = stand.address

    stand.remove()
    with pytest.raises(ConnectionRefusedError):
        stand.client()
    stand.remove("second")

    stand.pair()
    assert stand.address == address


def test_a_link_that_refuses_stays_shut_when_it_is_started(stand: Stand) -> None:
    stand.call(stand.link.stop)
    stand.add("refuse")

    stand.call(stand.link.start)

    with pytest.raises(ConnectionRefusedError):
        stand.client()


def test_stall_accepts_and_dials_nobody(stand: Stand) -> None:
    stand.add("stall")

    client = stand.client()
    client.sendall(b"hello?")

    assert stand.silent(client)
    assert [each["state"] for each in stand.call(stand.link.connections)] == ["stalled"]
    assert [event.connection for event in stand.log("stalled")] == [1]
    stand.upstream.settimeout(0.03)
    with pytest.raises(TimeoutError):
        stand.upstream.accept()


def test_stall_removed_lets_the_connection_go_on(stand: Stand) -> None:
    stand.add("stall")
    client = stand.client()
    client.sendall(b"hello?")
    stand.until(lambda: len(stand.link.connections()) == 1)

    stand.remove()

    assert stand.read(stand.served(), 6) == b"hello?"


def test_stall_spares_live_connections(stand: Stand) -> None:
    client, server = stand.pair()

    stand.add("stall")

    server.sendall(b"!")
    assert stand.read(client, 1) == b"!"


def test_toxics_are_listed_upstream_first_in_order_of_creation(stand: Stand) -> None:
    for name, stream in (
        ("a", Stream.DOWNSTREAM),
        ("b", Stream.UPSTREAM),
        ("c", Stream.DOWNSTREAM),
        ("d", Stream.UPSTREAM),
    ):
        stand.add("noop", name=name, stream=stream)

    assert [toxic.name for toxic in stand.link.toxics] == ["b", "d", "a", "c"]


def test_what_passed_is_counted_for_live_and_ended_connections(stand: Stand) -> None:
    for ends in (True, False):
        client, server = stand.pair()
        client.sendall(b"12345")
        stand.read(server, 5)
        server.sendall(b"123")
        stand.read(client, 3)
        if ends:
            client.close()
            server.close()
            stand.until(lambda: not stand.link.connections())

    assert stand.call(stand.link.traffic) == {Stream.UPSTREAM: (10, 10), Stream.DOWNSTREAM: (6, 6)}
    (live,) = stand.call(stand.link.connections)
    assert live["id"] == 2
    assert live["upstream"] == {"received": 5, "delivered": 5, "held": 0, "swallowed": 0}


def test_one_connection_is_cut_and_the_others_go_on(stand: Stand) -> None:
    first, first_server = stand.pair()
    second, second_server = stand.pair()

    cut = stand.call(lambda: stand.link.cut(Cutting.RST, connection=1))
    second.sendall(b"x")

    assert cut == [1]
    assert (stand.ending(first), stand.ending(first_server)) == ("rst", "rst")
    assert second_server.recv(1) == b"x"


def test_a_live_connection_is_shown_with_the_port_of_its_client(stand: Stand) -> None:
    client, _ = stand.pair()

    (shown,) = stand.call(stand.link.connections)

    assert shown["peer"] == "{}:{}".format(*client.getsockname())
    assert "session" not in shown, "no server has greeted"


def test_a_connection_whose_process_is_looked_up_is_shown_as_being_dialled_and_then_with_its_pid(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = threading.Event()

    def owner(*, port: int, peer: int) -> ProcessIdentity:
        assert found.wait(60)
        return ProcessIdentity(pid=port, started=peer)

    monkeypatch.setattr("harness.proxy.connection.owner_of_socket", owner)
    stand.parts.identifies = True
    client = stand.client()
    stand.until(lambda: bool(stand.link.connections()))

    [before] = stand.call(stand.link.connections)
    found.set()
    stand.served()
    stand.until(lambda: stand.link.connections()[0]["state"] == "live")
    [after] = stand.call(stand.link.connections)

    assert (before["state"], before.get("pid")) == ("dialling", None)
    assert after["pid"] == client.getsockname()[1]
