"""`floodmark proxy`: our own proxy with Toxiproxy's HTTP API, as a server of its own."""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import Exit

__all__ = ["proxy"]

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--host", envvar="FLOODMARK_HOST", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where the control interface listens.")  # fmt: skip
@click.option("--port", envvar="FLOODMARK_PORT", type=click.IntRange(0, 65_535), default=8474, show_default=True,
              help="Its port; 0: any that is free.")  # fmt: skip
@click.option("--seed", envvar="FLOODMARK_SEED", type=click.IntRange(min=0), default=None,
              help="Of every decision that is drawn; printed in any case.  [default: a new one]")  # fmt: skip
@click.option("--token", envvar="FLOODMARK_TOKEN", default=None, metavar="TOKEN",
              help="Answer only who sends it (Authorization: Bearer TOKEN).")  # fmt: skip
@click.option("--log", envvar="FLOODMARK_LOG", type=_FILE, default=None, metavar="FILE",
              help="Write every deed there too, a line of JSON each.")  # fmt: skip
@click.option("--config", envvar="FLOODMARK_CONFIG", type=_FILE, default=None, metavar="FILE",
              help="Proxies to make at the start: JSON, as for POST /populate.")  # fmt: skip
@click.option("--beyond-loopback", envvar="FLOODMARK_BEYOND_LOOPBACK", is_flag=True,
              help="Allow a --host that other machines reach.")  # fmt: skip
def proxy(
    *,
    host: str,
    port: int,
    seed: int | None,
    token: str | None,
    log: Path | None,
    config: Path | None,
    beyond_loopback: bool,
) -> Exit:
    """Serve until SIGTERM or Ctrl-C; toxiproxy-cli and every other client of Toxiproxy can steer it.

    Exit code: 0 when it was told to end, 4 for an address that is not on loopback or a bad --config, 11 if the port
    is taken.
    """
    from harness.choices import fresh_seed
    from harness.proxy.service import Service, serve

    service = Service(
        host=host,
        port=port,
        seed=fresh_seed() if seed is None else seed,
        token=token,
        log=log,
        config=config,
        beyond_loopback=beyond_loopback,
    )
    serve(service, say=lambda sentence: click.echo(f"floodmark proxy: {sentence}"))
    return Exit.HOLD
