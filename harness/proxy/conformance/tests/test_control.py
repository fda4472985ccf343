"""The control interface: statuses and bodies, the same of both; the words of a refusal are each one's own."""

from __future__ import annotations

import socket

import pytest

from harness.proxy.conformance.tests.subject import Subject, assert_refused
from tools.cases import each

NOWHERE = ("127.0.0.1", 1)

MALFORMED = [
    "", " \n", "{", '{"name":', "[1", "not json", "this", "{name:1}", '{"name":"a",}', '{"name" "a"}',
    '{"name":"a" "b"}', '{"name":[1 2]}', '{"name":nul}', '{"name":01}', '{"name":-}', '{"name":1.}',
    '{"name":"\\q"}', '{"name":"\x01"}', '{"name":NaN}',
]  # fmt: skip
OF_ANOTHER_TYPE = ["[]", "1", '"a"', '{"name":1}', '{"name":{}}', '{"name":"a","enabled":"yes"}']
BAD_ADDRESSES = ["nonsense", "127.0.0.1:99999", "127.0.0.1:x", "127.0.0.1:1:2", "192.0.2.1:0"]


@pytest.mark.parametrize("body", [*MALFORMED, *OF_ANOTHER_TYPE])
def test_a_body_that_is_no_json_or_of_another_type_is_refused(proxy: Subject, body: str) -> None:
    assert_refused(proxy.ask("POST", "/proxies", body), 400)


@pytest.mark.parametrize("body", ["null", '{"upstream":"u"}', '{"name":"a"}', '{"name":"a","upstream":""}'])
def test_a_proxy_without_name_or_upstream_is_refused(proxy: Subject, body: str) -> None:
    assert_refused(proxy.ask("POST", "/proxies", body), 400)


@pytest.mark.parametrize("listen", BAD_ADDRESSES)
def test_an_address_that_cannot_be_is_a_500(proxy: Subject, listen: str) -> None:
    reply = proxy.ask("POST", "/proxies", {"name": "nowhere", "upstream": "u", "listen": listen})

    assert_refused(reply, 500)
    assert proxy.ask("GET", "/proxies/nowhere").status == 404


def test_a_taken_port_is_a_500(proxy: Subject) -> None:
    listen = f"127.0.0.1:{proxy.port}"
    reply = proxy.ask("POST", "/proxies", {"name": "taken", "upstream": "u", "listen": listen})

    assert_refused(reply, 500)


