"""Our own proxy as a process of a world: `python -m harness.proxy` on a reserved port of loopback.

Invariant: it needs nothing but this Python; it is in the ledger before it runs, like every process of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.world.ledger import Ledger
from harness.world.ports import LOOPBACK, reserve_port
from harness.world.processes import ChildProcess
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import Address

__all__ = ["OWN_PROXY", "start_own_proxy"]

OWN_PROXY = "own proxy"
"""As descriptions and logs call it."""


def start_own_proxy(
    *, ledger: Ledger, ports: range | None, say: Callable[[str], None]
) -> tuple[ChildProcess, Toxiproxy]:
    """Start it; it may still be starting when this returns."""
    control = Address(host=LOOPBACK, port=reserve_port(ledger, among=ports))
    # `-P`: the folder that it runs in, the run's own, is no place to import from.
    command = [
        sys.executable,
        "-P",
        "-m",
        "harness.proxy",
        "--host",
        control.host,
        "--port",
        str(control.port),
    ]
    process = ChildProcess.start(command, name=OWN_PROXY, log=ledger.folder / "own-proxy.log", ledger=ledger)
    return process, Toxiproxy(control, say=say, own=True)
