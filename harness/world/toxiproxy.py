"""Our client of Toxiproxy's control interface, and the server as a process of ours.

Every call has a limit, for the real server can hang for ever once a toxic is changed while a client does not read
(`guide/infrastructure.md` 3.4). Then the link is closed, the change made again and the link opened; that cuts its
connections, so it is said aloud. Invariant: no call takes longer than a few times `CALL_LIMIT_S`.
Why not toxiproxy-python: `docs/decisions/0101-own-toxiproxy-client.md`.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from harness.clock import Deadline, wait_until
from harness.errors import WorldError
from harness.world.world import Address, Toxic

__all__ = ["CALL_LIMIT_S", "Toxiproxy"]

CALL_LIMIT_S = 3.0
"""The longest that one call of the control interface may take."""
REBIND_LIMIT_S = 3.0
"""How long a link may find its port in use when it opens again."""

NOT_FOUND = 404


class ProxySilent(Exception):
    """The control interface did not answer within the limit."""


class Toxiproxy:
    """A `ProxyControl` over HTTP. Holds no state: what is true is what the server says."""

    def __init__(self, control: Address, *, say: Callable[[str], None], limit_s: float = CALL_LIMIT_S) -> None:
        self.control = control
        self._say = say
        self._limit_s = limit_s

    def version(self) -> str:
        """The server's version; says nothing about its health, for a hung server answers this too."""
        return str(self._call("GET", "/version").get("version", "unknown"))

    def healthy(self) -> bool:
        """Whether it lists its proxies, which a hung server does not."""
        try:
            self._call("GET", "/proxies")
        except WorldError:
            return False
        return True

    def create(self, link: str, *, listen: str, upstream: str) -> None:
        """Make a link that listens at once; `listen` and `upstream` are `host:port`."""
        self._call("POST", "/proxies", {"name": link, "listen": listen, "upstream": upstream, "enabled": True})

    def add_toxic(self, link: str, toxic: Toxic) -> None:
        """Put `toxic` on `link`; live connections are affected at once."""
        body = {
            "name": toxic.name,
            "type": toxic.type,
            "stream": toxic.stream,
            "toxicity": 1.0,
            "attributes": dict(toxic.attributes),
        }
        self._change(link, "POST", f"{_path(link)}/toxics", body)

    def remove_toxic(self, link: str, name: str) -> None:
        """Take it away; one that is gone already is no error."""
        self._change(link, "DELETE", f"{_path(link)}/toxics/{quote(name, safe='')}", None, absent_is_fine=True)

    def toxics(self, link: str) -> Sequence[str]:
        """The names of the toxics that act on `link` now, upstream ones first."""
        return [str(toxic["name"]) for toxic in self._call("GET", _path(link)).get("toxics", [])]

    def disable(self, link: str) -> None:
        """Stop listening and cut every live connection."""
        self._call("PATCH", _path(link), {"enabled": False})

    def enable(self, link: str) -> None:
        """Listen again on the same port; a port that is still in use is tried again for a while."""
        failures: list[WorldError] = []

        def opened() -> bool:
            try:
                self._call("PATCH", _path(link), {"enabled": True})
            except WorldError as error:
                failures.append(error)
                return False
            return True

        if not wait_until(opened, deadline=Deadline(REBIND_LIMIT_S), every_s=0.05):
            raise WorldError(f"link {link} did not open again within {REBIND_LIMIT_S:g} s: {failures[-1].what}",
                             fix="see which process took its port, or set FLOODMARK_PORTS to a quieter range")

    def enabled(self, link: str) -> bool:
        """Whether `link` listens."""
        return bool(self._call("GET", _path(link)).get("enabled"))

    def _change(
        self,
        link: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        absent_is_fine: bool = False,
    ) -> None:
        """Change a toxic; where the server hangs over it, close the link first, which lets go of the hung call."""
        try:
            self._send(method, path, body, absent_is_fine=absent_is_fine)
        except ProxySilent:
            self._say(f"Toxiproxy hung over {method} {path}: closing link {link}, trying again, opening it")
            self.disable(link)
            try:
                # The hung call may have been carried out meanwhile: then there is nothing left to change.
                self._again(link, method, path, body)
            finally:
                self.enable(link)

    def _again(self, link: str, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        name = body["name"] if body is not None else path.rpartition("/")[2]
        if (name in self.toxics(link)) is (method == "POST"):
            return
        self._call(method, path, body)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """One call whose silence is an error like any other."""
        try:
            return self._send(method, path, body)
        except ProxySilent as silence:
            raise WorldError(str(silence), fix="the run cannot go on; start it again") from silence

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, absent_is_fine: bool = False
    ) -> Mapping[str, Any]:
        where = f"{method} http://{self.control.host}:{self.control.port}{path}"
        status, text = self._exchange(method, path, body, where=where)
        if status == NOT_FOUND and absent_is_fine:
            return {}
        if status >= http.client.MULTIPLE_CHOICES:
            raise WorldError(f"Toxiproxy refused {where} with {status}: {text.strip()}")
        return _json_object(text)

    def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, where: str
    ) -> tuple[int, str]:
        """A connection for each call: nothing to share between threads, nothing stale to reuse."""
        connection = http.client.HTTPConnection(self.control.host, self.control.port, timeout=self._limit_s)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json", "Connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except TimeoutError as error:
            raise ProxySilent(f"Toxiproxy did not answer {where} within {self._limit_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise WorldError(f"Toxiproxy could not be asked {where}: {error}",
                             fix="its process may have died; its log is beside the run's other files") from error
        finally:
            connection.close()


def _path(link: str) -> str:
    return f"/proxies/{quote(link, safe='')}"


def _json_object(text: str) -> Mapping[str, Any]:
    """The body as an object; anything else (empty, a list, an old server's plain version) as an empty one."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
