"""A client of Toxiproxy's control interface, which our own proxy has too.

Every call has a limit, because Toxiproxy can hang for ever when a toxic is changed while a client does not read. Such
a link is deleted, which still works, and created again with its toxics; that cuts its connections, so it is announced.
Invariant: no call takes longer than a few times `CALL_LIMIT_S`. Measurements, and why not toxiproxy-python:
`docs/decisions/0005-own-toxiproxy-client.md`.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from harness.faults.real.evidence import LogPage, ProxyEvidence, evidence_of
from harness.faults.real.fault_site import ProxyConnection, ToxicRequest
from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.system.json_types import JsonView
from harness.world.world import Address

CALL_LIMIT_S = 3.0
"""Time limit of one call."""
REBIND_LIMIT_S = 3.0
"""How long a link may fail to open because its port is in use."""

EVENTS_MAX = 100_000
"""Log entries read at once; our proxy keeps no more."""

NOT_FOUND = 404
_NEVER = 1_000_000_000
"""A packet toxic that begins at this match acts on none."""


class ProxySilent(WorldError):
    """The control interface did not answer within its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """The wanted state of a link, to create it again."""

    listen: str
    upstream: str
    enabled: bool = True
    toxics: Mapping[str, ToxicRequest] = field(default_factory=dict)


