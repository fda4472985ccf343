"""A packet toxic on a link while a block lasts, and which messages a scenario's entry means.

Invariant: what a scenario leaves out is what the kind of fault means, never what the proxy happens to assume.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.real.fault_site import Control
from harness.faults.real.toxics import toxics_on

__all__ = ["Messages", "packets_on"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Which messages of a link are meant: by what they ask for or answer, and by their number since arming."""

    command: str
    statement: str = ""
    nth: int = 1
    times: int = 1
    """0: every one from the `nth` on."""


def packets_on(
    control: Control,
    link: str,
    messages: Messages,
    *,
    name: str,
    stream: str,
    do: str,
    **attributes: int | str,
) -> AbstractContextManager[None]:
    """The toxic that does this to those messages."""
    whole = {
        "on": messages.command,
        "statement": messages.statement,
        "nth": messages.nth,
        "times": messages.times,
        "do": do,
        **attributes,
    }
    return toxics_on(control, link, name=name, type="packet", streams=(stream,), attributes=whole)
