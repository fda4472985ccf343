"""Faults for tests, as a scenario's entry writes them."""

from __future__ import annotations

from typing import Any

from harness.faults.registry import FAULTS, fault_of

_WHEN: dict[str, dict[str, Any]] = {
    "at": {"at": "0ms"},
    "record": {"record": 3},
    "phase": {"phase": "emit"},
    "sink": {"sink": "commit"},
}


def made(do: str, **fields: Any) -> Any:
    """The fault `f` of this kind, at once or from the third record on; `for` is two seconds where it needs one."""
    kind = FAULTS[do]
    when = _WHEN[next(name for name in _WHEN if name in kind.triggers)]
    lasts = {"for": "2s"} if "for" in kind.needs() else {}
    return fault_of({"id": "f", "do": do, "when": when, **lasts, **fields})
