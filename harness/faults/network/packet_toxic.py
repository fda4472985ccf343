"""A packet toxic on a link while a block lasts, and which messages a scenario's entry means.

Invariant: what a scenario leaves out is what the kind of fault means, never what the proxy happens to assume.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Control
from harness.faults.network.toxics import toxics_on
from harness.scenario import Fault

__all__ = ["Messages", "messages_of", "packets_on"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Which messages of a link are meant: by what they ask for or answer, and by their number since arming."""

    command: str
    statement: str = ""
    nth: int = 1
    times: int = 1
    """0: every one from the `nth` on."""


def messages_of(fault: Fault, *, command: str) -> Messages:
    """Those that the scenario's entry picks; of `command`, if it names none."""
    return Messages(
        command=fault.command or command,
        statement=fault.statement or "",
        nth=fault.nth or 1,
        times=fault.times or 1,
    )


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
