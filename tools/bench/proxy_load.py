"""The load of the proxy benchmark: clients and servers in one process, a proxy between them in another.

Answers to sysbench's point selects, without a database, which would be slower than any proxy. Invariant: each client
has one request in flight, every byte of every reply is counted, and the last bytes are compared.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from harness.system.clock import monotonic_us
from harness.system.errors import HarnessError
from harness.world.world import Address
from tools.bench.mysql_traffic import GREETING, LOGIN, OK, Traffic

_READ_MAX = 1 << 18
_LIMIT_S = 30.0
_COMPARED = 64
"""Bytes at the end of a reply that are compared; comparing all of them would dominate the measurement."""
_SLOW_OF = 100
"""The latency reported is the 99th percentile: the slowest of this many exchanges."""
_Pair = tuple[socket.socket, socket.socket]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The result of one run of a load."""

    exchange_s: float
    """The total time divided by the number of exchanges."""
    slow_s: float
    """The 99th percentile of an exchange's latency."""


class ProxyLoad:
    """Logged-in connections through one proxy. Mutable."""

    def __init__(self, pairs: list[_Pair]) -> None:
        self._clients = {client.fileno(): client for client, _ in pairs}
        self._servers = {server.fileno(): server for _, server in pairs}
        self._unsent: dict[int, memoryview] = {}
        self._epoll = select.epoll()
        for _, each in [*self._clients.items(), *self._servers.items()]:
            each.setblocking(False)
            self._epoll.register(each.fileno(), select.EPOLLIN)

    def run(self, traffic: Traffic, exchanges: int) -> Pace:
        """Run `exchanges` exchanges over all connections; each client sends again when it has its reply."""
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
        """Stop polling."""
        self._epoll.close()

    def _events(self) -> list[tuple[int, int]]:
        events = self._epoll.poll(_LIMIT_S)
        if not events:
            raise HarnessError(f"the proxy forwarded no bytes for {_LIMIT_S:g} s")
        return events

    def _answered(self, descriptor: int, traffic: Traffic, due: dict[int, int]) -> bool:
        """Whether the client has its whole reply."""
        chunk = self._clients[descriptor].recv(_READ_MAX)
        left = due[descriptor] - len(chunk)
        due[descriptor] = left or len(traffic.reply)
        if left > 0 and chunk:
            return False
        end = chunk[-_COMPARED:]
        if left or not traffic.reply.endswith(end):
            raise HarnessError("a reply arrived with other bytes than it was sent with")
        return True

    def _serve(self, descriptor: int, event: int, traffic: Traffic) -> None:
        """Answer a request, or send the rest of a reply that the socket did not take at once."""
        server = self._servers[descriptor]
        rest = self._unsent.pop(descriptor, None)
        if event & select.EPOLLIN:
            if server.recv(_READ_MAX) != traffic.request or rest is not None:
                raise HarnessError("a request arrived with other bytes than it was sent with")
            rest = memoryview(traffic.reply)
        if rest is None:
            raise HarnessError("a server's socket was ready without anything to send")
        sent = server.send(rest)
        if sent < len(rest):
            self._unsent[descriptor] = rest[sent:]
            self._epoll.modify(descriptor, select.EPOLLOUT)
        elif event & select.EPOLLOUT:
            self._epoll.modify(descriptor, select.EPOLLIN)


@contextmanager
def proxy_load(proxy: Address, *, upstream: socket.socket, connections: int) -> Iterator[ProxyLoad]:
    """Logged-in connections through the proxy, whose upstream is our own socket, for the duration of the block."""
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
            raise HarnessError("the login arrived with other bytes than it was sent with")
    return client, server


def _slow(took_us: list[int]) -> int:
    return sorted(took_us)[-max(1, len(took_us) // _SLOW_OF)]
