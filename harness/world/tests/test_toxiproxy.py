"""Our client of Toxiproxy says honestly what the server answered, refused, or did not answer at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from harness.faults.real.fault_site import ToxicRequest
from harness.system.errors import WorldError
from harness.world.toxiproxy import ProxySilent, Toxiproxy
from harness.world.world import Address

SLOW = ToxicRequest(name="slow", type="latency", stream="downstream", attributes={"latency": 5})


class Stub:
    """A control interface that answers what it is told to, and writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self.silent: set[tuple[str, str]] = set()
        self.over = threading.Event()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, str] | None:
        """The next answer; None for silence."""
        self.asked.append((method, path, body))
        if (method, path) in self.silent:
            self.over.wait(60)
            return None
        prepared = self.answers.get((method, path), [])
        return prepared.pop(0) if prepared else (200, "{}")


@pytest.fixture
def stub() -> Stub:
    """A stub with nothing prepared: everything is well."""
    return Stub()


class _Client(Toxiproxy):
    """Waits 0.1 s for an answer that will not come, and longer for one that a busy machine delays."""

    silent: frozenset[tuple[str, str]] | set[tuple[str, str]] = frozenset()

    def _exchange(self, method: str, path: str, *rest: Any, **more: Any) -> tuple[int, str]:
        self._limit_s = 0.1 if (method, path) in self.silent else 30.0
        return super()._exchange(method, path, *rest, **more)


@pytest.fixture
def proxy(stub: Stub) -> Iterator[Toxiproxy]:
    """A client of the stub, with a link `lookups`."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            answer = stub.answer(self.command, self.path, body)
            if answer is None:
                return
            status, text = answer
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        client = _Client(Address(host="127.0.0.1", port=server.server_address[1]), say=lambda _sentence: None)
        client.silent = stub.silent
        client.create("lookups", listen="127.0.0.1:1", upstream="127.0.0.1:2")
        stub.asked.clear()
        yield client
        stub.over.set()
        server.shutdown()
        thread.join()


def test_a_toxic_is_sent_whole(proxy: Toxiproxy, stub: Stub) -> None:
    proxy.add_toxic("lookups", SLOW)

    ((method, path, body),) = stub.asked
    assert (method, path) == ("POST", "/proxies/lookups/toxics")
    assert body == {
        "name": "slow",
        "type": "latency",
        "stream": "downstream",
        "toxicity": 1.0,
        "attributes": {"latency": 5},
    }


@pytest.mark.parametrize("own", [True, False])
def test_only_our_own_proxy_is_told_a_seed_and_to_identify(
    proxy: Toxiproxy, stub: Stub, *, own: bool
) -> None:
    proxy.own = own
    proxy.reseed(7)
    proxy.identify(on=True)

    told = [("PUT", "/floodmark", {"seed": 7}), ("PUT", "/floodmark", {"identify": True})]
    assert stub.asked == (told if own else [])


def test_names_are_quoted_in_addresses(proxy: Toxiproxy, stub: Stub) -> None:
    proxy.remove_toxic("lookups", "a b/c")

    assert stub.asked == [("DELETE", "/proxies/lookups/toxics/a%20b%2Fc", None)]


def test_removing_a_toxic_that_is_gone_is_no_error(proxy: Toxiproxy, stub: Stub) -> None:
    stub.answers["DELETE", "/proxies/lookups/toxics/slow"] = [(404, "toxic not found")]

    proxy.remove_toxic("lookups", "slow")

    assert len(stub.asked) == 1


def test_a_refusal_rises_with_the_servers_own_words(proxy: Toxiproxy, stub: Stub) -> None:
    stub.answers["POST", "/proxies/lookups/toxics"] = [(409, '{"error":"toxic already exists"}')]

    with pytest.raises(WorldError, match=r"409.*toxic already exists"):
        proxy.add_toxic("lookups", SLOW)


def test_a_port_still_in_use_is_tried_again_when_a_link_opens(proxy: Toxiproxy, stub: Stub) -> None:
    stub.answers["PATCH", "/proxies/lookups"] = [(500, "address already in use")] * 2

    proxy.enable("lookups")

    assert [body for _, _, body in stub.asked] == [{"enabled": True}] * 3


def test_a_silent_server_is_an_error_within_the_limit_and_unhealthy(proxy: Toxiproxy, stub: Stub) -> None:
    stub.silent |= {("PATCH", "/proxies/lookups"), ("GET", "/proxies")}

    with pytest.raises(ProxySilent, match=r"within 0\.1 s"):
        proxy.disable("lookups")

    assert not proxy.healthy()


def test_a_call_that_hangs_makes_the_link_anew_with_the_toxics_it_shall_have(
    proxy: Toxiproxy, stub: Stub
) -> None:
    other = ToxicRequest(name="other", type="timeout", stream="upstream", attributes={"timeout": 0})
    proxy.add_toxic("lookups", SLOW)
    proxy.add_toxic("lookups", other)
    stub.asked.clear()
    stub.silent.add(("DELETE", "/proxies/lookups/toxics/slow"))

    proxy.remove_toxic("lookups", "slow")

    assert [(method, path) for method, path, _ in stub.asked] == [
        ("DELETE", "/proxies/lookups/toxics/slow"),
        ("DELETE", "/proxies/lookups"),
        ("POST", "/proxies"),
        ("POST", "/proxies/lookups/toxics"),
        ("PATCH", "/proxies/lookups"),
    ]
    assert stub.asked[2][2] == {
        "name": "lookups",
        "listen": "127.0.0.1:1",
        "upstream": "127.0.0.1:2",
        "enabled": False,
    }
    assert stub.asked[3][2]["name"] == "other"


def test_a_server_that_is_gone_is_a_world_error() -> None:
    gone = Toxiproxy(Address(host="127.0.0.1", port=1), say=lambda _sentence: None)

    with pytest.raises(WorldError, match="could not be sent to the proxy"):
        gone.version()
