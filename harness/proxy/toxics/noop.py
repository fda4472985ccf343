"""`noop`: nothing. Answers to Toxiproxy's toxic of the same name; it is what a fault's no-op test injects."""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind

__all__ = ["NOOP"]

NOOP = ToxicKind(name="noop", attributes={}, stage=None)
