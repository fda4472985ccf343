"""The control interface: statuses, words and bodies, the same of both to the letter."""

from __future__ import annotations

import json
import socket

import pytest

from harness.proxy.conformance.tests.subject import Subject

NOWHERE = ("127.0.0.1", 1)

MALFORMED = [
    ("", "EOF"),
    (" \n", "EOF"),
    ("{", "unexpected EOF"),
    ('{"name":', "unexpected EOF"),
    ("[1", "unexpected EOF"),
    ("not json", "invalid character 'o' in literal null (expecting 'u')"),
    ("this", "invalid character 'h' in literal true (expecting 'r')"),
    ("{name:1}", "invalid character 'n' looking for beginning of object key string"),
    ('{"name":"a",}', "invalid character '}' looking for beginning of object key string"),
    ('{"name" "a"}', "invalid character '\"' after object key"),
    ('{"name":"a" "b"}', "invalid character '\"' after object key:value pair"),
    ('{"name":[1 2]}', "invalid character '2' after array element"),
    ('{"name":nul}', "invalid character '}' in literal null (expecting 'l')"),
    ('{"name":01}', "invalid character '1' after object key:value pair"),
    ('{"name":-}', "invalid character '}' in numeric literal"),
    ('{"name":1.}', "invalid character '}' after decimal point in numeric literal"),
    ('{"name":"\\q"}', "invalid character 'q' in string escape code"),
    ('{"name":"\x01"}', "invalid character '\\x01' in string literal"),
    ('{"name":NaN}', "invalid character 'N' looking for beginning of value"),
]

OF_ANOTHER_TYPE = [
    ("[]", "array into Go value of type toxiproxy.Proxy"),
    ("1", "number into Go value of type toxiproxy.Proxy"),
    ('"a"', "string into Go value of type toxiproxy.Proxy"),
    ('{"name":1}', "number into Go struct field Proxy.name of type string"),
    ('{"name":{}}', "object into Go struct field Proxy.name of type string"),
    ('{"name":"a","enabled":"yes"}', "string into Go struct field Proxy.enabled of type bool"),
]

BAD_ADDRESSES = [
    ("nonsense", "listen tcp: address nonsense: missing port in address"),
    ("127.0.0.1:99999", "listen tcp: address 99999: invalid port"),
    ("127.0.0.1:x", "listen tcp: lookup tcp/x: unknown port"),
    ("127.0.0.1:1:2", "listen tcp: address 127.0.0.1:1:2: too many colons in address"),
    ("192.0.2.1:0", "listen tcp 192.0.2.1:0: bind: cannot assign requested address"),
]


def refusal(words: str, status: int) -> str:
    """The body of a refusal."""
    return json.dumps({"error": words, "status": status}, separators=(",", ":"), ensure_ascii=False) + "\n"


@pytest.mark.parametrize(("body", "why"), MALFORMED)
def test_a_body_that_is_no_json_is_refused_in_gos_words(proxy: Subject, body: str, why: str) -> None:
    reply = proxy.ask("POST", "/proxies", body)

    assert (reply.status, reply.text) == (400, refusal(f"bad request body: {why}", 400))
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(("body", "what"), OF_ANOTHER_TYPE)
def test_a_value_of_another_type_is_refused_in_gos_words(proxy: Subject, body: str, what: str) -> None:
    reply = proxy.ask("POST", "/proxies", body)

    assert reply.text == refusal(f"bad request body: json: cannot unmarshal {what}", 400)


@pytest.mark.parametrize(
    ("body", "field"),
    [("null", "name"), ('{"upstream":"u"}', "name"), ('{"name":"a"}', "upstream"),
     ('{"name":"a","upstream":""}', "upstream")],
)  # fmt: skip
def test_a_proxy_without_name_or_upstream_is_refused(proxy: Subject, body: str, field: str) -> None:
    assert proxy.ask("POST", "/proxies", body).text == refusal(f"missing required field: {field}", 400)


@pytest.mark.parametrize(("listen", "words"), BAD_ADDRESSES)
def test_an_address_that_cannot_be_is_a_500_with_the_reason(proxy: Subject, listen: str, words: str) -> None:
    reply = proxy.ask("POST", "/proxies", {"name": "nowhere", "upstream": "u", "listen": listen})

    assert (reply.status, reply.text) == (500, refusal(words, 500))
    assert proxy.ask("GET", "/proxies/nowhere").status == 404


def test_a_taken_port_is_a_500(proxy: Subject) -> None:
    listen = f"127.0.0.1:{proxy.port}"
    reply = proxy.ask("POST", "/proxies", {"name": "taken", "upstream": "u", "listen": listen})

    assert (reply.status, reply.text) == (
        500,
        refusal(f"listen tcp {listen}: bind: address already in use", 500),
    )


