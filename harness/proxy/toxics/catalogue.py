"""Every kind of toxic, by name: Toxiproxy's eight, then our own."""

from __future__ import annotations

from collections.abc import Mapping

from harness.proxy.toxics import packet
from harness.proxy.toxics.bandwidth import BANDWIDTH
from harness.proxy.toxics.half_open import HALF_OPEN
from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.latency import LATENCY
from harness.proxy.toxics.limit_data import LIMIT_DATA
from harness.proxy.toxics.noop import NOOP
from harness.proxy.toxics.refuse import REFUSE
from harness.proxy.toxics.reset_peer import RESET_PEER
from harness.proxy.toxics.slicer import SLICER
from harness.proxy.toxics.slow_close import SLOW_CLOSE
from harness.proxy.toxics.stall import STALL
from harness.proxy.toxics.timeout import TIMEOUT

__all__ = ["TOXIC_KINDS"]

_PACKET = ToxicKind(name="packet", attributes=packet.ATTRIBUTES, refuse=packet.refuse, stage=None, own=True)

TOXIC_KINDS: Mapping[str, ToxicKind] = {
    kind.name: kind
    for kind in (
        LATENCY,
        BANDWIDTH,
        SLOW_CLOSE,
        TIMEOUT,
        RESET_PEER,
        SLICER,
        LIMIT_DATA,
        NOOP,
        HALF_OPEN,
        REFUSE,
        STALL,
        _PACKET,
    )
}
