"""A link, which Toxiproxy calls a proxy: a listening port, its upstream, toxics, live connections and counters.

Every call returns without waiting for data, a sleep or a dial, and a change applies to live connections as well as to
new ones. The counters have the names and labels of Toxiproxy's Prometheus metrics; Toxiproxy counts a connection when
it ends, these count bytes as they pass and never decrease.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import assert_never

from harness.proxy.connection import Connection, Traffic
from harness.proxy.link_log import LinkLog, LinkLogPage
from harness.proxy.listener import Listener
from harness.proxy.mysql.rules import PacketToxic
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.toxics.stage import Attributes, Stream, Toxic


class Cutting(StrEnum):
    """How a cut ends live connections, in the words of the control API."""

    RST = "rst"
    """Reset: bytes in flight are lost."""
    FIN = "fin"
    """An orderly close of both sockets."""


_COUNTERS = ("toxiproxy_proxy_received_bytes_total", "toxiproxy_proxy_sent_bytes_total")


def metrics_text(links: Iterable[Link]) -> str:
    """Prometheus text: both counters of every link and direction."""
    traffic = [(link, stream, link.traffic()[stream]) for link in links for stream in Stream]
    lines = []
    for number, counter in enumerate(_COUNTERS):
        lines.append(f"# TYPE {counter} counter")
        lines += [
            f"{counter}{{{_labels(link, stream)}}} {counted[number]}" for link, stream, counted in traffic
        ]
    return "\n".join(lines) + "\n"


def _labels(link: Link, stream: Stream) -> str:
    labels = {
        "direction": stream.value,
        "listener": link.listen,
        "proxy": link.name,
        "upstream": link.upstream,
    }
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Link:
    """One link. Mutable. Constructed disabled; `start` opens the port."""

    def __init__(
        self, *, name: str, listen: str, upstream: str, parts: ProxyParts, mysql: bool = False
    ) -> None:
        self.name = name
        self.listen = listen
        """The address as requested until the first start; then with the real port."""
        self.upstream = upstream
        self.mysql = mysql
        """Whether to follow MySQL's packets from each connection's first byte, without waiting for a packet toxic.

        May be set; connections that exist stay as they are.
        """
        self.enabled = False
        self.log = LinkLog(link=name, loop=parts.loop, file=parts.log_file)
        self.packet_toxics: dict[str, PacketToxic] = {}
        self._parts = parts
        self._toxics: dict[str, Toxic] = {}
        self._live: dict[int, Connection] = {}
        self._accepted_count = 0
        self._counted_from = 0
        self._ended_traffic: Traffic = dict.fromkeys(Stream, (0, 0))
        self._listener: Listener | None = None

    def start(self) -> None:
        """Listen. Raises OSError if the address cannot be bound."""
        if self._listener is None:
            self._listener = self._parts.listener(self.listen, self._accept)
            self.listen = self._listener.address
        if not self._refusing():
            self._listener.open()
        self.enabled = True

    def stop(self) -> None:
        """Refuse clients and close every live connection with a FIN to both sides. The port stays bound."""
        self.enabled = False
        if self._listener is not None:
            self._listener.shut()
        for number in self._end_all(Cutting.FIN):
            self.log.note(number, "", "", "shut")

    def close(self) -> None:
        """Stop and release the port; for a link that is deleted."""
        self.stop()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def move(self, *, listen: str) -> None:
        """Listen at another address; live connections end.

        Raises OSError and changes nothing if the address cannot be bound.
        """
        moved = self._parts.listener(listen, self._accept)
        was_enabled = self.enabled
        if was_enabled and not self._refusing():
            try:
                moved.open()
            except OSError:
                moved.close()
                raise
        self.close()
        self._listener, self.listen, self.enabled = moved, moved.address, was_enabled

    def forget_port(self, *, listen: str) -> None:
        """Stop, and listen at some other port of that address (port 0) after the next start."""
        self.close()
        self.listen = listen

    def retarget(self, upstream: str, *, keep: bool = False) -> None:
        """Dial another upstream for new connections; live connections end, or stay with `keep`."""
        self.upstream = upstream
        if not keep:
            self._end_all(Cutting.FIN)

    def _refusing(self) -> bool:
        return any(toxic.type == "refuse" for toxic in self._toxics.values())

    def _accept(self, accepted: socket.socket, peer: str) -> None:
        self._accepted_count += 1
        connection = Connection(
            accepted,
            id=self._accepted_count,
            number=self._accepted_count - self._counted_from,
            peer=peer,
            link=self,
            parts=self._parts,
        )
        self._live[connection.id] = connection
        connection.begin()

    def count_anew(self) -> None:
        """Number new connections from 1 again, so that they draw as in a fresh proxy; live ones keep their number."""
        self._counted_from = self._accepted_count

    def ended(self, connection: Connection) -> None:
        """A connection has closed both its sockets."""
        self._live.pop(connection.id, None)
        self._ended_traffic = _sum(self._ended_traffic, connection.traffic())

    @property
    def toxics(self) -> list[Toxic]:
        """Upstream first, then downstream, each in the order of creation."""
        toxics = self._toxics.values()
        return [
            *(toxic for toxic in toxics if toxic.direction is Stream.UPSTREAM),
            *(toxic for toxic in toxics if toxic.direction is Stream.DOWNSTREAM),
        ]

    def add_toxic(self, toxic: Toxic) -> None:
        """Apply a new toxic at once, to live connections too. Its name must be free and its attributes validated."""
        assert toxic.name not in self._toxics
        self._toxics[toxic.name] = toxic
        if toxic.type == "packet":
            self.packet_toxics[toxic.name] = PacketToxic(
                name=toxic.name, stream=toxic.direction, attributes=toxic.attributes
            )
        elif toxic.type == "refuse":
            if self._listener is not None:
                self._listener.shut()
            self.log.note(0, str(toxic.direction), toxic.name, "refused")
        for connection in self._connections():
            connection.change(toxic)

    def update_toxic(
        self, name: str, *, attributes: Attributes | None = None, toxicity: float | None = None
    ) -> Toxic:
        """Change a toxic at once, for live connections too. `attributes` must be complete; None keeps them."""
        before = self._toxics[name]
        toxic = replace(
            before,
            toxicity=before.toxicity if toxicity is None else toxicity,
            attributes=before.attributes if attributes is None else attributes,
        )
        self._toxics[name] = toxic
        if name in self.packet_toxics:
            self.packet_toxics[name].update(toxic.attributes)
        for connection in self._connections():
            connection.change(toxic)
        return toxic

    def remove_toxic(self, name: str) -> None:
        """Remove a toxic. Bytes that it held are passed on, or its connections end, as the kind documents."""
        toxic = self._toxics.pop(name)
        for connection in self._connections():
            connection.spare(toxic)
        self.packet_toxics.pop(name, None)
        if toxic.type == "refuse" and self.enabled and not self._refusing() and self._listener is not None:
            self._listener.open()

    def release(self, name: str, *, connection: int) -> list[int]:
        """Send what a packet toxic holds of one connection (0: of all); returns the ids of those released."""
        released = [one for one in self._connections() if connection in {0, one.id}]
        for one in released:
            one.release(self.packet_toxics[name])
        return [one.id for one in released]

    def cut(self, how: Cutting, *, connection: int = 0) -> list[int]:
        """End live connections (one, or with 0 all) by RST or by FIN to both ends; returns their ids."""
        cut = self._end_all(how, connection=connection)
        did = "reset" if how is Cutting.RST else "cut"
        for number in cut:
            self.log.note(number, "", "", did)
        return cut

    def connections(self) -> list[Mapping[str, object]]:
        """The live connections, as the control API shows them."""
        return [connection.as_json() for connection in self._live.values()]

    def traffic(self) -> Traffic:
        """Bytes received and sent in each direction since the link was created."""
        traffic = self._ended_traffic
        for connection in self._live.values():
            traffic = _sum(traffic, connection.traffic())
        return traffic

    def log_after(self, number: int) -> LinkLogPage:
        """The log entries after that number."""
        return self.log.after(number)

    def _end_all(self, how: Cutting, *, connection: int = 0) -> list[int]:
        ended = [one for one in self._connections() if connection in {0, one.id}]
        for one in ended:
            match how:
                case Cutting.RST:
                    one.reset()
                case Cutting.FIN:
                    one.close(deliver=False)
                case _:
                    assert_never(how)
        return [one.id for one in ended]

    def _connections(self) -> list[Connection]:
        return list(self._live.values())


def _sum(one: Traffic, other: Traffic) -> Traffic:
    return {
        stream: (one[stream][0] + other[stream][0], one[stream][1] + other[stream][1]) for stream in Stream
    }
