"""Reserves ports on loopback: each is locked for the life of its run.

They are outside the ephemeral range, from which the kernel could give a port to any client while the proxy that owns
it has it closed (`docs/reference/references.md`, Measured). Invariant: two runs that share a cache never hold the
same port.
"""

from __future__ import annotations

import socket
from pathlib import Path

from harness.system.choices import Choices, fresh_seed
from harness.system.errors import WorldError
from harness.world.ledger import Ledger

LOOPBACK = "127.0.0.1"
LOWEST = 20_000
HIGHEST = 65_535
TRIES_MAX = 300
"""How many ports are tried before an error."""


def reserve_port(ledger: Ledger, *, among: range | None = None) -> int:
    """Reserve a port for the ledger's run; it is released with the run."""
    candidates = preferred_range() if among is None else among
    start = Choices(fresh_seed(), "ports").index(len(candidates))
    for step in range(min(len(candidates), TRIES_MAX)):
        port = candidates[(start + step) % len(candidates)]
        if _bindable(port) and _lock(port, ledger=ledger):
            return port
    raise WorldError(
        f"no free port on {LOOPBACK} among {candidates[0]}-{candidates[-1]}: each one tried is taken",
        fix="set FLOODMARK_PORTS to a range with free ports, like 21000-21999",
    )


def preferred_range() -> range:
    """The ports below the kernel's ephemeral range, or above it if there are more."""
    source = Path("/proc/sys/net/ipv4/ip_local_port_range")
    low, high = (int(word) for word in source.read_text().split()) if source.exists() else (49_152, HIGHEST)
    below, above = range(LOWEST, low), range(high + 1, HIGHEST + 1)
    widest = max(below, above, key=len)
    return widest if len(widest) >= TRIES_MAX else range(LOWEST, HIGHEST + 1)


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a port in TIME_WAIT can be bound.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _lock(port: int, *, ledger: Ledger) -> bool:
    """Take the port's lock: a symbolic link to the run's id, which is created atomically."""
    lock = ledger.places.ports / str(port)
    if lock.is_symlink():
        return False
    ledger.note_port(port)
    try:
        lock.symlink_to(ledger.run_id)
    except FileExistsError:
        return False
    return True
