"""The control interface: Toxiproxy's paths, statuses and bodies, and a few paths of our own.

    GET /proxies · POST /proxies · POST /populate · POST /reset · GET /version · GET /metrics
    GET|PATCH|POST|DELETE /proxies/{p} · GET|POST /proxies/{p}/toxics · GET|PATCH|POST|DELETE /proxies/{p}/toxics/{t}
    ours: GET|PUT /floodmark · GET /proxies/{p}/deeds?after=N · GET /proxies/{p}/connections · POST /proxies/{p}/cut
          POST /proxies/{p}/toxics/{t}/release

Invariants: a name in a path is only ever a key into a table; every refusal is JSON with its status. A request
whose User-Agent is a browser's is refused, as Toxiproxy does, so that no web page can control a proxy of this
machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from harness.proxy.asked import (
    read_connection,
    read_cut,
    read_link,
    read_link_change,
    read_links,
    read_seed,
    read_toxic,
    read_toxic_change,
)
from harness.proxy.http_server import DIGITS_MAX, HttpResponse, Request
from harness.proxy.json_body import json_text
from harness.proxy.link import Link, metrics_text
from harness.proxy.refusal import Refusal
from harness.proxy.registry import Registry
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Toxic

COMPATIBLE_WITH = "2.12.0"
"""The version of Toxiproxy whose interface this is."""

_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoutedRequest:
    """A request whose path matched an entry of the table."""

    names: tuple[str, ...]
    """The values of `{p}` and `{t}` in the path, unquoted."""
    query: Mapping[str, Sequence[str]]
    body: bytes


_Handler = Callable[[_RoutedRequest], HttpResponse]


class Api:
    """Answers requests; `handle` turns every `Refusal` into an answer. Its only state is the registry."""

    def __init__(self, registry: Registry, *, version: str, token: str | None = None) -> None:
        self._registry = registry
        self._version = version
        self._token = token
        self._handlers: Mapping[tuple[str, ...], Mapping[str, _Handler]] = {
            ("version",): {"GET": self._tell_version},
            ("floodmark",): {"GET": self._tell_about, "PUT": self._reseed},
            ("metrics",): {"GET": self._tell_metrics},
            ("populate",): {"POST": self._populate},
            ("reset",): {"POST": self._reset},
            ("proxies",): {"GET": self._list, "POST": self._make},
            ("proxies", "*"): {
                "GET": self._show,
                "POST": self._change,
                "PATCH": self._change,
                "DELETE": self._remove,
            },
            ("proxies", "*", "toxics"): {"GET": self._list_toxics, "POST": self._add_toxic},
            ("proxies", "*", "toxics", "*"): {
                "GET": self._show_toxic,
                "POST": self._change_toxic,
                "PATCH": self._change_toxic,
                "DELETE": self._remove_toxic,
            },
            ("proxies", "*", "toxics", "*", "release"): {"POST": self._release},
            ("proxies", "*", "deeds"): {"GET": self._tell_deeds},
            ("proxies", "*", "connections"): {"GET": self._tell_connections},
            ("proxies", "*", "cut"): {"POST": self._cut},
        }

    def handle(self, request: Request) -> HttpResponse:
        path, _, query = request.target.partition("?")
        words = path.removeprefix("/").split("/")
        handlers = self._handlers.get(
            tuple("*" if number in {1, 3} else word for number, word in enumerate(words))
        )
        if handlers is None or not all(words):
            return refused(Refusal("there is no such path", HTTPStatus.NOT_FOUND))
        if request.method not in handlers:
            return refused(Refusal("not a method of this path", HTTPStatus.METHOD_NOT_ALLOWED))
        if request.headers.get("user-agent", "").startswith("Mozilla/"):
            return refused(Refusal("a browser may not control this proxy", HTTPStatus.FORBIDDEN))
        names = tuple(unquote(word) for word in words[1::2])
        call = _RoutedRequest(names=names, query=parse_qs(query), body=request.body)
        try:
            self._check_token(request)
            return handlers[request.method](call)
        except Refusal as refusal:
            return refused(refusal)

    def _check_token(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if self._token is not None and not hmac.compare_digest(
            given.encode("latin-1", "replace"), f"Bearer {self._token}".encode("latin-1", "replace")
        ):
            words = "this proxy was started with a token: send it as `Authorization: Bearer TOKEN`"
            raise Refusal(words, HTTPStatus.UNAUTHORIZED)

    def _tell_version(self, _call: _RoutedRequest) -> HttpResponse:
        version = f"{COMPATIBLE_WITH}-floodmark.{self._version}"
        return _json({"version": version})

    def _tell_about(self, _call: _RoutedRequest) -> HttpResponse:
        own = [kind.name for kind in TOXIC_KINDS.values() if kind.own]
        about = {
            "own": True,
            "packets": True,
            "version": self._version,
            "seed": self._registry.seed,
            "toxics": list(TOXIC_KINDS),
            "own_toxics": own,
        }
        return _json(about)

    def _reseed(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.reseed(read_seed(call.body))
        return self._tell_about(call)

    def _tell_metrics(self, _call: _RoutedRequest) -> HttpResponse:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return HttpResponse(status=HTTPStatus.OK, headers=headers, body=metrics_text(self._registry).encode())

    def _list(self, _call: _RoutedRequest) -> HttpResponse:
        return _json({link.name: _link_shown(link) for link in self._registry})

    def _make(self, call: _RoutedRequest) -> HttpResponse:
        return _json(_link_shown(self._registry.make(read_link(call.body))), HTTPStatus.CREATED)

    def _show(self, call: _RoutedRequest) -> HttpResponse:
        return _json(_link_shown(self._registry.link(call.names[0])))

    def _change(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.link(call.names[0])
        return _json(_link_shown(self._registry.change(call.names[0], read_link_change(call.body))))

    def _remove(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.remove(call.names[0])
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _list_toxics(self, call: _RoutedRequest) -> HttpResponse:
        return _json([_toxic_shown(toxic) for toxic in self._registry.link(call.names[0]).toxics])

    def _add_toxic(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.link(call.names[0])
        return _json(_toxic_shown(self._registry.add_toxic(call.names[0], read_toxic(call.body))))

    def _show_toxic(self, call: _RoutedRequest) -> HttpResponse:
        return _json(_toxic_shown(self._registry.toxic(*call.names)))

    def _change_toxic(self, call: _RoutedRequest) -> HttpResponse:
        link, toxic = call.names
        self._registry.toxic(link, toxic)
        return _json(_toxic_shown(self._registry.change_toxic(link, toxic, read_toxic_change(call.body))))

    def _remove_toxic(self, call: _RoutedRequest) -> HttpResponse:
        self._registry.remove_toxic(*call.names)
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _populate(self, call: _RoutedRequest) -> HttpResponse:
        """A refusal still lists the links that were made before it; Toxiproxy writes `null` for none."""
        try:
            done = self._registry.populate(read_links(call.body))
        except Refusal as refusal:
            return _json({**_refusal_shown(refusal), "proxies": None}, refusal.status)
        shown = [_link_shown(link) for link in done.links] or None
        if done.refusal is not None:
            return _json({**_refusal_shown(done.refusal), "proxies": shown}, done.refusal.status)
        return _json({"proxies": shown}, HTTPStatus.CREATED)

    def _reset(self, _call: _RoutedRequest) -> HttpResponse:
        self._registry.reset()
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _tell_deeds(self, call: _RoutedRequest) -> HttpResponse:
        link = self._registry.link(call.names[0])
        (after,) = call.query.get("after", ["0"])[-1:]
        if not (after.isascii() and after.isdigit() and len(after) <= DIGITS_MAX):
            words = (
                f"`after` must be the number of a log entry: a whole number of at most {DIGITS_MAX} digits"
            )
            raise Refusal(words, HTTPStatus.BAD_REQUEST)
        return _json(link.deeds_after(int(after)).as_json())

    def _tell_connections(self, call: _RoutedRequest) -> HttpResponse:
        return _json({"connections": self._registry.link(call.names[0]).connections()})

    def _cut(self, call: _RoutedRequest) -> HttpResponse:
        link = self._registry.link(call.names[0])
        how, connection = read_cut(call.body)
        return _json({"connections": link.cut(how, connection=connection)})

    def _release(self, call: _RoutedRequest) -> HttpResponse:
        link, toxic = call.names[:2]
        return _json({"connections": self._registry.release(link, toxic, read_connection(call.body))})


def refused(refusal: Refusal) -> HttpResponse:
    """Its text and status as JSON."""
    return _json(_refusal_shown(refusal), refusal.status)


def _refusal_shown(refusal: Refusal) -> Mapping[str, Any]:
    return {"error": refusal.words, "status": refusal.status.value}


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status=status, headers=_JSON, body=json_text(value).encode())


def _link_shown(link: Link) -> Mapping[str, Any]:
    shown = {
        "name": link.name,
        "listen": link.listen,
        "upstream": link.upstream,
        "enabled": link.enabled,
        "toxics": [_toxic_shown(toxic) for toxic in link.toxics],
    }
    return {**shown, "mysql": True} if link.mysql else shown


def _toxic_shown(toxic: Toxic) -> Mapping[str, Any]:
    return {
        "attributes": dict(toxic.attributes),
        "name": toxic.name,
        "type": toxic.type,
        "stream": toxic.stream,
        "toxicity": toxic.toxicity,
    }