def test_a_proxy_is_shown_as_it_was_made_and_listens(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    shown = link.shown

    assert shown == {
        "name": link.name,
        "listen": shown["listen"],
        "upstream": "127.0.0.1:1",
        "enabled": True,
        "Logger": {},
        "toxics": [],
    }
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

    assert (reply.status, reply.text) == (409, refusal("proxy already exists", 409))


@pytest.mark.parametrize(
    ("method", "rest"),
    [("GET", ""), ("PATCH", ""), ("POST", ""), ("DELETE", ""), ("GET", "/toxics"), ("POST", "/toxics"),
     ("GET", "/toxics/t"), ("PATCH", "/toxics/t"), ("POST", "/toxics/t"), ("DELETE", "/toxics/t")],
)  # fmt: skip
def test_an_unknown_proxy_is_a_404_whatever_the_body(proxy: Subject, method: str, rest: str) -> None:
    reply = proxy.ask(method, f"/proxies/nobody{rest}", "{")

    assert (reply.status, reply.text) == (404, refusal("proxy not found", 404))


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "DELETE"])
def test_an_unknown_toxic_is_a_404_whatever_the_body(proxy: Subject, method: str) -> None:
    reply = proxy.ask(method, f"{proxy.link(NOWHERE).path}/toxics/none", "{")

    assert (reply.status, reply.text) == (404, refusal("toxic not found", 404))


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


@pytest.mark.parametrize("name", ["a b", "ü ß", "a%b", "%2F", "a?b#c", "a+b", "1", "x" * 300, '"<&>"'])
def test_any_name_that_can_be_quoted_is_found(proxy: Subject, name: str) -> None:
    proxy.ask("POST", "/proxies", {"name": name, "upstream": "u", "listen": "127.0.0.1:0"})
    path = "/proxies/" + "".join(f"%{byte:02X}" for byte in name.encode())

    assert proxy.ask("GET", path).json["name"] == name
    assert proxy.ask("DELETE", path).status == 204


LIST_ITEM = 'struct { toxiproxy.Proxy; Enabled *bool "json:\\"enabled\\"" }'
POPULATE_REFUSED: list[tuple[str, int, str]] = [
    ("", 400, "bad request body: EOF"),
    ("[{}]", 400, "missing required field: name at proxy 1"),
    ('[{"name":"p1","upstream":"u"},{"name":"p2"}]', 400, "missing required field: upstream at proxy 2"),
    ('[{"name":1}]', 400,
     "bad request body: json: cannot unmarshal number into Go struct field .Proxy.name of type string"),
    ('[{"name":"p1","upstream":"u","enabled":1}]', 400,
     "bad request body: json: cannot unmarshal number into Go struct field .enabled of type bool"),
    ("{}", 400, f"bad request body: json: cannot unmarshal object into Go value of type []{LIST_ITEM}"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "words"), POPULATE_REFUSED)
def test_a_bad_populate_makes_nothing(proxy: Subject, body: str, status: int, words: str) -> None:
    reply = proxy.ask("POST", "/populate", body)

    assert (reply.status, reply.json) == (status, {"error": words, "status": status, "proxies": None})
    assert proxy.ask("GET", "/proxies/p1").status == 404


@pytest.mark.parametrize("body", ["[]", "null"])
def test_an_empty_populate_is_fine(proxy: Subject, body: str) -> None:
    reply = proxy.ask("POST", "/populate", body)

    assert (reply.status, reply.text) == (201, '{"proxies":null}')


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

    assert reply.status == 500
    assert reply.json["error"] == f"listen tcp {taken}: bind: address already in use"
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


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/proxies"), ("HEAD", "/proxies"), ("OPTIONS", "/proxies"), ("GET", "/reset"), ("GET", "/populate"),
     ("DELETE", "/version"), ("PUT", "/proxies/p"), ("DELETE", "/proxies/p/toxics"), ("PUT", "/proxies/p/toxics/t")],
)  # fmt: skip
def test_another_method_is_a_405(proxy: Subject, method: str, path: str) -> None:
    reply = proxy.ask(method, path)

    assert (reply.status, reply.text) == (405, "")


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/proxies/", "/proxies/p/", "/proxies/p/nothing", "/version/x"]
)
def test_another_path_is_a_404(proxy: Subject, path: str) -> None:
    reply = proxy.ask("GET", path)

    assert (reply.status, reply.text) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("path", "to"), [("//proxies", "/proxies"), ("/proxies//toxics", "/proxies/toxics"), ("/proxies/..", "/")]
)
def test_a_path_with_gaps_is_sent_to_the_plain_one(proxy: Subject, path: str, to: str) -> None:
    reply = proxy.ask("GET", path)

    assert (reply.status, reply.headers["Location"]) == (301, to)


@pytest.mark.parametrize(("agent", "status"), [("Mozilla/5.0", 403), ("xMozilla/5.0", 200), ("curl/8", 200)])
def test_browsers_are_refused(proxy: Subject, agent: str, status: int) -> None:
    reply = proxy.ask("GET", "/proxies", headers={"User-Agent": agent})

    assert reply.status == status
    assert (reply.text == "User agent not allowed\n") == (status == 403)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_the_content_type_does_not_matter(proxy: Subject, kind: str) -> None:
    reply = proxy.ask(
        "POST", f"{proxy.link(NOWHERE).path}/toxics", {"type": "noop"}, headers={"Content-Type": kind}
    )

    assert reply.status == 200


def test_chunked_bodies_and_several_requests_on_one_connection_are_understood(proxy: Subject) -> None:
    path = f"{proxy.link(NOWHERE).path}/toxics"
    body = b'{"type":"noop","name":"chunked"}'
    head = (
        f"POST {path.replace(' ', '%20')} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    last = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.sendall(head + chunks + last)
        text = b"".join(iter(lambda: client.recv(65_536), b""))

    assert text.count(b"HTTP/1.1 200 OK") == 2
    assert b'"name":"chunked"' in text
    assert b'{"version": "2.12.0' in text
