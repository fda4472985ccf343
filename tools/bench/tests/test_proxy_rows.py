"""The proxy's rows: the traffic is what MySQL speaks, a load notices a wrong byte, and a lacking Toxiproxy is said."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness.proxy.mysql.dialogue import Dialogue
from harness.system.errors import HarnessError
from harness.world.places import Places
from harness.world.settings import WorldSettings
from harness.world.world import Address
from tools.bench import proxy_rows as rows
from tools.bench import rounds
from tools.bench.mysql_traffic import GREETING, LOGIN, OK, Traffic, bulk, lookup
from tools.bench.proxy_load import proxy_load
from tools.bench.row import NotMeasured, Row


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        yield upstream


def _address(listening: socket.socket) -> Address:
    host, port = listening.getsockname()
    return Address(host=host, port=port)


@pytest.mark.parametrize("traffic", [lookup(), bulk(200_000)], ids=["lookup", "bulk"])
def test_the_traffic_is_understood_to_its_last_packet(traffic: Traffic) -> None:
    dialogue = Dialogue()
    dialogue.replies.track(GREETING)
    dialogue.requests.track(LOGIN)
    dialogue.replies.track(OK)

    dialogue.requests.track(traffic.request)
    assert len(dialogue.session.open) == 1
    dialogue.replies.track(traffic.reply)

    assert not dialogue.session.open
    assert not dialogue.why_lost
    assert dialogue.replies.at_boundary


def test_a_load_counts_every_exchange(upstream: socket.socket) -> None:
    with proxy_load(_address(upstream), upstream=upstream, connections=3) as load:
        pace = load.run(bulk(100_000), 30)

    assert 0 < pace.exchange_s <= pace.slow_s


def _forging(upstream: socket.socket, listening: socket.socket) -> None:
    """A proxy for one connection that passes the login and forges the end of what follows."""
    client, server = listening.accept()[0], socket.create_connection(upstream.getsockname())
    with client, server, suppress(OSError):
        for source, target, size in (
            (server, client, GREETING),
            (client, server, LOGIN),
            (server, client, OK),
        ):
            target.sendall(source.recv(len(size), socket.MSG_WAITALL))
        server.sendall(client.recv(65_536))
        client.sendall(server.recv(65_536)[:-1] + b"?")


def test_a_load_notices_a_reply_that_was_changed_on_its_way(upstream: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        forger = threading.Thread(target=_forging, args=(upstream, listening))
        forger.start()

        with (
            proxy_load(_address(listening), upstream=upstream, connections=1) as load,
            pytest.raises(HarnessError, match="with other bytes than it was sent with"),
        ):
            load.run(lookup(), 1)
        forger.join(60)


def test_without_toxiproxy_the_rows_say_so(tmp_path: Path) -> None:
    settings = WorldSettings(places=Places(root=tmp_path), path=str(tmp_path))

    (row,) = rows.proxy_rows(settings=settings, say=lambda _: None)

    assert isinstance(row, NotMeasured)
    assert "toxiproxy-server" in row.reason


@pytest.mark.real
def test_both_proxies_are_measured_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_put_garbage_aside", lambda: None)  # pytest's heap takes long to collect
    tiny = replace(rows._MEASURES[0], connections=3, exchanges=30)
    monkeypatch.setattr(rows, "_MEASURES", (tiny, replace(tiny, of_exchange=False)))

    measured = list(rows.proxy_rows(settings=WorldSettings.from_environment(), say=lambda _: None))

    if isinstance(measured[0], NotMeasured):
        pytest.skip(measured[0].reason)
    assert [type(row) for row in measured] == [Row, Row]
    assert all(row.value > 0 for row in measured if isinstance(row, Row))
