"""`floodmark setup`: gets the missing parts of a world into the cache, by ordinary package clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import click

from harness.cli.options import option

if TYPE_CHECKING:
    from harness.world.setup.provision import Provision, ProvisionStep


@click.command()
@option("--world", type=click.Choice(["auto", "local", "containers"]), default="auto", show_default=True,
        help="Which world to prepare; auto: the local one, which needs no container engine.")  # fmt: skip
@click.option("--offline-images", is_flag=True,
              help="Build the images of the containers world on this machine, without a registry (Debian, "
                   "root).")  # fmt: skip
@click.option("--oracle", is_flag=True,
              help="Get the real Flink instead: its jar (331 MB), and compile the program around its operator "
                   "(javac).")  # fmt: skip
@click.option("--flink", "flinks", multiple=True, type=click.Choice(["1.20", "2.0", "2.3"]),
              help="With --oracle: which Flink; may be given several times.  [default: 2.3]")  # fmt: skip
@click.option("--kafka", is_flag=True,
              help="Get a Kafka broker instead, and Spark's source of it: 59 jars (47 MB), for jobs that read a "
                   "topic.")  # fmt: skip
@click.option("--proxy", type=click.Choice(["auto", "own"]), default="auto", show_default=True,
              help="Of the local world; auto: Toxiproxy too, built if Go is here; own: only ours, which needs "
                   "nothing.")  # fmt: skip
@click.option("--rebuild", is_flag=True, help="Make again what is there already.")
def setup(
    *,
    world: str,
    offline_images: bool,
    oracle: bool,
    flinks: tuple[str, ...],
    kafka: bool,
    proxy: str,
    rebuild: bool,
) -> None:
    """Get what a world lacks: a database server, a proxy, images; or the oracle; or Kafka.

    Installed programs are used; the others go into the cache (~/.cache/floodmark, or $FLOODMARK_CACHE).
    Nothing is installed into the system, and root is needed only for --offline-images.
    """
    from harness.world.settings import WorldSettings
    from harness.world.setup.provision import provide_kafka, provisioning

    if flinks and not oracle:
        raise click.UsageError("--flink says which Flink --oracle gets; add --oracle")
    with provisioning(
        WorldSettings.from_environment(),
        rebuild=rebuild,
        say=lambda sentence: click.echo(f"  {sentence} ...", err=True),
    ) as task:
        if oracle or kafka:
            steps: Iterator[ProvisionStep] = chain(
                _oracle(task, flinks) if oracle else (), provide_kafka(task) if kafka else ()
            )
        else:
            steps = _steps(task, world=world, offline_images=offline_images, toxiproxy=proxy == "auto")
        for step in steps:
            click.echo(str(step))


def _oracle(task: Provision, flinks: tuple[str, ...]) -> Iterator[ProvisionStep]:
    from harness.conform.oracle.program import FLINK_VERSION, FLINKS, provide_oracle

    for version in [FLINKS[line] for line in flinks] or [FLINK_VERSION]:
        yield from provide_oracle(task, version=version)


def _steps(task: Provision, *, world: str, offline_images: bool, toxiproxy: bool) -> Iterator[ProvisionStep]:
    from harness.world.containers import find_engine
    from harness.world.setup.provision import provide_local_world

    if world != "containers":
        yield from provide_local_world(task, toxiproxy=toxiproxy)
        if not offline_images:
            return
    find_engine(task.settings)  # before anything of Docker is imported, for this error says it best
    from harness.world.offline_images.build import provide_images, provide_offline_images

    yield from provide_offline_images(task) if offline_images else provide_images(task)
