"""Toxics that only take time: nothing is lost, nothing overtakes, and removal lets go at once."""

from __future__ import annotations

import socket

import pytest

from harness.proxy.tests.conftest import Stand
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Stream
from harness.system.clock import monotonic_us

UPSTREAM, DOWNSTREAM = Stream.UPSTREAM, Stream.DOWNSTREAM


def _since(begun_us: int) -> float:
    return (monotonic_us() - begun_us) / 1_000_000


@pytest.fixture(params=[UPSTREAM, DOWNSTREAM])
def stream(request: pytest.FixtureRequest) -> Stream:
    return Stream(request.param)


def test_latency_delays_by_what_it_is_set_to(stand: Stand, stream: Stream) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("latency", stream=stream, latency=60)

    begun = monotonic_us()
    sender.sendall(b"!")
    stand.read(hearer, 1)
    took = _since(begun)

    assert took >= 0.06
    assert [(event.numbers["bytes"], event.numbers["ms"]) for event in stand.log("delayed")] == [(1, 60)]


def test_latency_delays_neither_the_connect_nor_the_other_direction(stand: Stand) -> None:
    stand.add("latency", latency=60_000)

    client, server = stand.pair()
    client.sendall(b"!")

    assert stand.read(server, 1) == b"!"


def test_two_latencies_add_up(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("latency", name="one", latency=30)
    stand.add("latency", name="two", latency=40)

    begun = monotonic_us()
    sender.sendall(b"!")
    stand.read(hearer, 1)

    assert _since(begun) >= 0.07


def test_latency_removed_lets_go_at_once_and_in_order(stand: Stand, stream: Stream) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("latency", stream=stream, latency=60_000)
    for number in range(10):
        sender.sendall(bytes([number]) * 10)
        stand.until_received(stream, 10 * number + 10)
    sender.shutdown(socket.SHUT_WR)

    stand.remove()

    assert stand.read(hearer, 1_000) == b"".join(bytes([number]) * 10 for number in range(10))


def test_jitter_never_lets_a_chunk_overtake(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("latency", latency=5, jitter=5)

    for number in range(60):
        sender.sendall(bytes([number]))

    assert stand.read(hearer, 60) == bytes(range(60))


def test_a_negative_latency_is_none(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("latency", latency=-60_000)

    sender.sendall(b"!")

    assert stand.read(hearer, 1) == b"!"


def test_bandwidth_keeps_its_rate_without_a_burst(stand: Stand, stream: Stream) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("bandwidth", stream=stream, rate=200)

    begun = monotonic_us()
    sender.sendall(bytes(20_000))
    stand.read(hearer, 20_000)
    took = _since(begun)

    assert took >= 0.1
    assert sum(int(event.numbers["bytes"]) for event in stand.log("held")) == 20_000


def test_bandwidth_writes_down_how_fast_bytes_really_passed(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("bandwidth", rate=200)

    begun = monotonic_us()
    for _ in range(2):
        sender.sendall(bytes(10_000))
        stand.read(hearer, 10_000)

    paced = [event.numbers for event in stand.log("paced")]
    assert sum(int(numbers["bytes"]) for numbers in paced) == 20_000
    assert sum(int(numbers["empty"]) for numbers in paced) >= 2
    assert 90_000 <= sum(int(numbers["us"]) for numbers in paced) <= monotonic_us() - begun


def test_bandwidth_of_zero_stalls_and_loses_nothing(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("bandwidth", rate=0)
    sender.sendall(b"all of it")
    sender.shutdown(socket.SHUT_WR)
    assert stand.silent(hearer)

    stand.remove()

    assert stand.read(hearer, 100) == b"all of it"


def test_bandwidth_changed_holds_for_what_waits_already(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("bandwidth", rate=0)
    sender.sendall(bytes(10_000))
    assert stand.silent(hearer)

    stand.update(rate=1_000)

    assert len(stand.read(hearer, 10_000)) == 10_000


def test_bandwidth_refuses_a_negative_rate() -> None:
    assert TOXIC_KINDS["bandwidth"].refuse({"rate": -1})
    assert not TOXIC_KINDS["bandwidth"].refuse({"rate": 0})


def test_slow_close_delays_the_fin_only(stand: Stand, stream: Stream) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("slow_close", stream=stream, delay=300)

    begun = monotonic_us()
    sender.sendall(b"!")
    heard = stand.read(hearer, 1)
    heard_after = _since(begun)
    sender.shutdown(socket.SHUT_WR)
    ending = stand.ending(hearer)

    assert (heard, ending) == (b"!", "fin")
    assert heard_after < 0.25
    assert _since(begun) >= 0.3


def test_slow_close_removed_passes_the_fin_on_at_once(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("slow_close", delay=60_000)
    sender.shutdown(socket.SHUT_WR)
    stand.until(lambda: bool(stand.link.log_after(0).events))

    stand.remove()

    assert stand.ending(hearer) == "fin"


def test_slicer_cuts_into_pieces_and_keeps_the_bytes(stand: Stand, stream: Stream) -> None:
    sender, hearer = stand.ends(stream)
    stand.add("slicer", stream=stream, average_size=3, size_variation=2, delay=1_000)
    sent = bytes(range(60))

    sender.sendall(sent)
    pieces: list[bytes] = []
    while len(b"".join(pieces)) < len(sent):
        pieces.append(hearer.recv(1_000))

    assert b"".join(pieces) == sent
    assert len(pieces) > 1
    assert sum(int(event.numbers["pieces"]) for event in stand.log("sliced")) >= 60 / 5
    assert sum(int(event.numbers["bytes"]) for event in stand.log("sliced")) == 60


def test_what_is_too_little_or_too_slow_to_notice_leaves_no_event(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("slicer", name="large", average_size=1_000)
    stand.add("bandwidth", name="fast", rate=10_000_000)
    stand.add("latency", name="none", latency=0)

    sender.sendall(b"!")

    assert stand.read(hearer, 1) == b"!"
    assert not stand.call(lambda: stand.link.log_after(0)).events


def test_slicer_pauses_after_each_piece(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("slicer", average_size=1, delay=2_000)

    begun = monotonic_us()
    sender.sendall(bytes(30))
    stand.read(hearer, 30)

    assert _since(begun) >= 29 * 0.002


def test_slicer_writes_down_its_pieces_and_the_gaps_between_them(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("slicer", average_size=5, delay=4_000)

    begun = monotonic_us()
    sender.sendall(bytes(32))
    stand.read(hearer, 32)
    took_us = monotonic_us() - begun

    def total(number: str) -> int:
        return sum(int(event.numbers[number]) for event in stand.log("sliced"))

    assert [total(number) for number in ("bytes", "pieces", "tails", "tail_bytes", "gaps")] == [
        32,
        7,
        1,
        2,
        6,
    ]
    assert 6 * 4_000 <= total("gap_us") <= took_us


def test_slicer_removed_lets_go_in_order(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("slicer", average_size=1, delay=60_000_000)
    sender.sendall(bytes(range(100)))
    sender.shutdown(socket.SHUT_WR)
    assert stand.read(hearer, 1) == b"\0"

    stand.remove()

    assert stand.read(hearer, 1_000) == bytes(range(1, 100))


def test_slicer_refuses_pieces_of_nothing() -> None:
    """Toxiproxy's whole server dies of them."""
    kind = TOXIC_KINDS["slicer"]

    assert kind.refuse(kind.attributes)
    assert not kind.refuse({"average_size": 1, "size_variation": 5, "delay": 0})


def test_slicer_with_more_variation_than_size_still_cuts(stand: Stand) -> None:
    """Of this, too, Toxiproxy's server dies."""
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("slicer", average_size=2, size_variation=50)

    sender.sendall(bytes(range(200)))

    assert stand.read(hearer, 200) == bytes(range(200))


def test_a_chain_acts_in_order_of_creation(stand: Stand) -> None:
    """A limit behind a swallowing toxic counts nothing; before it, it closes."""
    stand.add("timeout", name="swallow", timeout=0)
    stand.add("limit_data", name="limit", bytes=0)
    client, server = stand.pair()
    server.sendall(b"swallowed first")
    assert stand.silent(client)

    stand.remove("swallow")
    client, server = stand.pair()
    stand.add("timeout", name="swallow", timeout=0)
    server.sendall(b"limited first")

    assert stand.read(client, 1) == b""


def test_a_toxic_removed_from_the_middle_leaves_the_rest_in_order(stand: Stand) -> None:
    sender, hearer = stand.ends(DOWNSTREAM)
    stand.add("latency", name="a", latency=60_000)
    stand.add("latency", name="b", latency=60_000)
    stand.add("bandwidth", name="c", rate=0)
    sender.sendall(b"12")
    stand.until_received(DOWNSTREAM, 2)

    stand.remove("b")
    stand.remove("a")
    sender.sendall(b"34")
    stand.remove("c")

    assert stand.read(hearer, 4) == b"1234"


def test_what_a_limit_let_pass_still_comes_through_the_stages_behind_it(stand: Stand) -> None:
    stand.add("limit_data", name="limit", bytes=3)
    stand.add("latency", name="lag", latency=40)
    client, server = stand.pair()

    begun = monotonic_us()
    server.sendall(b"abcdef")

    assert stand.read(client, 6) == b"abc"
    assert _since(begun) >= 0.04
    assert stand.ending(server) == "fin"
