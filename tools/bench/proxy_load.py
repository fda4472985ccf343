"""The load of the proxy's benchmark: clients and their servers in one process, a proxy between them in another.

Answers to sysbench's point selects, without a database that would be slower than any proxy. Invariant: every client
has one request under way, and every byte of every reply is counted; the last ones are compared.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from harness.clock import monotonic_us
from harness.errors import HarnessError
from harness.world.world import Address
from tools.bench.mysql_traffic import GREETING, LOGIN, OK, Traffic

__all__ = ["Pace", "ProxyLoad", "proxy_load"]

_READ_MAX = 1 << 18
_LIMIT_S = 30.0
_COMPARED = 64
"""Bytes at the end of a reply that are compared; comparing all would measure the load."""
_SLOW_OF = 100
"""The slowest of so many exchanges says how long one may wait."""
_Pair = tuple[socket.socket, socket.socket]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a run of a load took."""

    exchange_s: float
    """The whole time over the number of exchanges."""
    slow_s: float
    """The 99th percentile of what one exchange took its client."""


class ProxyLoad:
    """Connections through one proxy, logged in; mutable: bytes go to and fro."""

    def __init__(self, pairs: list[_Pair]) -> None:
        self._clients = {client.fileno(): client for client, _ in pairs}
        self._servers = {server.fileno(): server for _, server in pairs}
        self._unsent: dict[int, memoryview] = {}
        self._epoll = select.epoll()
        for _, each in [*self._clients.items(), *self._servers.items()]:
            each.setblocking(False)
            self._epoll.register(each.fileno(), select.EPOLLIN)

    def run(self, traffic: Traffic, exchanges: int) -> Pace:
        """So many exchanges, shared among all connections, each of which sends when it has its answer."""
        each = -(-exchanges // len(self._clients))
        left = dict.fromkeys(self._clients, each)
        due = dict.fromkeys(self._clients, len(traffic.reply))
        took_us: list[int] = []
        begun = monotonic_us()
        asked_us = dict.fromkeys(self._clients, begun)
        for client in self._clients.values():
            client.send(traffic.request)
        while left:
            for descriptor, event in self._events():
                if descriptor in self._servers:
                    self._serve(descriptor, event, traffic)
                elif self._answered(descriptor, traffic, due):
                    now = monotonic_us()
                    took_us.append(now - asked_us[descriptor])
                    asked_us[descriptor] = now
                    left[descriptor] -= 1
                    if left[descriptor]:
                        self._clients[descriptor].send(traffic.request)
                    else:
                        del left[descriptor]
        seconds = (monotonic_us() - begun) / 1_000_000
        return Pace(exchange_s=seconds / len(took_us), slow_s=_slow(took_us) / 1_000_000)

    def close(self) -> None:
        """Watch nothing more."""
        self._epoll.close()

    def _events(self) -> list[tuple[int, int]]:
        events = self._epoll.poll(_LIMIT_S)
        if not events:
            raise HarnessError(f"a proxy gave nothing for {_LIMIT_S:g} s")
        return events

    def _answered(self, descriptor: int, traffic: Traffic, due: dict[int, int]) -> bool:
        """Whether a client has its whole reply now."""
        chunk = self._clients[descriptor].recv(_READ_MAX)
        left = due[descriptor] - len(chunk)
        due[descriptor] = left or len(traffic.reply)
        if left > 0 and chunk:
            return False
        end = chunk[-_COMPARED:]
        if left or not traffic.reply.endswith(end):
            raise HarnessError("a reply came back otherwise than it was sent")
        return True

    def _serve(self, descriptor: int, event: int, traffic: Traffic) -> None:
        """Answer a request, or go on with an answer that the proxy did not take at once."""
        server = self._servers[descriptor]
        rest = self._unsent.pop(descriptor, None)
        if event & select.EPOLLIN:
            if server.recv(_READ_MAX) != traffic.request or rest is not None:
                raise HarnessError("a request came otherwise than it was sent")
            rest = memoryview(traffic.reply)
        if rest is None:
            raise HarnessError("a server was woken for nothing")
        sent = server.send(rest)
        if sent < len(rest):
            self._unsent[descriptor] = rest[sent:]
            self._epoll.modify(descriptor, select.EPOLLOUT)
        elif event & select.EPOLLOUT:
            self._epoll.modify(descriptor, select.EPOLLIN)


@contextmanager
def proxy_load(proxy: Address, *, upstream: socket.socket, connections: int) -> Iterator[ProxyLoad]:
    """So many logged-in connections through the proxy whose upstream is ours, while the block lasts."""
    with ExitStack() as stack:
        pairs = [_pair(proxy, upstream, stack) for _ in range(connections)]
        load = ProxyLoad(pairs)
        stack.callback(load.close)
        yield load


def _pair(proxy: Address, upstream: socket.socket, stack: ExitStack) -> _Pair:
    client = stack.enter_context(socket.create_connection((proxy.host, proxy.port), timeout=_LIMIT_S))
    server = stack.enter_context(upstream.accept()[0])
    server.settimeout(_LIMIT_S)
    for each in (client, server):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for sender, receiver, packet in (
        (server, client, GREETING),
        (client, server, LOGIN),
        (server, client, OK),
    ):
        sender.sendall(packet)
        if receiver.recv(len(packet), socket.MSG_WAITALL) != packet:
            raise HarnessError("the login came otherwise than it was sent")
    return client, server


def _slow(took_us: list[int]) -> int:
    return sorted(took_us)[-max(1, len(took_us) // _SLOW_OF)]
