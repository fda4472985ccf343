"""`floodmark clean`: removes what killed runs left behind; running ones are not disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.world.ledger import Reaped
    from harness.world.settings import WorldSettings


@click.command()
@click.option("--cache", is_flag=True,
              help="Also remove the cache: unpacked servers, the proxy, data folders, the oracle, Kafka.")  # fmt: skip
def clean(*, cache: bool) -> None:
    """Remove the processes, containers, networks, disks, folders and port locks of runs that were killed."""
    from harness.world.settings import WorldSettings

    settings = WorldSettings.from_environment()
    found = _reaped(settings)
    for run in found:
        for removed in run.removed:
            click.echo(f"removed {removed} of run {run.run_id}")
        for left in run.left:
            click.echo(f"could not remove, of run {run.run_id}: {left}", err=True)
    if cache:
        import shutil

        from harness.conform.oracle.program import oracle_folder
        from harness.world.kafka.broker import kafka_folder

        places = settings.places
        programs = (oracle_folder(places), kafka_folder(places).parent)
        for folder in (places.servers, places.bin, places.datadirs, places.clock, *programs):
            if folder.exists():  # ledgers and the folders of running runs stay
                shutil.rmtree(folder)
                click.echo(f"removed {folder}")
    if not any(run.removed or run.left for run in found):
        click.echo("no killed run left anything behind")


def _reaped(settings: WorldSettings) -> list[Reaped]:
    """Removes by ledger first, then by container labels, for runs whose ledger is gone."""
    from harness.system.errors import WorldError
    from harness.world.containers import find_engine, sweep_run
    from harness.world.ledger import reap

    found = reap(settings.places, sweep_run)
    try:
        engine = find_engine(settings)
    except WorldError:  # no engine, no containers
        return found
    from harness.world.containers.engine import sweep_dead_owners

    return [*found, *sweep_dead_owners(engine)]
