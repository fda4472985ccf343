"""All links of a proxy process by name, and the changes that the control interface's JSON bodies make to them.

Invariant: what this module returns is complete and typed; a toxic has exactly the attributes that its kind
declares.

Answers to Toxiproxy's `ProxyCollection`. Invariants: a change is made completely or not at all, so after a refusal the
state is what the interface shows; nothing here waits for data, a dial or a client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from harness.proxy.json_body import (
    Refusal,
    bad_body,
    boolean,
    cannot_listen,
    integer,
    missing_field,
    number,
    read_fields,
    read_json,
    string,
)
from harness.proxy.link import Cutting, Link
from harness.proxy.listener import is_any_port, listen_address, same_listen
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Attributes, Stream, Toxic, ToxicKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAsked:
    """A link to make, or a change of one; None means that the body did not set the field."""

    name: str = ""
    listen: str | None = None
    upstream: str | None = None
    enabled: bool | None = None
    mysql: bool | None = None
    """Our own extension: follow MySQL's packets from each connection's first byte on, even without a packet
    toxic.
    """
    keep: bool | None = None
    """Our own extension, of a change: another upstream is for new connections only, and live ones stay."""


def read_link(body: bytes) -> LinkAsked:
    """A link to make; its name and upstream are required."""
    asked = _link(read_json(body))
    _complete(asked)
    return asked


def read_link_change(body: bytes) -> LinkAsked:
    """A change of a link; a name in the body is ignored."""
    asked = _link(read_json(body))
    if asked.upstream == "":
        raise missing_field("upstream")
    return asked


def read_links(body: bytes) -> list[LinkAsked]:
    """A list of links to make; every entry is validated before any link is made."""
    value = read_json(body)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad_body("it is not a JSON list")
    links = [_link(item) for item in value]
    for place, asked in enumerate(links, start=1):
        _complete(asked, suffix=f" at proxy {place}")
    return links


def _link(value: object) -> LinkAsked:
    texts = dict.fromkeys(("name", "listen", "upstream"), string)
    return LinkAsked(**read_fields(value, {**texts, **dict.fromkeys(("enabled", "mysql", "keep"), boolean)}))


def _complete(asked: LinkAsked, *, suffix: str = "") -> None:
    if not asked.name:
        raise missing_field(f"name{suffix}")
    if not asked.upstream:
        raise missing_field(f"upstream{suffix}")
    if asked.name in {".", ".."}:
        raise _unreachable_name("proxy", asked.name)


def _unreachable_name(thing: str, name: str) -> Refusal:
    """HTTP clients resolve `.` and `..` in a path, so no request could show or delete it."""
    words = f"a {thing} cannot be called {name}: HTTP clients drop that part of a path"
    return Refusal(words, HTTPStatus.BAD_REQUEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicAsked:
    """A toxic to add."""

    toxic: Toxic
    kind: ToxicKind
    attributes: Any
    """Raw; `attributes_asked` validates them. Toxiproxy too checks for a toxic of the same name first."""


def _raw(value: object) -> object:
    return value


def read_toxic(body: bytes) -> ToxicAsked:
    """A toxic to add."""
    texts = dict.fromkeys(("name", "type", "stream"), string)
    asked = read_fields(read_json(body), {**texts, "toxicity": number, "attributes": _raw})
    stream = asked.get("stream", Stream.DOWNSTREAM.value)
    try:
        direction = Stream(stream.lower())
    except ValueError:
        words = "stream was invalid, can be either upstream or downstream"
        raise Refusal(words, HTTPStatus.BAD_REQUEST) from None
    type_ = asked.get("type", "")
    if type_ not in TOXIC_KINDS:
        raise Refusal("invalid toxic type", HTTPStatus.BAD_REQUEST)
    toxic = Toxic(
        name=asked.get("name") or f"{type_}_{stream}",
        type=type_,
        stream=stream,
        direction=direction,
        toxicity=asked.get("toxicity", 1.0),
        attributes={},
    )
    if toxic.name in {".", ".."}:
        raise _unreachable_name("toxic", toxic.name)
    return ToxicAsked(toxic=toxic, kind=TOXIC_KINDS[type_], attributes=asked.get("attributes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicChange:
    """A change of a toxic."""

    toxicity: float | None
    attributes: Any
    """Raw; `attributes_asked` validates them."""


def read_toxic_change(body: bytes) -> ToxicChange:
    """The new toxicity and attributes; name, type and stream cannot change and are ignored."""
    asked = read_fields(read_json(body), {"toxicity": number, "attributes": _raw})
    return ToxicChange(toxicity=asked.get("toxicity"), attributes=asked.get("attributes"))


def attributes_asked(given: object, kind: ToxicKind, *, before: Attributes) -> Attributes:
    """All attributes of the kind: from the body, else from `before`, else the default.

    Raises a `Refusal` for a bad value.
    """
    fields = {name: string if isinstance(at, str) else integer for name, at in kind.attributes.items()}
    found = {**kind.attributes, **before, **read_fields(given, fields)}
    if why := kind.refuse(found):
        raise Refusal(f"invalid attributes: {why}", HTTPStatus.BAD_REQUEST)
    return found


def read_cut(body: bytes) -> tuple[Cutting, int]:
    """How to end a link's live connections, `rst` or `fin`, and the number of the only one to end (0: all)."""
    asked = read_fields(read_json(body), {"how": string, "connection": integer})
    how = asked.get("how", "")
    try:
        return Cutting(how), int(asked.get("connection", 0))
    except ValueError:
        words = f"how was invalid, can be either {' or '.join(Cutting)}"
        raise Refusal(words, HTTPStatus.BAD_REQUEST) from None


