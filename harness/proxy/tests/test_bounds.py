"""What the proxy holds is bounded, nobody waits for another, and no byte is lost however the toxics change."""

from __future__ import annotations

import hashlib
import socket
import threading

import pytest

from harness.proxy.proxy_parts import Holdings
from harness.proxy.tests.conftest import Stand
from harness.proxy.toxics.stage import HELD_MAX, Stream
from harness.system.choices import Choices

KERNEL_MAX = 24 << 20
"""What the sockets of both ends and of the proxy may hold together, at the most that Linux lets them grow."""


@pytest.mark.parametrize("kind", ["none", "latency", "bandwidth", "slicer"])
def test_a_client_that_does_not_read_finally_blocks_its_server(stand: Stand, kind: str) -> None:
    server, _ = stand.ends(Stream.DOWNSTREAM)
    match kind:
        case "latency":
            stand.add("latency", latency=60_000)
        case "bandwidth":
            stand.add("bandwidth", rate=0)
        case "slicer":
            stand.add("slicer", average_size=65_536, delay=60_000_000)
        case _:
            pass

    sent = stand.flood(server)

    (live,) = stand.call(stand.link.connections)
    counted = live["downstream"]
    assert isinstance(counted, dict)
    assert counted["held"] <= HELD_MAX + 65_536
    assert sent <= HELD_MAX + KERNEL_MAX


def test_a_client_that_does_not_read_keeps_no_other_waiting(stand: Stand) -> None:
    stuck_server, _ = stand.ends(Stream.DOWNSTREAM)
    server, client = stand.ends(Stream.DOWNSTREAM)
    stand.add("latency", latency=0)
    stand.flood(stuck_server)

    stand.remove()
    server.sendall(b"!")

    assert stand.read(client, 1) == b"!"


def test_what_a_slow_client_left_arrives_when_it_reads_again(stand: Stand) -> None:
    server, client = stand.ends(Stream.DOWNSTREAM)
    stand.add("latency", latency=1)
    sent = stand.flood(server, most=4 << 20)
    server.shutdown(socket.SHUT_WR)

    heard = 0
    while chunk := client.recv(1 << 20):
        heard += len(chunk)

    assert heard == sent


def test_a_slicer_of_single_bytes_keeps_no_other_waiting(stand: Stand) -> None:
    sender, _ = stand.ends(Stream.DOWNSTREAM)
    stand.add("slicer", average_size=1)
    sender.sendall(bytes(4_000_000))
    stand.until_received(Stream.DOWNSTREAM, 65_536)

    stand.add("noop", name="other")

    assert stand.link.traffic()[Stream.DOWNSTREAM][1] < 4_000_000  # it is still at work


class _Reviewed:
    """Counts how often it is reviewed."""

    def __init__(self) -> None:
        self.times = 0

    def review(self) -> None:
        self.times += 1


def test_who_waits_for_the_common_bound_is_reviewed_when_others_let_go() -> None:
    holdings, waiting = Holdings(held_max=100), _Reviewed()
    holdings.move(150)
    holdings.wait(waiting)

    holdings.move(-10)
    assert waiting.times == 0
    holdings.move(-50)
    holdings.move(-50)

    assert waiting.times == 1


@pytest.mark.real
def test_a_thousand_connections_are_served_at_once(stand: Stand) -> None:
    pairs = [stand.pair() for _ in range(1_000)]

    for client, _ in pairs:
        client.sendall(b"?")
    heard = b"".join(stand.read(server, 1) for _, server in pairs)
    stand.add("latency", latency=1)
    for _, server in pairs:
        server.sendall(b"!")
    answers = b"".join(stand.read(client, 1) for client, _ in pairs)

    assert (heard, answers) == (b"?" * 1_000, b"!" * 1_000)
    assert len(stand.call(stand.link.connections)) == 1_000


@pytest.mark.real
def test_twenty_megabytes_stay_exact_while_toxics_come_and_go(stand: Stand) -> None:
    server, client = stand.ends(Stream.DOWNSTREAM)
    sent = hashlib.sha256(b"").digest() * (20_000_000 // 32)
    choices = Choices(3, "toxics")
    heard = hashlib.sha256()

    def hear() -> None:
        while chunk := client.recv(65_536):
            heard.update(chunk)

    def send() -> None:
        server.sendall(sent)
        server.shutdown(socket.SHUT_WR)

    stand.add("bandwidth", name="pace", rate=15_000)  # time enough for many changes, on a loaded machine too
    threads = [threading.Thread(target=act) for act in (hear, send)]
    for thread in threads:
        thread.start()
    kinds = (
        lambda name: stand.add("latency", name=name, latency=3, jitter=2),
        lambda name: stand.add("slicer", name=name, average_size=20_000, size_variation=9_000, delay=50),
        lambda name: stand.add("bandwidth", name=name, rate=60_000),
    )
    changes = 0
    while threads[0].is_alive() and changes < 10_000:
        for name in ("one", "two"):
            kinds[choices.index(len(kinds))](name)
        for name in ("one", "two"):
            stand.remove(name)
        changes += 4
    for thread in threads:
        thread.join(60)

    assert heard.hexdigest() == hashlib.sha256(sent).hexdigest()
    assert changes >= 40
