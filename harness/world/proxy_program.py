"""The proxy of a world, Toxiproxy or our own: how it is chosen, found, built and started.

The reason for the choice is part of the world's announcement. Our own proxy needs only this Python. Toxiproxy is the
one on the PATH, else a static program of a pinned version that `setup` built from its Go module; that appears in the
cache complete or not at all.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.system.child import PYTHON, Child, run_to_end
from harness.system.errors import UsageError, WorldError
from harness.world.ledger import LOOPBACK, Ledger, reserve_port
from harness.world.settings import WorldSettings
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import Address

PROXIES = ("auto", "own", "toxiproxy")
PACKETS = "packets"
"""The ability to act on MySQL packets and on live connections; only our own proxy has it."""


LOG: Final = "log"
"""The ability to say what was done to which connection; without it, faults of a foreign client show by its calls only.

Only our own proxy has it. It decides what `auto` means, and forbids no other proxy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyChoice:
    """The chosen proxy and the reason."""

    why: str
    program: Path | None = None
    """Toxiproxy's server; None: our own proxy."""


def wanted_proxy(asked: str, *, needs: frozenset[str]) -> tuple[str, str]:
    """`own`, `toxiproxy`, or still `auto` (Toxiproxy if it is installed), and the reason.

    Raises UsageError if Toxiproxy is demanded and a fault needs MySQL packets.
    """
    if asked not in PROXIES:
        raise UsageError(f"there is no proxy {asked!r}", fix=f"choose one of {', '.join(PROXIES)}")
    if asked == "toxiproxy" and PACKETS in needs:
        raise UsageError(
            "a fault of this run needs a proxy that understands MySQL packets, and Toxiproxy does not",
            fix="run with --proxy own, or leave --proxy out",
        )
    if asked == "auto" and PACKETS in needs:
        return "own", "our own proxy (auto: a fault needs MySQL packets)"
    if asked == "auto" and LOG in needs:
        return "own", "our own proxy (auto: the lookup has a client of its own, and Toxiproxy keeps no log)"
    return asked, {
        "own": "our own proxy (asked for)",
        "toxiproxy": "Toxiproxy (asked for)",
        "auto": "Toxiproxy (auto: it is here)",
    }[asked]


def choose_local_proxy(asked: str, *, needs: frozenset[str], settings: WorldSettings) -> ProxyChoice:
    """The proxy of a local world. Raises WorldError only if Toxiproxy is demanded and missing."""
    wanted, why = wanted_proxy(asked, needs=needs)
    match wanted:
        case "own":
            return ProxyChoice(why=why)
        case "toxiproxy":
            return ProxyChoice(why=why, program=find_proxy_program(settings))
    installed = installed_proxy_program(settings)
    if installed is None:
        return ProxyChoice(why=f"our own proxy (auto: no {PROXY_PROGRAM} is on the PATH)")
    return ProxyChoice(why=why, program=installed)


def proxy_lacks(*, own: bool) -> dict[str, str]:
    """For each ability that the proxy lacks: what would have it."""
    return {} if own else {PACKETS: "a proxy that understands MySQL packets: run with --proxy own"}


OWN_PROXY = "own proxy"
"""Its name in descriptions and logs."""


def start_own_proxy(*, ledger: Ledger, say: Callable[[str], None]) -> tuple[Child, Toxiproxy]:
    """Start our own proxy; returns before it is ready."""
    control = Address(host=LOOPBACK, port=reserve_port(ledger))
    command = [*PYTHON, "harness.proxy", "--host", control.host, "--port", str(control.port)]
    process = ledger.start(command, name=OWN_PROXY, log=ledger.folder / "own-proxy.log")
    return process, Toxiproxy(control, say=say, own=True)


PROXY_PROGRAM = "toxiproxy-server"
TOXIPROXY_VERSION = "2.12.0"
MODULE = "github.com/Shopify/toxiproxy/v2"
BUILD_LIMIT_S = 600.0
GO_FOLDER = "/usr/local/go/bin"
"""Where Go's installer puts it; often not on the PATH."""


def find_proxy_program(settings: WorldSettings) -> Path:
    """Toxiproxy's server, installed or built. Raises WorldError if there is none."""
    installed = installed_proxy_program(settings)
    if installed is not None:
        return installed
    built = built_proxy_program(settings)
    if built.exists():
        return built
    raise WorldError(
        f"no Toxiproxy: {PROXY_PROGRAM} is neither on the PATH nor in {settings.places.bin}",
        fix="leave --proxy out (our own needs nothing), or `floodmark setup` where Go is",
    )


def installed_proxy_program(settings: WorldSettings) -> Path | None:
    """Toxiproxy's server on the PATH."""
    found = shutil.which(PROXY_PROGRAM, path=settings.path)
    return Path(found) if found else None


def built_proxy_program(settings: WorldSettings) -> Path:
    """Where `setup` puts the Toxiproxy server that it builds."""
    return settings.places.bin / PROXY_PROGRAM


def build_proxy_program(settings: WorldSettings, *, scratch: Path, say: Callable[[str], None]) -> Path:
    """Build Toxiproxy with Go in `scratch`, which must be on the cache's disk; Go downloads the module."""
    go = shutil.which("go", path=f"{settings.path}:{GO_FOLDER}")
    if go is None:
        raise WorldError(
            f"Toxiproxy cannot be built: there is no go on the PATH or in {GO_FOLDER}",
            fix=f"install Go (`apt-get install golang-go`), or put {PROXY_PROGRAM} on the PATH",
        )
    say(f"building Toxiproxy {TOXIPROXY_VERSION} with {go}")
    target = built_proxy_program(settings)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        run_to_end(
            # Without the flag its version would be "git".
            [
                go,
                "install",
                "-ldflags",
                f"-s -w -X {MODULE}.Version={TOXIPROXY_VERSION}",
                f"{MODULE}/cmd/server@v{TOXIPROXY_VERSION}",
            ],
            what=f"building Toxiproxy {TOXIPROXY_VERSION}",
            limit_s=BUILD_LIMIT_S,
            fix=f"see that the Go module proxy can be reached, or put {PROXY_PROGRAM} on the PATH",
            environment={"CGO_ENABLED": "0", "GOBIN": folder, "GOFLAGS": "-modcacherw"},
        )
        (Path(folder) / "server").rename(target)
    return target