def read_connection(body: bytes) -> int:
    """The number of the connection whose held bytes are to be sent; 0: all."""
    return int(read_fields(read_json(body), {"connection": integer}).get("connection", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsAsked:
    """What a `PUT /floodmark` changes; None: not this."""

    seed: int | None = None
    identify: bool | None = None
    """Whether to find out which process opens each connection to come."""


def read_settings(body: bytes) -> SettingsAsked:
    """A `PUT /floodmark`; it has to change something."""
    asked = SettingsAsked(**read_fields(read_json(body), {"seed": integer, "identify": boolean}))
    if asked == SettingsAsked():
        raise Refusal("`seed` or `identify` must be set", HTTPStatus.BAD_REQUEST)
    if asked.seed is not None and asked.seed < 0:
        raise Refusal("`seed` must be a whole number, 0 or more", HTTPStatus.BAD_REQUEST)
    return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Populated:
    """The result of a populate: the links that exist now, and why the first of the rest was refused."""

    links: Sequence[Link]
    refusal: Refusal | None = None


class Registry:
    """The links. Mutable: the control interface changes it."""

    def __init__(self, parts: ProxyParts) -> None:
        self._parts = parts
        self._links: dict[str, Link] = {}

    def __iter__(self) -> Iterator[Link]:
        """Sorted by name, as Go prints a map."""
        return iter([self._links[name] for name in sorted(self._links)])

    @property
    def seed(self) -> int:
        """The seed of new connections' draws."""
        return self._parts.dice.seed

    def reseed(self, seed: int) -> None:
        """Set the seed and number every link's connections from 1 again; all as in a fresh proxy with this seed."""
        self._parts.reseed(seed)
        self._parts.identifies = False
        for link in self:
            link.count_anew()

    @property
    def identifies(self) -> bool:
        """Whether the process that opens each connection to come is found out."""
        return self._parts.identifies

    def identify(self, *, on: bool) -> None:
        """Find it out from now on, or no more. A connection is dialled some 40 ms later for that."""
        self._parts.identifies = on

    def link(self, name: str) -> Link:
        """The link of that name. Raises a `Refusal` if there is none."""
        try:
            return self._links[name]
        except KeyError:
            raise Refusal("proxy not found", HTTPStatus.NOT_FOUND) from None

    def make(self, asked: LinkAsked) -> Link:
        """Create a link; it listens unless `enabled` is false."""
        if asked.name in self._links:
            raise Refusal("proxy already exists", HTTPStatus.CONFLICT)
        link = self._built(asked)
        if asked.enabled is not False:
            _start(link)
        self._links[link.name] = link
        return link

    def change(self, name: str, asked: LinkAsked) -> Link:
        """Change the address or upstream (live connections end, toxics stay), or enable or disable the link.

        With `keep` another upstream is for new connections only, and live ones stay with the old one. Port 0 is
        always another port, as in Toxiproxy. `mysql` applies to the connections to come.
        """
        link = self.link(name)
        enabled = link.enabled if asked.enabled is None else asked.enabled
        if asked.listen is not None:
            listen = listen_address(asked.listen)
            if listen != link.listen:
                _move(link, listen, enabled=enabled)
        if enabled and not link.enabled:
            _start(link)
        elif link.enabled and not enabled:
            link.stop()
        if asked.upstream not in {None, link.upstream}:
            link.retarget(str(asked.upstream), keep=asked.keep is True)
        _follow_packets(link, asked)
        return link

    def remove(self, name: str) -> None:
        """Close and delete the link; its connections end."""
        self.link(name).close()
        del self._links[name]

    def populate(self, asked: Sequence[LinkAsked]) -> Populated:
        """Create the links; an existing one with the same address and upstream stays, but for its `mysql`.

        Stops at the first refusal; the links created before it stay.
        """
        links: list[Link] = []
        for wanted in asked:
            try:
                links.append(self._made_or_kept(wanted))
            except Refusal as refusal:
                return Populated(links=links, refusal=refusal)
        return Populated(links=links)

    def reset(self) -> None:
        """Enable every link and remove every toxic. Raises the first refusal after all links were reset."""
        refusals: list[Refusal] = []
        for link in self:
            try:
                if not link.enabled:
                    _start(link)
            except Refusal as refusal:
                refusals.append(refusal)
            for toxic in list(link.toxics):
                link.remove_toxic(toxic.name)
        if refusals:
            raise refusals[0]

    def close(self) -> None:
        """Delete every link; for the end of the process."""
        for name in list(self._links):
            self.remove(name)

    def toxic(self, name: str, toxic: str) -> Toxic:
        """The toxic of that name on that link. Raises a `Refusal` if there is none."""
        for found in self.link(name).toxics:
            if found.name == toxic:
                return found
        raise Refusal("toxic not found", HTTPStatus.NOT_FOUND)

    def add_toxic(self, name: str, asked: ToxicAsked) -> Toxic:
        """Add a toxic after the existing ones of its direction; it acts on live connections at once."""
        link = self.link(name)
        if any(found.name == asked.toxic.name for found in link.toxics):
            raise Refusal("toxic already exists", HTTPStatus.CONFLICT)
        attributes = attributes_asked(asked.attributes, asked.kind, before={})
        toxic = replace(asked.toxic, attributes=attributes)
        link.add_toxic(toxic)
        return toxic

    def change_toxic(self, name: str, toxic: str, change: ToxicChange) -> Toxic:
        """Change a toxic; what the body does not set stays. It applies to live connections at once."""
        before = self.toxic(name, toxic)
        attributes = attributes_asked(change.attributes, TOXIC_KINDS[before.type], before=before.attributes)
        return self.link(name).update_toxic(toxic, attributes=attributes, toxicity=change.toxicity)

    def remove_toxic(self, name: str, toxic: str) -> None:
        """Remove a toxic; bytes that it held are passed on or lost, as its kind documents."""
        self.link(name).remove_toxic(self.toxic(name, toxic).name)

    def release(self, name: str, toxic: str, connection: int) -> list[int]:
        """Send what a packet toxic holds of a connection (0: of all); the toxic stays."""
        found = self.toxic(name, toxic)
        return self.link(name).release(found.name, connection=connection) if found.type == "packet" else []

    def _built(self, asked: LinkAsked) -> Link:
        listen = listen_address(asked.listen or "")
        return Link(
            name=asked.name,
            listen=listen,
            upstream=asked.upstream or "",
            mysql=asked.mysql is True,
            parts=self._parts,
        )

    def _made_or_kept(self, asked: LinkAsked) -> Link:
        """Keeps an existing link that has this upstream and listens where it is asked to; else makes one."""
        there = self._links.get(asked.name)
        if there is None:
            return self.make(asked)
        listen = listen_address(asked.listen or "")
        if same_listen(listen, now=there.listen) and asked.upstream == there.upstream:
            _follow_packets(there, asked)
            return there
        link = self._built(asked)
        if listen == there.listen:
            there.close()  # releases the port for the new link
        if asked.enabled is not False:
            _start(link)
        there.close()
        self._links[link.name] = link
        return link


def _follow_packets(link: Link, asked: LinkAsked) -> None:
    if asked.mysql is not None:
        link.mysql = asked.mysql


def _start(link: Link) -> None:
    try:
        link.start()
    except OSError as error:
        raise cannot_listen(link.listen, error) from None


def _move(link: Link, listen: str, *, enabled: bool) -> None:
    if not enabled and is_any_port(listen):
        link.forget_port(listen=listen)
        return
    try:
        link.move(listen=listen)
    except OSError as error:
        raise cannot_listen(listen, error) from None
