"""Which proxy stands between a run and its database: Toxiproxy, or our own where that is better or all there is.

Invariant: nothing falls back in silence: whichever is taken, the reason is part of what a world says first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.world.proxy_program import PROXY_PROGRAM, find_proxy_program, installed_proxy_program
from harness.world.settings import WorldSettings

__all__ = ["PACKETS", "PROXIES", "ProxyChoice", "choose_local_proxy", "proxy_lacks", "wanted_proxy"]

PROXIES = ("auto", "own", "toxiproxy")
PACKETS = "packets"
"""The ability of a proxy to understand MySQL packets and to act on live connections; ours alone has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyChoice:
    """The proxy that was chosen, and why."""

    why: str
    program: Path | None = None
    """Toxiproxy's server; None: our own proxy, or an image of Toxiproxy."""


def wanted_proxy(asked: str, *, needs: frozenset[str]) -> tuple[str, str]:
    """`own`, `toxiproxy`, or still `auto` (take Toxiproxy where it is), and why; refuses what contradicts itself."""
    if asked not in PROXIES:
        raise UsageError(f"there is no proxy {asked!r}", fix=f"choose one of {', '.join(PROXIES)}")
    if asked == "toxiproxy" and PACKETS in needs:
        raise UsageError(
            "a fault of what is to run needs a proxy that understands MySQL packets, and Toxiproxy does not",
            fix="run with --proxy own, or leave --proxy out",
        )
    if asked == "auto" and PACKETS in needs:
        return "own", "our own proxy (auto: a fault needs MySQL packets)"
    return asked, {
        "own": "our own proxy (asked for)",
        "toxiproxy": "Toxiproxy (asked for)",
        "auto": "Toxiproxy (auto: it is here)",
    }[asked]


def choose_local_proxy(asked: str, *, needs: frozenset[str], settings: WorldSettings) -> ProxyChoice:
    """The proxy of a local world; an error only where Toxiproxy was asked for by name and is not here."""
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
    """For each ability that the proxy lacks, what has it."""
    return {} if own else {PACKETS: "a proxy that understands MySQL packets: run with --proxy own"}
