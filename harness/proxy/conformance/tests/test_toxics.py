"""What the toxics do to real connections, in both directions, live or new: the same of both."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from harness.proxy.conformance.tests.peers import (
    WAIT_S,
    End,
    Pair,
    Server,
    connected,
    end_of,
    ms_since,
    quiet,
    receive,
)
from harness.proxy.conformance.tests.subject import Link
from harness.system.clock import Deadline, monotonic_us, wait_until

pytestmark = pytest.mark.real

STREAMS = ["upstream", "downstream"]
SENDINGS_MAX = 100
QUIET_S = 0.15
"""Long enough to see that something does not come."""


def ends(pair: Pair, stream: str) -> tuple[socket.socket, socket.socket]:
    """Who sends and who receives on a stream."""
    return (pair.client, pair.server) if stream == "upstream" else (pair.server, pair.client)


def took_ms(pair: Pair, stream: str) -> float:
    """How long a byte takes."""
    sender, receiver = ends(pair, stream)
    begun_us = monotonic_us()
    sender.sendall(b"x")
    assert receive(receiver, 1) == b"x"
    return ms_since(begun_us)


def comes_within(ms: int, pair: Pair, stream: str) -> bool:
    """Whether a byte takes less than that; of several on a busy machine one."""
    return wait_until(lambda: took_ms(pair, stream) < ms, deadline=Deadline(WAIT_S))


@pytest.mark.parametrize("stream", STREAMS)
def test_latency_delays_its_stream_alone_on_a_live_connection(link: Link, pair: Pair, stream: str) -> None:
    link.poison("latency", {"latency": 120}, stream=stream)
    other = next(name for name in STREAMS if name != stream)

    assert took_ms(pair, stream) >= 120
    assert comes_within(120, pair, other)


def test_latencies_add_up(link: Link, pair: Pair) -> None:
    for name in ("first", "second"):
        link.poison("latency", {"latency": 80}, name=name)

    assert took_ms(pair, "downstream") >= 160


def test_latency_keeps_the_order_and_many_chunks_wait_at_once(link: Link, pair: Pair) -> None:
    link.poison("latency", {"latency": 150, "jitter": 50})
    sent = b"".join(b"%04d" % number for number in range(200))
    begun_us = monotonic_us()

    for start in range(0, len(sent), 4):
        pair.server.sendall(sent[start : start + 4])

    assert receive(pair.client, len(sent)) == sent
    assert 100 <= ms_since(begun_us) < 20_000  # one after the other they would take 30 s


def test_removing_latency_lets_go_at_once(link: Link, pair: Pair) -> None:
    name = link.poison("latency", {"latency": 60_000})
    pair.server.sendall(b"held")
    assert quiet(pair.client, for_s=QUIET_S)

    link.cure(name)

    assert receive(pair.client, 4) == b"held"


def test_a_change_of_latency_holds_for_what_comes_then(link: Link, pair: Pair) -> None:
    name = link.poison("latency", {"latency": 0})
    assert comes_within(100, pair, "downstream")

    link.change(name, {"latency": 120})

    assert took_ms(pair, "downstream") >= 120


@pytest.mark.parametrize("stream", STREAMS)
def test_bandwidth_counts_kilobytes_of_1000_bytes_without_a_burst(
    link: Link, pair: Pair, stream: str
) -> None:
    link.poison("bandwidth", {"rate": 100}, stream=stream)
    sender, receiver = ends(pair, stream)
    begun_us = monotonic_us()

    sender.sendall(bytes(30_000))

    assert len(receive(receiver, 30_000)) == 30_000
    assert ms_since(begun_us) >= 290


def test_a_rate_of_0_stalls_and_loses_nothing(link: Link, pair: Pair) -> None:
    name = link.poison("bandwidth", {"rate": 0})
    pair.server.sendall(b"stalled")
    assert quiet(pair.client, for_s=QUIET_S)

    link.cure(name)

    assert receive(pair.client, 7) == b"stalled"


def test_slow_close_delays_the_end_alone(link: Link, pair: Pair) -> None:
    link.poison("slow_close", {"delay": 1_500})
    begun_us = monotonic_us()
    pair.server.sendall(b"bye")
    pair.server.close()

    assert receive(pair.client, 3) == b"bye"
    assert ms_since(begun_us) < 1_500
    assert end_of(pair.client) == (b"", End.FIN)
    assert ms_since(begun_us) >= 1_500


def test_removing_slow_close_lets_the_end_pass(link: Link, pair: Pair) -> None:
    name = link.poison("slow_close", {"delay": 60_000})
    pair.server.close()
    assert quiet(pair.client, for_s=QUIET_S)

    link.cure(name)

    assert end_of(pair.client) == (b"", End.FIN)


@pytest.mark.parametrize("stream", STREAMS)
def test_timeout_loses_what_comes_and_its_removal_closes(link: Link, pair: Pair, stream: str) -> None:
    name = link.poison("timeout", {"timeout": 0}, stream=stream)
    sender, receiver = ends(pair, stream)
    sender.sendall(b"lost")
    assert quiet(receiver, for_s=QUIET_S)

    link.cure(name)

    assert end_of(receiver) == (b"", End.FIN)
    assert end_of(sender) == (b"", End.FIN)


def test_timeout_leaves_the_other_stream_alone(link: Link, pair: Pair) -> None:
    link.poison("timeout", {"timeout": 0}, stream="upstream")

    assert comes_within(1_000, pair, "downstream")


def test_timeout_closes_an_idle_connection_after_its_time(link: Link, pair: Pair) -> None:
    begun_us = monotonic_us()
    link.poison("timeout", {"timeout": 150})

    assert end_of(pair.client) == (b"", End.FIN)
    assert ms_since(begun_us) >= 140


def test_timeout_that_is_set_later_starts_then(link: Link, pair: Pair) -> None:
    name = link.poison("timeout", {"timeout": 0})
    assert quiet(pair.client, for_s=QUIET_S)
    begun_us = monotonic_us()

    link.change(name, {"timeout": 150})

    assert end_of(pair.client) == (b"", End.FIN)
    assert ms_since(begun_us) >= 140


def test_the_end_passes_a_timeout(link: Link, pair: Pair) -> None:
    link.poison("timeout", {"timeout": 0})
    pair.server.close()

    assert end_of(pair.client) == (b"", End.FIN)


def test_reset_peer_resets_new_connections_at_their_next_bytes(link: Link, server: Server) -> None:
    link.poison("reset_peer", {"timeout": 0})
    with connected(link.address, server) as pair:
        assert quiet(pair.client, for_s=0.05), "an idle connection stays"
        pair.server.sendall(b"x")

        assert end_of(pair.client) == (b"", End.RST)


def test_reset_peer_waits_its_time(link: Link, server: Server) -> None:
    link.poison("reset_peer", {"timeout": 150})
    with connected(link.address, server) as pair:
        begun_us = monotonic_us()
        pair.server.sendall(b"x")

        assert end_of(pair.client) == (b"", End.RST)
        assert ms_since(begun_us) >= 140


@pytest.mark.parametrize("stream", STREAMS)
def test_slicer_delivers_everything_in_small_pieces(link: Link, pair: Pair, stream: str) -> None:
    link.poison("slicer", {"average_size": 10, "size_variation": 3, "delay": 2_000}, stream=stream)
    sender, receiver = ends(pair, stream)
    sent = bytes(range(256))

    def pieces_of_a_sending() -> int:
        sender.sendall(sent)
        pieces: list[bytes] = []
        while sum(map(len, pieces)) < len(sent):
            pieces.append(receiver.recv(65_536))
        assert b"".join(pieces) == sent
        return len(pieces)

    # The kernel joins pieces that a busy reader has not fetched yet, so it may have to be sent again.
    assert any(pieces_of_a_sending() >= 10 for _ in range(SENDINGS_MAX))


def test_removing_a_slicer_lets_go_of_the_rest_at_once(link: Link, pair: Pair) -> None:
    name = link.poison("slicer", {"average_size": 1, "delay": 2_000_000})
    pair.server.sendall(b"abcdefghij")
    assert receive(pair.client, 1) == b"a"
    begun_us = monotonic_us()

    link.cure(name)

    assert receive(pair.client, 9) == b"bcdefghij"
    assert ms_since(begun_us) < 10_000


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("limit", [1, 7, 50])
def test_limit_data_delivers_exactly_so_many_bytes_then_closes(
    link: Link, pair: Pair, stream: str, limit: int
) -> None:
    link.poison("limit_data", {"bytes": limit}, stream=stream)
    sender, receiver = ends(pair, stream)
    sent = bytes(range(100))

    for start in range(0, 100, 3):
        try:
            sender.sendall(sent[start : start + 3])
        except OSError:
            break

    assert end_of(receiver)[0] == sent[:limit]


def test_a_limit_of_0_closes_at_the_first_bytes(link: Link, pair: Pair) -> None:
    link.poison("limit_data", {"bytes": 0})
    assert quiet(pair.client, for_s=0.05)

    pair.server.sendall(b"x")

    assert end_of(pair.client) == (b"", End.FIN)


def test_limits_count_for_each_connection_and_survive_a_change(
    link: Link, server: Server, pair: Pair
) -> None:
    name = link.poison("limit_data", {"bytes": 10})
    pair.server.sendall(b"123456")
    assert receive(pair.client, 6) == b"123456"
    link.change(name, {"bytes": 8})
    pair.server.sendall(b"7890")

    assert end_of(pair.client) == (b"78", End.FIN)
    with connected(link.address, server) as other:
        other.server.sendall(b"abcdefghij")
        assert end_of(other.client)[0] == b"abcdefgh"


def test_noop_does_nothing(link: Link, pair: Pair) -> None:
    link.poison("noop")

    assert comes_within(1_000, pair, "downstream")


def test_a_toxicity_of_0_never_acts(link: Link, server: Server) -> None:
    link.poison("timeout", {"timeout": 0}, toxicity=0)
    for _ in range(10):
        with connected(link.address, server) as pair:
            assert comes_within(1_000, pair, "downstream")


def test_a_toxicity_of_a_half_acts_on_some(link: Link, server: Server) -> None:
    link.poison("timeout", {"timeout": 0}, toxicity=0.5)
    with ExitStack() as stack:
        pairs = [stack.enter_context(connected(link.address, server)) for _ in range(40)]
        for pair in pairs:
            pair.server.sendall(b"x")

        def passed() -> int:
            return sum(_has_something(pair.client) for pair in pairs)

        wait_until(lambda: passed() == 40, deadline=Deadline(1.0))

        assert 2 <= passed() <= 38


def _has_something(end: socket.socket) -> bool:
    end.setblocking(False)
    try:
        return bool(end.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        end.settimeout(5)


def test_toxics_act_in_the_order_of_their_creation(link: Link, pair: Pair) -> None:
    """Behind a limit that lets nothing more through, latency has nothing to delay; before it, it has."""
    link.poison("limit_data", {"bytes": 3}, name="first")
    link.poison("latency", {"latency": 100}, name="second")
    begun_us = monotonic_us()
    pair.server.sendall(b"abcdef")

    assert end_of(pair.client) == (b"abc", End.FIN)
    assert ms_since(begun_us) >= 90


def test_nothing_is_lost_while_toxics_come_and_go(link: Link, pair: Pair) -> None:
    """20 MB, byte for byte, at 20 MB a second."""
    sent = bytes(index * 7 % 251 for index in range(1 << 20)) * 20
    link.poison("bandwidth", {"rate": 20_000}, name="slow enough to be met by all of them")
    kinds: list[tuple[str, dict[str, int]]] = [
        ("latency", {"latency": 2, "jitter": 2}),
        ("slicer", {"average_size": 20_000, "size_variation": 5_000, "delay": 10}),
        ("bandwidth", {"rate": 100_000}),
    ]
    turns = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        got = pool.submit(receive, pair.client, len(sent), limit_s=60)
        pool.submit(pair.server.sendall, sent)
        while not got.done():
            type_, attributes = kinds[turns % len(kinds)]
            link.cure(link.poison(type_, attributes, name="passing"))
            turns += 1

    assert got.result() == sent
    assert turns >= 10
