"""Every kind of toxic, by name: Toxiproxy's eight, then our own; defines `noop`, `refuse` and `stall` itself.

`noop` does nothing, as Toxiproxy's; a fault's no-op test injects it. `refuse` is done by the link: new
connects are refused, live connections go on (Toxiproxy can only disable the proxy, which ends those too);
removal listens again on the same port; the kernel refuses, so there are no dice. `stall` is done by
`harness.proxy.connection` before it dials: new clients are accepted and hear nothing; removal dials, and the
connection goes on.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.proxy.mysql.rules import ATTRIBUTES, refuse
from harness.proxy.toxics.bandwidth import BANDWIDTH
from harness.proxy.toxics.close import RESET_PEER, SLOW_CLOSE, TIMEOUT
from harness.proxy.toxics.half_open import HALF_OPEN
from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.latency import LATENCY
from harness.proxy.toxics.limit_data import LIMIT_DATA
from harness.proxy.toxics.slicer import SLICER

__all__ = ["NOOP", "REFUSE", "STALL", "TOXIC_KINDS"]

NOOP = ToxicKind(name="noop", attributes={}, stage=None)


REFUSE = ToxicKind(name="refuse", attributes={}, stage=None, own=True)


STALL = ToxicKind(name="stall", attributes={}, stage=None, own=True)


_PACKET = ToxicKind(name="packet", attributes=ATTRIBUTES, refuse=refuse, stage=None, own=True)

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
