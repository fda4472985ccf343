"""The control interface of a proxy in a process of its own: what it refuses, and that no client starves another."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.proxy.conformance.tests.peers import end_of
from harness.proxy.conformance.tests.subject import Subject, own_proxy
from harness.proxy.http_server import CLIENTS_MAX
from tools.cases import in_sweep_after

NOWHERE = ("127.0.0.1", 1)
VERSION = b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n"
LONG = b"9" * 5_000


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with own_proxy() as running:
        yield running


def raw(port: int, sent: bytes) -> bytes:
    """All that is answered to some bytes until the proxy closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(sent)
        return end_of(client)[0]


def test_mysql_can_be_set_and_taken_back_by_a_patch_proxy_e(subject: Subject) -> None:
    link = subject.link(NOWHERE)
    assert "mysql" not in link.shown

    assert link.set(mysql=True).json["mysql"] is True
    assert link.set(upstream="127.0.0.1:2").json["mysql"] is True
    assert "mysql" not in link.set(mysql=False).json


def test_a_refused_patch_does_not_set_mysql_proxy_e(subject: Subject) -> None:
    link = subject.link(NOWHERE)

    assert link.set(mysql=True, listen=f"127.0.0.1:{subject.port}").status == 500

    assert "mysql" not in link.shown


def test_mysql_is_set_by_a_populate_that_keeps_the_proxy_proxy_e(subject: Subject) -> None:
    link = subject.link(NOWHERE)
    link.poison("noop")
    asked = {"name": link.name, "listen": link.shown["listen"], "upstream": "127.0.0.1:1"}

    for mysql, shown in (({"mysql": True}, True), ({}, True), ({"mysql": False}, None)):
        (kept,) = subject.ask("POST", "/populate", [{**asked, **mysql}]).json["proxies"]

        assert kept.get("mysql") is shown
        assert len(kept["toxics"]) == 1


def test_a_length_of_5000_digits_is_a_400_proxy_f(subject: Subject) -> None:
    sent = b"POST /proxies HTTP/1.1\r\nContent-Length: " + LONG + b"\r\n\r\n"

    assert raw(subject.port, sent).startswith(b"HTTP/1.1 400 ")


def test_an_after_of_5000_digits_is_a_400_proxy_f(subject: Subject) -> None:
    link = subject.link(NOWHERE)

    assert subject.ask("GET", f"{link.path}/deeds?after={LONG.decode()}").status == 400
    assert subject.ask("GET", f"{link.path}/deeds?after=999999999999999999").status == 200


@pytest.mark.parametrize("port", [LONG.decode(), "+" + LONG.decode(), "-1", "+-1"])
def test_a_port_of_5000_digits_or_two_signs_is_refused_proxy_f(subject: Subject, port: str) -> None:
    body = {"name": "nowhere", "upstream": "u", "listen": f"127.0.0.1:{port}"}

    reply = subject.ask("POST", "/proxies", body)

    assert reply.status == 500
    assert "port" in reply.json["error"]


@pytest.mark.parametrize(
    "said",
    in_sweep_after(1, [b"GET /version HT", b"", b"POST /proxies HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]),
)
def test_300_silent_clients_do_not_keep_another_from_its_answer_proxy_g(
    subject: Subject, said: bytes
) -> None:
    """Silent from the beginning, in the middle of the head, or before the body."""
    with ExitStack() as stack:
        for _ in range(300):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", subject.port), timeout=60))
            client.sendall(said)

        for _ in range(3):
            assert raw(subject.port, VERSION).startswith(b"HTTP/1.1 200 ")


def test_of_more_clients_than_the_limit_the_one_that_is_silent_for_the_longest_is_hung_up_on_proxy_g(
    subject: Subject,
) -> None:
    with ExitStack() as stack:
        clients = []
        for _ in range(CLIENTS_MAX):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", subject.port), timeout=60))
            client.sendall(b"GET /version HTTP/1.1\r\n\r\n")
            assert client.recv(65_536)
            clients.append(client)

        assert raw(subject.port, VERSION).startswith(b"HTTP/1.1 200 ")

        assert end_of(clients[0])[0] == b""
        clients[-1].sendall(VERSION)
        assert clients[-1].recv(65_536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /version HTTP/1.1\n\n",
        b"GET /version HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
        b"GET /version HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
        b"\nGET /version HTTP/1.1\r\n\r\n",
        b"POST /reset HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /reset HTTP/1.1\r\nContent-Length: 2\r\ncontent-length: 3\r\n\r\n{}",
    ],
)
def test_a_bare_line_feed_and_a_length_told_twice_are_a_400_proxy_h(subject: Subject, sent: bytes) -> None:
    assert raw(subject.port, sent).startswith(b"HTTP/1.1 400 ")


def test_an_empty_line_before_a_request_is_skipped(subject: Subject) -> None:
    assert raw(subject.port, b"\r\n" + VERSION).startswith(b"HTTP/1.1 200 ")
