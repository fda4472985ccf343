"""Our own TCP proxy: Toxiproxy's control API, faults on MySQL's packets, and a log of every fault.

One process with one event loop; it listens on loopback only, unless the user asks for more. A `Link` is what
Toxiproxy calls a proxy. A `LinkEvent` is one log entry: a toxic (or a cut) did something to a connection.
Invariant: a control call never waits for data, a sleep or a dial, and everything that a toxic does to a
connection is logged.
"""

from __future__ import annotations

__all__: list[str] = []
