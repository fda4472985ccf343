"""A reserved port is free, on loopback, outside the ephemeral range, and reserved once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.system.errors import WorldError
from harness.world.ledger import LOOPBACK, Ledger, preferred_range, reserve_port
from harness.world.settings import Places


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


def test_a_reserved_port_can_be_bound_and_is_no_ephemeral_one(ledger: Ledger) -> None:
    low, high = (int(word) for word in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    port = reserve_port(ledger)

    assert not low <= port <= high
    with socket.create_server((LOOPBACK, port)) as server:
        assert server.getsockname()[1] == port


def test_two_runs_never_get_one_port(ledger: Ledger, places: Places) -> None:
    three = range(preferred_range()[0], preferred_range()[0] + 3)
    ledger.ports = three
    other = Ledger(places, ports=three).begin()

    mine = [reserve_port(ledger), reserve_port(ledger)]
    theirs = reserve_port(other)

    assert sorted([*mine, theirs]) == list(three)
    other.close(lambda _run: [])


def test_a_port_that_is_taken_is_a_world_error_with_a_fix(ledger: Ledger, taken: int) -> None:
    ledger.ports = range(taken, taken + 1)
    with pytest.raises(WorldError, match="FLOODMARK_PORTS") as caught:
        reserve_port(ledger)

    assert str(taken) in caught.value.what
    assert caught.value.exit_code == 11


def test_a_closed_runs_ports_can_be_reserved_again(places: Places) -> None:
    one = range(preferred_range()[7], preferred_range()[7] + 1)
    first = Ledger(places, ports=one).begin()
    reserve_port(first)
    first.close(lambda _run: [])
    second = Ledger(places, ports=one).begin()

    assert reserve_port(second) == one[0]
    second.close(lambda _run: [])
