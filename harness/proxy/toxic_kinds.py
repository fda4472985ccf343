"""Every kind of toxic by name: Toxiproxy's eight, then our own. Defines `noop`, `refuse` and `stall` itself.

`noop` does nothing, like Toxiproxy's; tests inject it. `refuse` is implemented by the link: new connects are refused
and live connections go on (Toxiproxy can only disable the proxy, which ends them); removal listens again on the same
port. The kernel refuses, so toxicity has no effect. `stall` is implemented by `harness.proxy.connection` before it
dials: new clients are accepted and get no bytes; removal dials, and the connection goes on.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.proxy.mysql.rules import ATTRIBUTES, refuse
from harness.proxy.toxics.delaying import BANDWIDTH, LATENCY, SLICER
from harness.proxy.toxics.ending import HALF_OPEN, LIMIT_DATA, RESET_PEER, SLOW_CLOSE, TIMEOUT
from harness.proxy.toxics.stage import ToxicKind

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
        ToxicKind(name="noop", attributes={}, stage=None),
        HALF_OPEN,
        ToxicKind(name="refuse", attributes={}, stage=None, own=True),
        ToxicKind(name="stall", attributes={}, stage=None, own=True),
        ToxicKind(name="packet", attributes=ATTRIBUTES, refuse=refuse, stage=None, own=True),
    )
}