def test_a_proxy_is_shown_as_it_was_made_and_listens(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    shown = link.shown

    assert (
        shown.items() >= {"name": link.name, "upstream": "127.0.0.1:1", "enabled": True, "toxics": []}.items()
    )
    assert proxy.ask("GET", "/proxies").json[link.name] == shown
    socket.create_connection(link.address, timeout=60).close()


def test_a_proxy_can_be_made_disabled_and_has_its_port_when_enabled(proxy: Subject) -> None:
    link = proxy.link(NOWHERE, enabled=False)
    assert link.shown["listen"] == "127.0.0.1:0"

    shown = link.set(enabled=True).json

    assert shown["enabled"] is True
    assert not shown["listen"].endswith(":0")


def test_a_move_to_any_port_takes_another_one_and_keeps_the_toxics_proxy_h(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    before = link.shown["listen"]
    link.poison("noop")

    shown = link.set(listen="127.0.0.1:0").json

    assert shown["listen"] not in {before, "127.0.0.1:0"}
    assert (shown["enabled"], len(shown["toxics"])) == (True, 1)
    socket.create_connection(link.address, timeout=60).close()


@pytest.mark.parametrize("fields", [{"enabled": False}, {}])
def test_a_disabled_proxy_moved_to_any_port_has_its_port_when_enabled_proxy_h(
    proxy: Subject, fields: dict[str, bool]
) -> None:
    link = proxy.link(NOWHERE)
    if not fields:
        link.set(enabled=False)

    assert link.set(listen="127.0.0.1:0", **fields).json["listen"] == "127.0.0.1:0"
    assert not link.set(enabled=True).json["listen"].endswith(":0")


def test_names_are_unique(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    reply = proxy.ask("POST", "/proxies", {"name": link.name, "upstream": "u"})

    assert_refused(reply, 409)


@each(
    ("method", "rest"),
    [("GET", ""), ("PATCH", ""), ("POST", ""), ("DELETE", ""), ("GET", "/toxics"), ("POST", "/toxics"),
     ("GET", "/toxics/t"), ("PATCH", "/toxics/t"), ("POST", "/toxics/t"), ("DELETE", "/toxics/t")],
)  # fmt: skip
def test_an_unknown_proxy_is_a_404_whatever_the_body(proxy: Subject, method: str, rest: str) -> None:
    reply = proxy.ask(method, f"/proxies/nobody{rest}", "{")

    assert_refused(reply, 404)


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "DELETE"])
def test_an_unknown_toxic_is_a_404_whatever_the_body(proxy: Subject, method: str) -> None:
    reply = proxy.ask(method, f"{proxy.link(NOWHERE).path}/toxics/none", "{")

    assert_refused(reply, 404)


@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_a_change_of_a_proxy_merges_and_ignores_its_name(proxy: Subject, method: str) -> None:
    link = proxy.link(NOWHERE)
    before = link.shown

    assert proxy.ask(method, link.path, "{}").json == before
    assert proxy.ask(method, link.path, "null").json == before
    changed = proxy.ask(method, link.path, {"name": "other", "ENABLED": False, "nonsense": 1}).json

    assert changed == {**before, "enabled": False}


def test_deleting_a_proxy_frees_its_name_and_port(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    address = link.address

    assert proxy.ask("DELETE", link.path).status == 204

    assert proxy.ask("GET", link.path).status == 404
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(address)


@each("name", ["a b", "ü ß", "a%b", "%2F", "a?b#c", "a+b", "1", "x" * 300, '"<&>"'])
def test_any_name_that_can_be_quoted_is_found(proxy: Subject, name: str) -> None:
    proxy.ask("POST", "/proxies", {"name": name, "upstream": "u", "listen": "127.0.0.1:0"})
    path = "/proxies/" + "".join(f"%{byte:02X}" for byte in name.encode())

    assert proxy.ask("GET", path).json["name"] == name
    assert proxy.ask("DELETE", path).status == 204


@pytest.mark.parametrize(
    "body",
    ["", "[{}]", '[{"name":"p1","upstream":"u"},{"name":"p2"}]', '[{"name":1}]',
     '[{"name":"p1","upstream":"u","enabled":1}]', "{}"],
)  # fmt: skip
def test_a_bad_populate_makes_nothing(proxy: Subject, body: str) -> None:
    reply = proxy.ask("POST", "/populate", body)

    assert_refused(reply, 400)
    assert reply.json["proxies"] is None
    assert proxy.ask("GET", "/proxies/p1").status == 404


@pytest.mark.parametrize("body", ["[]", "null"])
def test_an_empty_populate_is_fine(proxy: Subject, body: str) -> None:
    reply = proxy.ask("POST", "/populate", body)

    assert (reply.status, reply.json) == (201, {"proxies": None})


def test_populate_keeps_what_is_as_asked_and_makes_the_rest_anew(proxy: Subject) -> None:
    kept, changed = proxy.link(NOWHERE), proxy.link(NOWHERE)
    for link in (kept, changed):
        link.poison("noop")
    body = [
        {"name": kept.name, "listen": kept.shown["listen"], "upstream": "127.0.0.1:1", "enabled": False},
        {"name": changed.name, "listen": changed.shown["listen"], "upstream": "127.0.0.1:2"},
    ]

    reply = proxy.ask("POST", "/populate", body)

    assert reply.status == 201
    assert [made["name"] for made in reply.json["proxies"]] == [kept.name, changed.name]
    assert (len(kept.shown["toxics"]), kept.shown["enabled"]) == (1, True)
    assert (changed.shown["toxics"], changed.shown["upstream"]) == ([], "127.0.0.1:2")


def test_populate_stops_at_a_taken_port_and_keeps_what_it_made(proxy: Subject) -> None:
    taken = f"127.0.0.1:{proxy.port}"
    body = [
        {"name": "before", "upstream": "u", "listen": "127.0.0.1:0"},
        {"name": "at", "upstream": "u", "listen": taken},
        {"name": "after", "upstream": "u", "listen": "127.0.0.1:0"},
    ]
    reply = proxy.ask("POST", "/populate", body)
    made = proxy.ask("GET", "/proxies").json

    assert_refused(reply, 500)
    assert [link["name"] for link in reply.json["proxies"]] == ["before"]
    assert "before" in made
    assert "at" not in made
    assert "after" not in made


def test_reset_enables_and_cures_everything(proxy: Subject) -> None:
    links = [proxy.link(NOWHERE) for _ in range(2)]
    for link in links:
        link.poison("latency")
        link.poison("noop", stream="upstream")
    links[0].set(enabled=False)

    assert proxy.ask("POST", "/reset", "{").status == 204

    assert [(link.shown["enabled"], link.shown["toxics"]) for link in links] == [(True, [])] * 2


@each(
    ("method", "path"),
    [("PUT", "/proxies"), ("HEAD", "/proxies"), ("OPTIONS", "/proxies"), ("GET", "/reset"), ("GET", "/populate"),
     ("DELETE", "/version"), ("PUT", "/proxies/p"), ("DELETE", "/proxies/p/toxics"), ("PUT", "/proxies/p/toxics/t")],
)  # fmt: skip
def test_another_method_is_a_405(proxy: Subject, method: str, path: str) -> None:
    assert proxy.ask(method, path).status == 405


@each("path", ["/", "/nothing", "/proxies/", "/proxies/p/", "/proxies/p/nothing", "/version/x"])
def test_another_path_is_a_404(proxy: Subject, path: str) -> None:
    assert proxy.ask("GET", path).status == 404


@pytest.mark.parametrize(("agent", "status"), [("Mozilla/5.0", 403), ("xMozilla/5.0", 200), ("curl/8", 200)])
def test_browsers_are_refused(proxy: Subject, agent: str, status: int) -> None:
    reply = proxy.ask("GET", "/proxies", headers={"User-Agent": agent})

    assert reply.status == status


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_the_content_type_does_not_matter(proxy: Subject, kind: str) -> None:
    reply = proxy.ask(
        "POST", f"{proxy.link(NOWHERE).path}/toxics", {"type": "noop"}, headers={"Content-Type": kind}
    )

    assert reply.status == 200


def test_several_requests_on_one_connection_are_understood(proxy: Subject) -> None:
    path = f"{proxy.link(NOWHERE).path}/toxics"
    body = b'{"type":"noop","name":"first"}'
    head = (
        f"POST {path.replace(' ', '%20')} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )
    last = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.sendall(head + body + last)
        text = b"".join(iter(lambda: client.recv(65_536), b""))

    assert text.count(b"HTTP/1.1 200 OK") == 2
    assert text.index(b'"name":"first"') < text.index(b"2.12.0")
