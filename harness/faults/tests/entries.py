"""Faults for tests, as a scenario's entry writes them."""

from __future__ import annotations

from typing import Any

from harness.faults.model.registry import FAULTS, fault_of

__all__ = ["made"]


def made(do: str, **fields: Any) -> Any:
    """The fault `f` of this kind, at once or from the third record on; `for` is two seconds where it needs one."""
    kind = FAULTS[do]
    when = {"at": "0ms"} if "at" in kind.triggers else {"record": 3}
    lasts = {"for": "2s"} if "for" in kind.needs() else {}
    return fault_of({"id": "f", "do": do, "when": when, **lasts, **fields})
