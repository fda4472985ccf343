"""`latency`, `jitter`, `one_way`: delay what crosses a link, by a fixed or by a random time.

Answers to Toxiproxy's `latency`. Evidence: the proxy delayed chunks and calls took longer; without a log, the median
call took longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import Directed, LinkFault
from harness.faults.model.fields import Delay, Direction, Jitter, Lasts
from harness.faults.parts.parts import Breach
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.real.witnesses import slower_calls
from harness.faults.simulated.link_acts import latency

if TYPE_CHECKING:
    from harness.database.simulated.link import LinkAct


class _DelayFault(LinkFault, Directed):
    """Common part: delays each chunk that flows in one direction."""

    lasts: Lasts

    def _toxic(self, *, latency_ms: int, jitter_ms: int) -> Toxic:
        """Healing releases the chunks held."""
        return Toxic("latency", (self.stream,), {"latency": latency_ms, "jitter": jitter_ms})

    def _shift(self, seen: Seen, *, delay_ms: int, jitter_ms: int) -> Evidence:
        """Slower calls and delayed chunks; without a log, a risen median and answers that took the delay."""
        slower = slower_calls(seen.over(self.link), by_ms=delay_ms / 2, none_below_ms=delay_ms - jitter_ms)
        held = seen.delayed_chunks(self.stream)
        return {**slower, **held} if slower and held is not None else {}


class Latency(_DelayFault):
    """The same delay for every chunk, plus or minus a random jitter."""

    about = "Everything that crosses the link arrives later, by `delay` plus or minus `jitter`."
    must_show = "The proxy delayed bytes and calls took at least half the delay; without a log, the median rose by it."
    can = ("late",)

    do: Literal["latency"]
    delay: Delay
    jitter: Jitter = 0

    def breaches(self) -> Iterator[Breach]:
        yield from super().breaches()
        if self.jitter > self.delay:
            say = "`jitter` is more than `delay`, so some chunks would have to arrive before they were sent"
            yield Breach(path=("jitter",), say=say, hint="make it at most the delay")

    def toxic(self) -> Toxic:
        return self._toxic(latency_ms=self.delay, jitter_ms=self.jitter)

    def evidence(self, seen: Seen) -> Evidence:
        return self._shift(seen, delay_ms=self.delay, jitter_ms=self.jitter)

    def on_links(self) -> LinkAct:
        return latency(delay_ms=self.delay, jitter_ms=self.jitter, upward=self.is_upward)


class JitterFault(_DelayFault):
    """A random delay for every chunk, from 0 to `jitter`."""

    about = "Each chunk that crosses the link is delayed by a random time from 0 to `jitter`."
    must_show = (
        "Calls took at least a quarter of it, and the proxy's delays differ; without a log, the median rose "
        "by that quarter."
    )
    can = ("late",)

    do: Literal["jitter"]
    jitter: Jitter

    def toxic(self) -> Toxic:
        half_ms = self.jitter // 2
        return self._toxic(latency_ms=half_ms, jitter_ms=half_ms)

    def evidence(self, seen: Seen) -> Evidence:
        """Calls that took half of the average delay, and delays in the proxy's log that are not all equal."""
        slower = slower_calls(seen.over(self.link), by_ms=self.jitter / 4)
        held = seen.delayed_chunks(self.stream)
        if not slower or held is None:
            return {}
        if seen.log is None:
            return slower
        delays_ms = [event.ms for event in seen.did("delayed", stream=self.stream)]
        if min(delays_ms) == max(delays_ms):
            return {}
        return {**slower, **held, "shortest_delay_ms": min(delays_ms)}

    def on_links(self) -> LinkAct:
        return latency(delay_ms=0, jitter_ms=self.jitter, upward=self.is_upward)


class OneWay(_DelayFault):
    """A delay in one direction; the other direction must stay fast."""

    about = "One direction of the link is delayed by `delay`; the other is not."
    must_show = "As for `latency`, and the proxy delayed nothing in the other direction."
    can = ("late",)

    do: Literal["one_way"]
    delay: Delay
    direction: Direction

    def toxic(self) -> Toxic:
        return self._toxic(latency_ms=self.delay, jitter_ms=0)

    def evidence(self, seen: Seen) -> Evidence:
        """As for `latency`; beside it, no delay in the other direction."""
        held = self._shift(seen, delay_ms=self.delay, jitter_ms=0)
        if not held or seen.log is None:
            return held
        other = seen.did("delayed", stream="downstream" if self.is_upward else "upstream")
        return {} if other else {**held, "bytes_delayed_the_other_way": 0}

    def on_links(self) -> LinkAct:
        return latency(delay_ms=self.delay, jitter_ms=0, upward=self.is_upward)
