"""The proxy's rows of the performance table: our proxy, following packets, against Toxiproxy in the same run.

Invariant: both proxies serve the same clients and servers in turns; a row compares results of the same round, never
figures of another run.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from harness.system.errors import WorldError
from harness.world.containers import sweep_run
from harness.world.ledger import LOOPBACK, open_ledger, reserve_port
from harness.world.local import PROXY_LIMIT_S, start_proxy
from harness.world.proxy_program import find_proxy_program
from harness.world.settings import WorldSettings
from harness.world.world import Address
from tools.bench.mysql_traffic import Traffic, bulk, lookup
from tools.bench.proxy_load import Pace, ProxyLoad, proxy_load
from tools.bench.rounds import ROUNDS, Contender, Costs, take_turns
from tools.bench.row import NotMeasured, Row, ratio_row

_OURS, _THEIRS, _NONE = "ours", "Toxiproxy", "no proxy"
_LINK = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """One kind of traffic over a number of connections."""

    name: str
    traffic: Callable[[], Traffic]
    connections: int
    exchanges: int
    goal: float
    of_exchange: bool = True
    """Whether the mean exchange is compared; else the 99th percentile."""


_BULK_BYTES = 4_000_000
_MEASURES = (
    _Measure(name="lookups/s", traffic=lookup, connections=1, exchanges=4_000, goal=1.0),
    _Measure(name="lookups/s", traffic=lookup, connections=10, exchanges=10_000, goal=1.0),
    _Measure(name="lookups/s", traffic=lookup, connections=100, exchanges=20_000, goal=1.0),
    _Measure(
        name="lookup latency, 99th percentile, as speed",
        traffic=lookup,
        connections=1,
        exchanges=4_000,
        goal=1.0,
        of_exchange=False,
    ),
    _Measure(
        name="lookup latency, 99th percentile, as speed",
        traffic=lookup,
        connections=100,
        exchanges=20_000,
        goal=1.0,
        of_exchange=False,
    ),
    _Measure(name="bulk bytes/s", traffic=lambda: bulk(_BULK_BYTES), connections=1, exchanges=40, goal=1.0),
    _Measure(name="bulk bytes/s", traffic=lambda: bulk(_BULK_BYTES), connections=10, exchanges=40, goal=1.0),
    _Measure(name="bulk bytes/s", traffic=lambda: bulk(_BULK_BYTES // 10), connections=100, exchanges=400, goal=1.0),
)  # fmt: skip


def proxy_rows(*, settings: WorldSettings, say: Callable[[str], None]) -> Iterator[Row | NotMeasured]:
    """Measure both proxies; without Toxiproxy's program nothing is measured."""
    try:
        find_proxy_program(settings)
    except WorldError as error:
        yield NotMeasured(name="own proxy against Toxiproxy", reason=error.what)
        return
    with _proxies(settings, say=say) as (upstream, proxies):
        for measure in _MEASURES:
            say(f"{measure.name}, {measure.connections} connections")
            yield _row(measure, upstream, proxies)


@contextmanager
def _proxies(
    settings: WorldSettings, *, say: Callable[[str], None]
) -> Iterator[tuple[socket.socket, Mapping[str, Address]]]:
    """Start both proxies with a link to an upstream of ours; yields the upstream and the addresses."""
    programs = {_OURS: None, _THEIRS: find_proxy_program(settings)}
    with open_ledger(settings, sweep_run) as ledger, ExitStack() as stack:
        upstream = stack.enter_context(socket.create_server((LOOPBACK, 0), backlog=512))
        host, port = upstream.getsockname()
        addresses = {_NONE: Address(host=host, port=port)}
        for name, program in programs.items():
            process, proxy = start_proxy(program, ledger=ledger, say=say)
            stack.callback(process.stop)
            process.wait_for(proxy.healthy, what=f"{name} to answer", limit_s=PROXY_LIMIT_S)
            addresses[name] = Address(host=LOOPBACK, port=reserve_port(ledger))
            listen = f"{LOOPBACK}:{addresses[name].port}"
            proxy.create(_LINK, listen=listen, upstream=f"{host}:{port}")
        yield upstream, addresses


def _row(measure: _Measure, upstream: socket.socket, proxies: Mapping[str, Address]) -> Row:
    traffic = measure.traffic()
    with ExitStack() as stack:
        loads = {
            name: stack.enter_context(proxy_load(address, upstream=upstream, connections=measure.connections))
            for name, address in proxies.items()
        }
        costs = take_turns({name: _turn(load, traffic, measure) for name, load in loads.items()})
    plural = "s" if measure.connections > 1 else ""
    return ratio_row(
        f"own proxy, {measure.connections} connection{plural}: {measure.name}, against Toxiproxy",
        costs.rate(_OURS, against=_THEIRS),
        goal=measure.goal,
        rounds=ROUNDS,
        detail=_detail(costs),
    )


def _turn(load: ProxyLoad, traffic: Traffic, measure: _Measure) -> Contender:
    def turn() -> float:
        pace: Pace = load.run(traffic, measure.exchanges)
        return pace.exchange_s if measure.of_exchange else pace.slow_s

    return turn


def _detail(costs: Costs) -> str:
    return ", ".join(f"{name} {costs.microseconds(name):,.0f} us" for name in (_OURS, _THEIRS, _NONE))
