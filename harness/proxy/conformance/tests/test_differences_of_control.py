"""The declared differences of the control interface, each shown on both; and that each declared one is shown."""

from __future__ import annotations

import http.client
import re
import socket
from pathlib import Path

import pytest

from harness.proxy.conformance.tests.differences import DIFFERENCES, shows
from harness.proxy.conformance.tests.peers import Server, connected, receive
from harness.proxy.conformance.tests.subject import Subject

NOWHERE = ("127.0.0.1", 1)


def test_every_declared_difference_is_shown_by_one_test() -> None:
    tests = "".join(file.read_text() for file in sorted(Path(__file__).parent.glob("test_differences*.py")))

    assert re.findall(r'^@shows\("(.+)"\)', tests, re.MULTILINE) == [one.name for one in DIFFERENCES]


def test_names_of_differences_are_unique_and_every_sentence_is_there() -> None:
    assert len({one.name for one in DIFFERENCES}) == len(DIFFERENCES)
    assert all(one.when and one.toxiproxy and one.ours and one.why for one in DIFFERENCES)


@shows("move-to-a-taken-port")
def test_a_move_to_a_taken_port(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    before = link.shown
    taken = f"127.0.0.1:{proxy.port}"
    reply = link.set(listen=taken)

    assert reply.status == 500
    assert reply.json["error"] == f"listen tcp {taken}: bind: address already in use"
    assert link.shown == (before if proxy.is_own else {**before, "enabled": False, "listen": taken})


@shows("half-applied-attributes")
def test_a_change_with_a_bad_attribute_behind_a_good_one(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    name = link.poison("latency", {"latency": 1, "jitter": 1})
    reply = link.change(name, {"latency": 2, "jitter": "x"})

    assert reply.status == 400
    assert link.shown["toxics"][0]["attributes"] == {"latency": 1 if proxy.is_own else 2, "jitter": 1}


@shows("no-upstream")
def test_an_upstream_that_is_taken_away(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    reply = link.set(upstream="")

    if proxy.is_own:
        assert (reply.status, reply.json["error"]) == (400, "missing required field: upstream")
        assert link.shown["upstream"] == "127.0.0.1:1"
    else:
        assert (reply.status, reply.json["upstream"]) == (200, "")


@shows("disabled-at-no-address")
def test_a_disabled_proxy_at_no_address(proxy: Subject) -> None:
    body = {"name": "nowhere", "upstream": "u", "listen": "nonsense", "enabled": False}

    assert proxy.ask("POST", "/proxies", body).status == (500 if proxy.is_own else 201)


@shows("port-taken-while-disabled")
def test_a_port_that_is_wanted_while_its_link_is_disabled(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    address = link.address
    link.set(enabled=False)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        try:
            thief.bind(address)
            thief.listen()
        except OSError:
            assert proxy.is_own
        enabled = link.set(enabled=True)

        assert enabled.status == (200 if proxy.is_own else 500)


@shows("populate-any-port")
def test_populate_twice_with_any_port(proxy: Subject) -> None:
    body = [{"name": "any", "upstream": "127.0.0.1:1", "listen": "127.0.0.1:0"}]
    first = proxy.ask("POST", "/populate", body).json["proxies"][0]
    proxy.ask("POST", "/proxies/any/toxics", {"type": "noop"})
    second = proxy.ask("POST", "/populate", body).json["proxies"][0]

    if proxy.is_own:
        assert second["listen"] == first["listen"]
        assert len(second["toxics"]) == 1
    else:
        assert second["listen"] != first["listen"]
        assert second["toxics"] == []


@shows("omitted-listen")
def test_a_listen_that_is_left_out(proxy: Subject) -> None:
    listen = proxy.ask("POST", "/proxies", {"name": "open?", "upstream": "u"}).json["listen"]
    proxy.ask("DELETE", "/proxies/open%3F")

    assert listen.rpartition(":")[0] == ("127.0.0.1" if proxy.is_own else "[::]")


@shows("name-with-a-slash")
def test_a_name_with_a_slash(lone_proxy: Subject) -> None:
    body = {"name": "a/b", "upstream": "u", "listen": "127.0.0.1:0"}
    assert lone_proxy.ask("POST", "/proxies", body).status == 201

    assert lone_proxy.ask("DELETE", "/proxies/a%2Fb").status == (204 if lone_proxy.is_own else 404)


@shows("name-of-dots")
@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_of_dots(lone_proxy: Subject, name: str) -> None:
    reply = lone_proxy.ask("POST", "/proxies", {"name": name, "upstream": "u", "listen": "127.0.0.1:0"})

    assert reply.status == (400 if lone_proxy.is_own else 201)
    assert lone_proxy.ask("GET", f"/proxies/{name}").status == (404 if lone_proxy.is_own else 301)


@shows("path-with-gaps")
@pytest.mark.parametrize("path", ["//proxies", "/proxies//toxics", "/proxies/.."])
def test_a_path_with_gaps(proxy: Subject, path: str) -> None:
    assert proxy.ask("GET", path).status == (404 if proxy.is_own else 301)


@shows("body-in-chunks")
def test_a_body_in_chunks(proxy: Subject) -> None:
    reply = proxy.ask("POST", "/populate", b"2\r\n[]\r\n0\r\n\r\n", headers={"Transfer-Encoding": "chunked"})

    assert reply.status == (411 if proxy.is_own else 201)


@shows("metrics")
def test_metrics_of_a_live_connection(proxy: Subject, server: Server) -> None:
    link = proxy.link(server.address)
    with connected(link.address, server) as pair:
        pair.client.sendall(b"12345")
        receive(pair.server, 5)
        reply = proxy.ask("GET", "/metrics")

    if proxy.is_own:
        (line,) = [
            line
            for line in reply.text.splitlines()
            if line.startswith("toxiproxy_proxy_received_bytes_total{") and 'direction="upstream"' in line
            if f'proxy="{link.name}"' in line
        ]
        assert line.endswith(" 5")
    else:
        assert reply.status == 404


@shows("own-toxics")
@pytest.mark.parametrize("type_", ["packet", "half_open", "refuse", "stall"])
def test_toxics_of_our_own(proxy: Subject, type_: str) -> None:
    reply = proxy.ask("POST", f"{proxy.link(NOWHERE).path}/toxics", {"type": type_})

    if proxy.is_own:
        assert (reply.status, reply.json["type"]) == (200, type_)
    else:
        assert (reply.status, reply.json["error"]) == (400, "invalid toxic type")


@shows("own-addresses")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/floodmark"),
        ("GET", "{link}/deeds?after=0"),
        ("GET", "{link}/connections"),
        ("POST", "{link}/cut"),
    ],
)
def test_addresses_of_our_own(proxy: Subject, method: str, path: str) -> None:
    link = proxy.link(NOWHERE)
    reply = proxy.ask(method, path.format(link=link.path), {"how": "rst"} if method == "POST" else None)

    assert reply.status == (200 if proxy.is_own else http.client.NOT_FOUND)


@shows("version")
def test_the_version(proxy: Subject) -> None:
    version = proxy.ask("GET", "/version").json["version"]

    assert version.startswith("2.12.0")
    assert ("-floodmark." in version) == proxy.is_own
