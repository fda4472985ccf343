"""The workshop: what all links of one proxy process share."""

from __future__ import annotations

import asyncio
import resource
from typing import IO

from harness.proxy.holdings import Holdings
from harness.proxy.pump import Pump
from harness.proxy.seeding import Dice

__all__ = ["Workshop", "raise_descriptor_limit"]


def raise_descriptor_limit() -> int:
    """As many descriptors as this process may have: two a connection. Answers with their number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Workshop:
    """Made once by whoever runs the proxy, and closed by it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, seed: int, deeds_file: IO[str] | None = None
    ) -> None:
        self.loop = loop
        self.pump = Pump(loop)
        self.dice = Dice(seed)
        self.holdings = Holdings()
        self.deeds_file = deeds_file
        """Where every deed of every link is written too, as a line of JSON."""

    def reseed(self, seed: int) -> None:
        """Connections that come from now on draw from this seed."""
        self.dice = Dice(seed)

    def close(self) -> None:
        """After the links are stopped."""
        self.pump.close()
