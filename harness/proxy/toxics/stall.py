"""`stall`: new clients are accepted and hear nothing. `harness.proxy.connection` does it, before it dials.

Own: answers to a server whose kernel accepts while its process does not run. Invariant: nothing is dialled while it
acts; removal dials, and the connection goes on as if the server had been slow.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind

__all__ = ["STALL"]

STALL = ToxicKind(name="stall", attributes={}, stage=None, own=True)
