"""Our own proxy: Toxiproxy's control API, faults that bite at MySQL's packets, and a log of every deed.

One process, one event loop, loopback only. Invariant: a control call never waits for data, a sleep or a dial, and
whatever a toxic does to a connection can be read in the log of deeds.
"""

from __future__ import annotations

__all__: list[str] = []
