"""Toxiproxy's server program: the one on the PATH, else the one that `setup` built from its Go module.

Invariant: what is built is one static program of a pinned version that knows its own version, so it serves
as a process and in an image alike; it appears in the cache whole or not at all.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.errors import WorldError
from harness.world.processes import run_to_end
from harness.world.settings import WorldSettings

__all__ = [
    "PROXY_PROGRAM",
    "TOXIPROXY_VERSION",
    "build_proxy_program",
    "built_proxy_program",
    "find_proxy_program",
    "installed_proxy_program",
]

PROXY_PROGRAM = "toxiproxy-server"
TOXIPROXY_VERSION = "2.12.0"
MODULE = "github.com/Shopify/toxiproxy/v2"
BUILD_LIMIT_S = 600.0
GO_FOLDER = "/usr/local/go/bin"
"""Where Go's own installer puts it; often not on the PATH."""


def find_proxy_program(settings: WorldSettings) -> Path:
    """The program, or an error with the fix."""
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
    """Where somebody put the program for all to use: on the PATH."""
    found = shutil.which(PROXY_PROGRAM, path=settings.path)
    return Path(found) if found else None


def built_proxy_program(settings: WorldSettings) -> Path:
    """Where the program is that we build ourselves, once it is built."""
    return settings.places.bin / PROXY_PROGRAM


def build_proxy_program(settings: WorldSettings, *, scratch: Path, say: Callable[[str], None]) -> Path:
    """Build it with Go, in `scratch` on the cache's disk; the module comes from the machine's Go proxy."""
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
            # Without the flag it would call its version "git".
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
