"""The survival table: which lookups and commits are wrong, lost, duplicated or leaked under each network fault.

`python -m tools.bench.survival --seeds 30`. Answers to the tables of Jepsen's analyses. Invariant: a row sums cells
that were all run; a fault that had no effect in a cell does not count as survived there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from harness.database.endpoint import Endpoint, connect
from harness.faults.registry import FAULTS, FaultName, kinds_by
from harness.world.setup.opening import open_world
from harness.world.world import World
from tools.bench.survival_cell import SINKS, Counted, survive

__all__ = ["Survived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """The results of one fault over all seeds."""

    kind: str
    cells: Sequence[Counted]

    @property
    def holds(self) -> bool:
        """Whether nothing was wrong, lost, duplicated or leaked, and the fault had an effect at least once."""
        return not any(one.wrong or one.lost or one.doubled or one.leaked for one in self.cells) and any(
            one.bit for one in self.cells
        )

    def line(self) -> str:
        """The row of the table."""
        sums = (
            sum(cell.bit for cell in self.cells),
            sum(cell.errors for cell in self.cells),
            sum(cell.wrong for cell in self.cells),
            sum(cell.lost for cell in self.cells),
            sum(cell.doubled for cell in self.cells),
            sum(cell.leaked for cell in self.cells),
        )
        took_s = sum(cell.took_s for cell in self.cells)
        numbers = " | ".join(f"{number:6}" for number in sums)
        return f"| {self.kind:18} | {len(self.cells):5} | {numbers} | {took_s:6.1f} |"


_HEAD = (
    "| fault              | cells |   bit  | errors | wrong  |  lost  | double | leaked |      s |\n"
    "|--------------------|-------|--------|--------|--------|--------|--------|--------|--------|"
)


def survived(
    world: World, *, kinds: Sequence[FaultName], seeds: range, folder: Path, tell: Callable[[str], None]
) -> Iterator[Survived]:
    """Run each kind of fault with each seed; the sinks take turns."""
    for kind in kinds:
        cells = []
        for seed in seeds:
            sink = SINKS[seed % len(SINKS)]
            name = f"floodmark_{kind}_{seed}"
            cell = survive(world, kind, seed=seed, sink=sink, name=name, folder=folder)
            if cell.wrong or cell.lost or cell.doubled or cell.leaked:
                tell(f"{kind}, seed {seed}, sink {sink}: {cell}")
            cells.append(cell)
        yield Survived(kind=kind, cells=cells)


def _threads(world: World) -> int:
    """The server's count of its connections, without the one that asks."""
    address, root = world.direct, world.root
    endpoint = Endpoint(
        host=address.host, port=address.port, user=root.user, password=root.password, database=""
    )
    with connect(endpoint) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
        return int(cursor.fetchone()[1]) - 1


@click.command()
@click.option("--seeds", default=30, show_default=True, type=click.IntRange(1), help="Of each fault.")
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option("--world", "kind", default="local", show_default=True, help="local or containers.")
@click.argument("faults", nargs=-1, type=click.Choice(list(kinds_by("link"))))
def main(*, seeds: int, first: int, kind: str, faults: tuple[str, ...]) -> None:
    """Measure FAULTS (default: every one of a link), and print what the server counts."""
    kinds = faults or kinds_by("link")
    needs = frozenset(ability for name in kinds for ability in FAULTS[name].abilities)
    holds = True
    with (
        open_world(kind, announce=lambda text: click.echo(text, err=True), proxy="own", needs=needs) as world,
        tempfile.TemporaryDirectory() as folder,
    ):
        before = _threads(world)
        click.echo(f"{seeds} seeds from {first}; {world.description.server}; counted by SQL past the proxy")
        click.echo(_HEAD)
        for row in survived(
            world,
            kinds=kinds,
            seeds=range(first, first + seeds),
            folder=Path(folder),
            tell=lambda text: click.echo(text, err=True),
        ):
            holds &= row.holds
            click.echo(row.line())
        click.echo(f"Threads_connected: {before} before, {_threads(world)} after")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
