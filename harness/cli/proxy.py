"""`floodmark proxy`: runs our own proxy, which has Toxiproxy's HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.options import option
from harness.system.errors import Exit

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
        help="Address of the control interface.")  # fmt: skip
@option("--port", type=click.IntRange(0, 65_535), default=8474, show_default=True,
        help="Port of the control interface; 0: any free port.")  # fmt: skip
@option("--seed", type=click.IntRange(min=0), default=None,
        help="Seed of every random decision; always printed.  [default: a new one]")  # fmt: skip
@option("--token", default=None, metavar="TOKEN",
        help="Answer only requests with this token (Authorization: Bearer TOKEN).")  # fmt: skip
@option("--log", type=_FILE, default=None, metavar="FILE",
        help="Also write every proxy event to FILE, one line of JSON each.")  # fmt: skip
@option("--config", type=_FILE, default=None, metavar="FILE",
        help="Proxies to create at the start, as JSON like for POST /populate.")  # fmt: skip
@option("--beyond-loopback", is_flag=True, help="Allow a --host that other machines can reach.")
def proxy(*, seed: int | None, **options: Any) -> Exit:
    """Serve until SIGTERM or Ctrl-C; toxiproxy-cli and any other Toxiproxy client can control it.

    Exit code: 0 after a signal to end, 4 for an address that is not on loopback or a bad --config, 11 if the port
    is taken.
    """
    from harness.proxy.service import Service, serve
    from harness.system.choices import fresh_seed

    service = Service(seed=fresh_seed() if seed is None else seed, **options)
    serve(service, say=lambda sentence: click.echo(f"floodmark proxy: {sentence}"))
    return Exit.HOLD
