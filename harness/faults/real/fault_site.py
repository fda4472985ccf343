"""What a real fault is given and must leave: the workers of a run, the links with their toxics, and evidence.

Answers to Jepsen's nemesis, Toxiproxy's toxics, and Spark's scheduler seen from outside. Evidence is what the
run recorded while the fault was on; no evidence means that nothing was shown (V23). A process is named by pid
and start time, so no signal reaches one that got the pid later; whatever was stopped goes on or is ended with
the run. A toxic put on for a block is taken off again, also where only some could be put on. What a scenario
leaves out means what the kind of fault says, never a default of the proxy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from harness.faults.real.evidence import Deed, DeedsRead, Evidence
from harness.faults.real.server_control import ServerControl
from harness.process_identity import ProcessIdentity

__all__ = [
    "Control",
    "Deed",
    "DeedsRead",
    "Evidence",
    "Messages",
    "Site",
    "Succession",
    "Toxic",
    "Workers",
    "packets_on",
    "toxics_on",
]


class Succession(Protocol):
    """A worker that was taken for dead while it lived, and who came in its place."""

    def successor_commits(self) -> int:
        """How many epochs of the subtask became visible since."""

    def old_one_is_over(self) -> bool:
        """Whether the process that was taken for dead has ended by itself."""


class Workers(Protocol):
    """The processes of a run; every method may be called from any thread."""

    def process(self, subtask: int) -> ProcessIdentity | None:
        """The process of its newest attempt; None while there is none."""

    def supersede(self, subtask: int) -> Succession:
        """Start a successor although the process lives; it is ended with the run, if it does not end itself."""

    def executor(self) -> ProcessIdentity | None:
        """The process that runs the workers; None where each stands by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic, as Toxiproxy takes it; `stream` is `upstream` (to the server) or `downstream`."""

    name: str
    type: str
    stream: str
    attributes: Mapping[str, int | str]


class Control(Protocol):
    """What a fault does to a link of the world's proxy; every call has a limit, from several threads."""

    def add_toxic(self, link: str, toxic: Toxic) -> None:
        """Put `toxic` on `link`; live connections are affected at once."""

    def remove_toxic(self, link: str, name: str) -> None:
        """Take it away; one that is gone already is no error. Never deadlocks (infrastructure 3.4)."""

    def disable(self, link: str) -> None:
        """Stop listening and cut every live connection."""

    def enable(self, link: str) -> None:
        """Listen again on the same port."""

    def cut(self, link: str, how: str) -> Sequence[int]:
        """End every live connection now, by `rst` or `fin`, and go on listening; their ids, where ids are known.

        A proxy that cannot reset does what it can by `fin`, and refuses `rst` (its world lacks `packets`).
        """

    def deeds(self, link: str, after: int = 0) -> DeedsRead | None:
        """What the proxy has done to connections of `link` since deed `after`; None: it keeps no log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a fault acts: what it may get hold of while it is on."""

    control: Control
    server: ServerControl
    workers: Workers
    found: Callable[..., None]
    """`found(**facts)`: record what the fault itself saw; it comes back in `Seen.found`."""
    seed: int
    """The run's."""
    over: threading.Event
    """Set when the fault shall heal."""


@contextmanager
def toxics_on(
    control: Control,
    link: str,
    *,
    name: str,
    type: str,  # noqa: A002 - Toxiproxy's own word
    streams: Sequence[str],
    attributes: Mapping[str, int | str],
) -> Iterator[None]:
    """One toxic for each of `streams`; live connections are affected at once."""
    toxics = [
        Toxic(name=f"{name}.{stream}", type=type, stream=stream, attributes=attributes) for stream in streams
    ]
    try:
        for toxic in toxics:
            control.add_toxic(link, toxic)
        yield
    finally:
        for toxic in reversed(toxics):
            control.remove_toxic(link, toxic.name)


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
