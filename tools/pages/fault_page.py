"""Generates `docs/reference/faults.md`: what each fault does, its fields, its evidence, and where it can be used.

Answers to Maelstrom's generated tables. `python -m tools.pages.fault_page` rewrites it; a test fails while it is out
of date. Invariant: it is made from the classes that the program uses, so a fault on the page exists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.faults.model.fault import Ability, By, Fault
from harness.faults.registry import FAULTS
from harness.system.levels import OPERATOR_LEVELS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md"

_OPENING = """\
# Faults

Made by `python -m tools.pages.fault_page`; do not edit.

A scenario names a fault by `do` ([scenario files](scenarios.md)). This page says of each kind what it does, which
fields it needs and may have, which triggers can begin it, which evidence shows that it took effect, what it can cause,
and where it can be done. Without that evidence a run is `vacuous`, never a pass. A fault that the world, the sink or
the level cannot do is refused before the run, and the message says what can. "The proxy" gives evidence where it keeps
a log: our own does, Toxiproxy does not.

"Can cause" names the events that a history may show because of the fault (V24): `late`, a limit of time, of the client
or of the record, that passes; `res`, that, or a call that fails by an error of the database or of its connection;
`failed` and `start`, an attempt that fails or is replaced. A fault of the sink's link, the server or the process that
lasts 10 s or longer can also cause `failed`, because the sink gives up after 20 s. A kill, a raised error and a
poisoned call name their fault.
"""

_GROUPS: Mapping[By, str] = {
    "link": "Of a link, by the proxy between the clients and the database",
    "server": "Of the database server",
    "process": "Of a worker's process",
    "inside": "Inside the attempt: its loop, its clock, its checkpoint store",
    "workload": "In what the source sends and the adapter answers",
    "job": "Of a user's job (`floodmark job`): its driver, workers and executors; those of Spark at level spark too",
}

_ABILITIES: Mapping[Ability, str] = {
    "packets": "our own proxy",
    "server-process": "",
    "offline-mode": "MySQL, not MariaDB",
    "small-disk": "local as root; containers",
    "server-clock": "local",
    "executor": "",
    "superseding": "",
    "two-phase": "sink two-phase",
    "store": "sink two-phase or idempotent",
    "binlog": "our own proxy",
    "replica": "",
    "cluster": "--cluster",
}
"""Where each ability is available; empty: in every world that has the level."""


def page_text() -> str:
    """The text of the page."""
    return "\n".join([_OPENING, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for group, title in _GROUPS.items():
        yield f"## {title}\n"
        yield "| fault | what it does | needs | may have | begins by | evidence | can cause | where |"
        yield "|---|---|---|---|---|---|---|---|"
        for name, kind in FAULTS.items():
            if kind.by == group:
                cells = (
                    kind.about,
                    _names(kind.needs()),
                    _fields(kind),
                    _names(kind.triggers),
                    kind.must_show,
                    _names(kind.can),
                )
                yield f"| `{name}` | {' | '.join(map(_cell, cells))} | {where_of(kind)} |"
        yield ""


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _fields(kind: type[Fault]) -> str:
    """The fields, with the values that they can have."""
    chosen = {name: kind.choices(name) for name in ("how", "code")}
    needed = [name for name in kind.needs() if chosen.get(name)]
    told = [f"`{name}`{_choices(chosen.get(name, ()))}" for name in kind.takes()]
    return "; ".join([", ".join(told), *(f"`{name}`{_choices(chosen[name])}" for name in needed)]).strip("; ")


def _choices(values: tuple[object, ...]) -> str:
    return f" ({', '.join(map(str, values))})" if values else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def where_of(kind: type[Fault]) -> str:
    """The worlds and levels in which faults of this kind can be used."""
    places = [place for place in (_ABILITIES[ability] for ability in kind.abilities) if place]
    if not kind.levels:
        return "; ".join([*places, "job scenarios"])
    if kind.by == "job":
        places.append("job scenarios")
    levels = "every level" if kind.levels == OPERATOR_LEVELS else f"level {' and '.join(kind.levels)}"
    return "; ".join([*places, levels])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