class Toxiproxy:
    """A `ProxyControl` over HTTP, for any thread. Mutable: it remembers each link's wanted state.

    With `own` the server is our own proxy: it never hangs, can cut live connections and keeps a log.
    """

    def __init__(
        self,
        control: Address,
        *,
        say: Callable[[str], None],
        own: bool = False,
    ) -> None:
        self.control = control
        self.own = own
        self._say = say
        self._limit_s = CALL_LIMIT_S
        self._links: dict[str, _Link] = {}
        # One change at a time: the remembered state must match what the server was sent.
        self._changing = threading.RLock()

    def version(self) -> str:
        """The server's version. No health check: a hung server answers this too."""
        return str(self._call("GET", "/version").get("version", "unknown"))

    def title(self) -> str:
        """For messages: `Toxiproxy 2.12.0`, `own proxy 0.1.0`."""
        version = self.version()
        return f"own proxy {version.partition('floodmark.')[2]}" if self.own else f"Toxiproxy {version}"

    def healthy(self) -> bool:
        """Whether it lists its links, which a hung server does not."""
        try:
            self._call("GET", "/proxies")
        except WorldError:
            return False
        return True

    def create(self, link: str, *, listen: str, upstream: str) -> None:
        """Create a link that listens at once; `listen` and `upstream` are `host:port`."""
        with self._changing:
            self._create(link, _Link(listen=listen, upstream=upstream))

    def add_toxic(self, link: str, toxic: ToxicRequest) -> None:
        """Add `toxic` to `link`; it acts on live connections at once."""
        with self._changing:
            then = replace(self._links[link], toxics={**self._links[link].toxics, toxic.name: toxic})
            try:
                self._call("POST", f"{_path(link)}/toxics", _body(toxic))
            except ProxySilent:
                self._renew(link, then)
            self._links[link] = then

    def remove_toxic(self, link: str, name: str) -> None:
        """Remove a toxic; no error if it is gone already."""
        with self._changing:
            left = {other: toxic for other, toxic in self._links[link].toxics.items() if other != name}
            then = replace(self._links[link], toxics=left)
            try:
                self._call("DELETE", f"{_path(link)}/toxics/{quote(name, safe='')}", absent_is_fine=True)
            except ProxySilent:
                self._renew(link, then)
            self._links[link] = then

    def toxics(self, link: str) -> Sequence[str]:
        """The names of the link's toxics, upstream ones first."""
        return [str(toxic["name"]) for toxic in self._call("GET", _path(link)).get("toxics", [])]

    def disable(self, link: str) -> None:
        """Stop listening and end every live connection."""
        with self._changing:
            self._call("PATCH", _path(link), {"enabled": False})
            self._links[link] = replace(self._links[link], enabled=False)

    def enable(self, link: str) -> None:
        """Listen again on the same port; retries for a while if the port is in use."""
        with self._changing:
            self._until_bound(link, lambda: self._call("PATCH", _path(link), {"enabled": True}))
            self._links[link] = replace(self._links[link], enabled=True)

    def lead(self, link: str, upstream: str, *, cut: bool = True) -> None:
        """Lead `link` to another upstream; live connections end, or stay without `cut`: only our own proxy can."""
        with self._changing:
            if upstream == self._links[link].upstream:
                return
            if not cut and not self.own:
                raise WorldError("Toxiproxy ends all connections of a link", fix="run with --proxy own")
            change: dict[str, Any] = {"upstream": upstream, **({} if cut else {"keep": True})}
            self._until_bound(link, lambda: self._call("POST", _path(link), change))
            self._links[link] = replace(self._links[link], upstream=upstream)

    def enabled(self, link: str) -> bool:
        """Whether `link` listens."""
        return bool(self._call("GET", _path(link)).get("enabled"))

    def cut(self, link: str, how: str) -> Sequence[int]:
        """End every live connection by `rst` or `fin`; returns their numbers if the proxy has numbers."""
        if self.own:
            return [
                int(number)
                for number in self._call("POST", f"{_path(link)}/cut", {"how": how})["connections"]
            ]
        if how == "rst":
            raise WorldError("Toxiproxy cannot reset a live connection", fix="run with --proxy own")
        with self._changing:
            self.disable(link)
            self.enable(link)
        return []

    def cut_one(self, link: str, connection: int) -> None:
        """Reset one connection; only our own proxy can."""
        self._call("POST", f"{_path(link)}/cut", {"how": "rst", "connection": connection})

    def release(self, link: str, toxic: str, connection: int) -> None:
        """Send what a packet toxic holds of that connection; no error if the toxic is gone."""
        path = f"{_path(link)}/toxics/{quote(toxic, safe='')}/release"
        self._call("POST", path, {"connection": connection}, absent_is_fine=True)

    def hold_no_more(self, link: str, toxic: str) -> None:
        """Let later messages pass a packet toxic; what it holds stays held."""
        path = f"{_path(link)}/toxics/{quote(toxic, safe='')}"
        self._call("PATCH", path, {"attributes": {"nth": _NEVER}}, absent_is_fine=True)

    def connections(self, link: str) -> Sequence[ProxyConnection]:
        """The live connections of `link`; none for Toxiproxy, which does not tell."""
        if not self.own:
            return []
        shown = self._call("GET", f"{_path(link)}/connections")["connections"]
        return [
            ProxyConnection(
                id=one["id"], peer=int(str(one["peer"]).rpartition(":")[2]), session=one.get("session")
            )
            for one in shown
        ]

    def reseed(self, seed: int) -> None:
        """Set the seed of our own proxy's draws for new connections; does nothing for Toxiproxy."""
        if self.own:
            self._call("PUT", "/floodmark", {"seed": seed})

    def identify(self, *, on: bool) -> None:
        """Let our own proxy note which process opens each connection from now on; does nothing for Toxiproxy."""
        if self.own:
            self._call("PUT", "/floodmark", {"identify": on})

    def link_log(self, link: str, after: int = 0) -> LogPage | None:
        """The link's log entries after number `after`; None: this proxy keeps no log."""
        if not self.own:
            return None
        events: list[ProxyEvidence] = []
        lost = 0
        while True:  # page by page until an empty one; the proxy's log is bounded
            page = self._call("GET", f"{_path(link)}/deeds?after={after}")
            events += [evidence_of(event) for event in page["deeds"]]
            lost += page["lost"]
            if not page["deeds"] or len(events) >= EVENTS_MAX:
                return LogPage(events=events, next=page["next"], lost=lost)
            after = page["next"]

    def _create(self, link: str, then: _Link) -> None:
        """Create the link disabled, add its toxics, then enable it, so that no connection sees only some of them."""
        body = {"name": link, "listen": then.listen, "upstream": then.upstream, "enabled": False}
        if self.own:
            body["mysql"] = True  # follow MySQL's packets from a connection's first byte on
        self._call("POST", "/proxies", body)
        for toxic in then.toxics.values():
            self._call("POST", f"{_path(link)}/toxics", _body(toxic))
        self._links[link] = then
        if then.enabled:
            self.enable(link)

    def _renew(self, link: str, then: _Link) -> None:
        """Delete a link over which the server hangs, and create it again.

        Disabling it would not end the hung call (measured).
        """
        self._say(
            f"Toxiproxy hung over link {link}: deleting it and making it anew, which cuts its connections"
        )
        self._call("DELETE", _path(link), absent_is_fine=True)
        self._create(link, then)

    def _until_bound(self, link: str, act: Callable[[], object]) -> None:
        refusals: list[WorldError] = []

        def bound() -> bool:
            try:
                act()
            except ProxySilent:
                raise
            except WorldError as refusal:
                refusals.append(refusal)
                return False
            return True

        if not wait_until(bound, deadline=Deadline(REBIND_LIMIT_S), every_s=0.05):
            raise WorldError(
                f"link {link} did not open within {REBIND_LIMIT_S:g} s: {refusals[-1].what}",
                fix="see which process took its port, or set FLOODMARK_PORTS to a quieter range",
            )

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        absent_is_fine: bool = False,
    ) -> JsonView:
        """Its JSON answer; empty if that is no object."""
        where = f"{method} http://{self.control.host}:{self.control.port}{path}"
        status, text = self._exchange(method, path, body, where=where)
        if status == NOT_FOUND and absent_is_fine:
            return {}
        if status >= http.client.MULTIPLE_CHOICES:
            raise WorldError(f"Toxiproxy refused {where} with {status}: {text.strip()}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def _exchange(
        self, method: str, path: str, body: Mapping[str, object] | None, *, where: str
    ) -> tuple[int, str]:
        """Uses a new connection for each call."""
        connection = http.client.HTTPConnection(self.control.host, self.control.port, timeout=self._limit_s)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(
                method, path, payload, {"Content-Type": "application/json", "Connection": "close"}
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except TimeoutError as error:
            raise ProxySilent(
                f"Toxiproxy did not answer {where} within {self._limit_s:g} s",
                fix="start the run again",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise WorldError(
                f"{where} could not be sent to the proxy: {error}",
                fix="its process may have died; its log is beside the run's other files",
            ) from error
        finally:
            connection.close()


def _path(link: str) -> str:
    return f"/proxies/{quote(link, safe='')}"


def _body(toxic: ToxicRequest) -> JsonView:
    return {
        "name": toxic.name,
        "type": toxic.type,
        "stream": toxic.stream,
        "toxicity": 1.0,
        "attributes": dict(toxic.attributes),
    }
