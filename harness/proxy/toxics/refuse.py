"""`refuse`: new connects are refused; live connections go on. The link does it: see `harness.proxy.link`.

Own: Toxiproxy can only disable the proxy, which ends live connections too. Invariant: removal listens again, on the
same port. It has no dice: a connect is refused by the kernel before there is a connection to draw for.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind

__all__ = ["REFUSE"]

REFUSE = ToxicKind(name="refuse", attributes={}, stage=None, own=True)
