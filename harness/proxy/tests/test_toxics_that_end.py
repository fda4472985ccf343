"""Toxics that lose bytes or end connections: exactly those that they should, and with evidence."""

from __future__ import annotations

import socket

import pytest

from harness.proxy.tests.conftest import Stand
from harness.proxy.toxics.stage import Stream
from harness.system.clock import monotonic_us

UPSTREAM, DOWNSTREAM = Stream.UPSTREAM, Stream.DOWNSTREAM


def _since(begun_us: int) -> float:
    return (monotonic_us() - begun_us) / 1_000_000


@pytest.fixture(params=[UPSTREAM, DOWNSTREAM])
def stream(request: pytest.FixtureRequest) -> Stream:
    return Stream(request.param)


def test_timeout_swallows_and_closes_after_its_time_though_bytes_keep_coming(stand: Stand) -> None:
    """Toxiproxy starts its timer anew with every chunk, so that a busy connection lives for ever."""
    sender, hearer = stand.ends(DOWNSTREAM)
    begun = monotonic_us()
    stand.add("timeout", timeout=60)

    hearer.settimeout(0.005)
    ended = ""
    while not ended and _since(begun) < 2:
        sender.sendall(b"x" * 10)
        try:
            ended = "fin" if hearer.recv(1) == b"" else "heard"
        except TimeoutError:
            continue

    assert ended == "fin"
    assert 0.06 <= _since(begun) < 1
    assert stand.log("swallowed")
    assert len(stand.log("cut")) == 1


def test_timeout_of_zero_swallows_until_it_is_removed_which_closes(stand: Stand, stream: Stream) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("timeout", stream=stream, timeout=0)
    sender.sendall(b"lost")
    assert stand.silent(hearer)

    stand.remove()

    assert stand.read(hearer, 1) == b""
    assert stand.ending(sender) == "fin"


def test_timeout_lets_the_fin_pass(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("timeout", timeout=0)

    sender.sendall(b"lost")
    sender.shutdown(socket.SHUT_WR)

    assert stand.read(hearer, 1) == b""


def test_timeout_removed_closes_though_the_fin_has_passed_already(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("timeout", timeout=0)
    sender.shutdown(socket.SHUT_WR)
    assert stand.read(hearer, 1) == b""

    stand.remove()

    assert stand.ending(sender) == "fin"


def test_timeout_changed_from_zero_closes_live_connections(stand: Stand) -> None:
    _, hearer = stand.ends(DOWNSTREAM)
    stand.add("timeout", timeout=0)

    stand.update(timeout=10)

    assert stand.ending(hearer) == "fin"


def test_reset_peer_resets_both_ends_of_a_live_connection_at_the_next_bytes(
    stand: Stand, stream: Stream
) -> None:
    """Toxiproxy resets only connections that were opened under the toxic."""
    sender, hearer = stand.ends(stream)
    stand.add("reset_peer", stream=stream, timeout=0)
    assert stand.silent(hearer)

    sender.sendall(b"!")

    assert (stand.ending(sender), stand.ending(hearer)) == ("rst", "rst")
    assert len(stand.log("reset")) == 1


def test_reset_peer_waits_for_its_timeout(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    begun = monotonic_us()
    stand.add("reset_peer", timeout=50)

    sender.sendall(b"!")

    assert stand.ending(hearer) == "rst"
    assert _since(begun) >= 0.05


def test_reset_peer_removed_before_its_time_resets_a_connection_whose_bytes_it_swallowed_proxy_a(
    stand: Stand, stream: Stream
) -> None:
    """The connection would go on with a hole in its bytes."""
    sender, hearer = stand.ends(stream)
    stand.add("reset_peer", stream=stream, timeout=60_000)
    sender.sendall(b"swallowed")
    stand.until_received(stream, 9)

    stand.remove()

    assert (stand.ending(sender), stand.ending(hearer)) == ("rst", "rst")
    assert len(stand.log("reset")) == 1


def test_reset_peer_that_swallowed_nothing_is_removed_without_a_trace_proxy_a(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("reset_peer", timeout=60_000)

    stand.remove()
    sender.sendall(b"!")

    assert stand.read(hearer, 1) == b"!"


def test_reset_peer_that_held_only_a_fin_passes_it_on_when_it_is_removed_proxy_a(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("reset_peer", timeout=60_000)
    sender.shutdown(socket.SHUT_WR)
    assert stand.silent(hearer)

    stand.remove()

    assert stand.ending(hearer) == "fin"


@pytest.mark.parametrize("limit", [0, 1, 10, 70_000])
def test_limit_data_delivers_exactly_its_bytes_then_a_fin(stand: Stand, limit: int) -> None:
    stand.add("limit_data", bytes=limit)
    client, server = stand.pair()

    server.sendall(b"x" * 90_000)

    assert len(stand.read(client, 90_000)) == limit
    assert stand.log("limited")[0].numbers["bytes"] == limit


def test_limit_data_counts_each_connection_alone_and_from_when_it_was_added(stand: Stand) -> None:
    first, hearer = stand.ends(DOWNSTREAM)
    first.sendall(b"before")
    stand.read(hearer, 6)
    stand.add("limit_data", bytes=5)

    first.sendall(b"123456789")
    second = stand.pair()
    second[1].sendall(b"abcdefghi")

    assert (stand.read(hearer, 9), stand.read(second[0], 9)) == (b"12345", b"abcde")


def test_limit_data_lowered_below_its_count_closes_with_the_next_bytes(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("limit_data", bytes=100)
    sender.sendall(b"x" * 50)
    stand.read(hearer, 50)

    stand.update(bytes=10)
    assert stand.silent(hearer)
    sender.sendall(b"!")

    assert stand.read(hearer, 1) == b""


def test_noop_does_nothing_and_leaves_no_event(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("noop")

    sender.sendall(b"!")

    assert stand.read(hearer, 1) == b"!"
    assert not stand.call(lambda: stand.link.log_after(0)).events


@pytest.mark.parametrize("ending", ["bytes", "fin", "rst"])
def test_half_open_hides_a_peer_and_lets_the_other_speak(stand: Stand, stream: Stream, ending: str) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("half_open", stream=stream)

    hearer.sendall(b"still there?")
    assert stand.read(sender, 12) == b"still there?"
    match ending:
        case "bytes":
            sender.sendall(b"yes")
        case "fin":
            sender.shutdown(socket.SHUT_WR)
        case _:
            stand.abort(sender)
    stand.until(lambda: bool(stand.link.log_after(0).events))

    assert stand.silent(hearer)
    hearer.sendall(b"hello?")


def test_half_open_removed_resets_the_connections_it_acted_on(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    idle = stand.ends(DOWNSTREAM)
    stand.add("half_open")
    sender.sendall(b"lost")
    stand.until(lambda: bool(stand.link.log_after(0).events))

    stand.remove()
    idle[0].sendall(b"!")

    assert (stand.ending(sender), stand.ending(hearer)) == ("rst", "rst")
    assert stand.read(idle[1], 1) == b"!"
