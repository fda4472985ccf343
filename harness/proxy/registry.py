"""All links of a proxy process by name, and the changes that the control interface may make to them.

Answers to Toxiproxy's `ProxyCollection`. Invariants: a change is made completely or not at all, so after a refusal the
state is what the interface shows; nothing here waits for data, a dial or a client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from harness.proxy.link import Link
from harness.proxy.listener import is_any_port, listen_address, same_listen
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.refusal import Refusal, cannot_listen
from harness.proxy.request_bodies import LinkAsked, ToxicAsked, ToxicChange, attributes_asked
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Toxic


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
