"""`bandwidth`: limit one direction of each connection to `rate` kilobytes a second (Toxiproxy's `bandwidth`).

Evidence with a proxy log: the throughput while bytes were queued was within 10 % of the rate, and at least five calls
took at least half of the median time that the proxy held bytes. Without a log: the median call took at least half as
long again as outside the fault. Needs answers that are large for the rate (`workload.row_bytes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import Directed, LinkFault
from harness.faults.model.fields import Lasts, Rate
from harness.faults.real.evidence import Evidence, ProxyEvidence, Seen, median_ms
from harness.faults.real.fault_site import Toxic
from harness.faults.real.witnesses import slower_calls
from harness.faults.simulated.link_acts import Holding, moved_bytes

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_SHIFT_MIN_MS = 5.0
"""Smaller shifts can come from machine load alone."""
_OFF_MAX = 0.1
_LATE_US = 2_000
"""How late a timer of the proxy may fire. The proxy catches up while bytes are queued, but not when the queue ends."""


class Bandwidth(LinkFault, Directed):
    """Limits the transfer rate."""

    about = "At most `rate` flows in one direction of each connection."
    must_show = (
        "The proxy's log shows the rate within 10 %, and calls took at least half of the time that the proxy "
        "held bytes; without a log, the median call took half as long again."
    )
    can = ("late",)

    do: Literal["bandwidth"]
    lasts: Lasts
    rate: Rate

    def toxic(self) -> Toxic:
        """Affects live connections at once; healing releases the bytes held."""
        return Toxic("bandwidth", (self.stream,), {"rate": self.rate})

    def evidence(self, seen: Seen) -> Evidence:
        of_link = seen.over(self.link)
        if seen.log is None:
            usual = median_ms([*of_link.before(), *of_link.after()]) or 0.0
            return slower_calls(of_link, by_ms=max(_SHIFT_MIN_MS, usual / 2))
        held = seen.did("held", stream=self.stream)
        if not held:
            return {}
        held_ms = median(event.ms for event in held)
        slower = slower_calls(of_link, by_ms=max(_SHIFT_MIN_MS, held_ms / 2))
        rate = self._paced_kbps(seen.did("paced", stream=self.stream))
        if not slower or rate is None:
            return {}
        return {
            **slower,
            "bytes_held": sum(event.bytes for event in held),
            "held_ms_median": held_ms,
            "kilobytes_a_second": round(rate, 2),
        }

    def _paced_kbps(self, paced: Sequence[ProxyEvidence]) -> float | None:
        """The rate at which bytes passed while some were queued; None if it is not near `rate`."""
        count = sum(event.bytes for event in paced)
        took_us = sum(int(event.more.get("us", 0)) for event in paced)
        late_us = _LATE_US * sum(int(event.more.get("empty", 0)) for event in paced)
        asked_us = 1_000 * count / self.rate if self.rate else 0.0
        if not took_us or not (1 - _OFF_MAX) * asked_us <= took_us <= (1 + _OFF_MAX) * asked_us + late_us:
            return None
        return 1_000 * count / took_us

    def on_links(self) -> LinkAct:
        """1 kB is 1000 bytes, so `n` bytes take `n / rate` ms."""

        def hold_ms(_link: SimulatedLink, flight: Flight) -> int:
            return -(-moved_bytes(flight, up=self.is_upward) // self.rate)

        return Holding(hold_ms, upward=self.is_upward)
