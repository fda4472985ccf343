"""`failover`: the replica is promoted and the links lead to it; what it had not got by then is gone.

Answers to an unplanned failover of asynchronous replication. For `lag` before the switch the replica gets nothing, so
whatever the primary acknowledges then is lost. The old primary lives on, alone, and takes writes of clients that went
to it past the links. Nothing is healed within the run: a promoted server stays what it is.

Evidence: another server answers behind the links, clients lost their connections, and with a `lag` SQL finds on the old
primary what the promoted one does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lag, UntilEffective
from harness.faults.real.evidence import GONE, Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import find_lost
from harness.system.clock import monotonic_us

_GRACE_US = 5_000_000
"""The client of an idle connection notices the loss at its next use."""


class Failover(ServerFault):
    """Promotes the replica after it has received nothing for a while."""

    about = (
        "The replica gets nothing for `lag`, is promoted, and all links lead to it; what the primary has acknowledged "
        "meanwhile is gone."
    )
    must_show = (
        "Another server answered behind the links, clients lost their connections, and with a `lag` the old primary "
        "has commits that the promoted server lacks."
    )
    levels = ("live", "spark")
    abilities = ("replica",)
    loses_commits = True
    can = ("failed", "res")

    do: Literal["failover"]
    lag: Lag = 0
    lasts: UntilEffective = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        pair, database = site.server.pair, site.server.database
        site.note_fact(began_us=monotonic_us(), answered=pair.answering(), **pair.standing())
        if self.lag:
            pair.stop_receiving()
            site.over.wait(self.lag / 1000)
        at_switch = pair.standing()
        pair.promote()
        pair.move_links(cut=True)
        ended = pair.fence_off(database)
        site.note_fact(
            **at_switch,
            promoted=True,
            ended=ended,
            answers=pair.answering(),
            **find_lost(pair, database, table=site.sink_table),
        )
        yield

    def evidence(self, seen: Seen) -> Evidence:
        before, after, lost = seen.last_fact("answered"), seen.last_fact("answers"), seen.last_fact("lost")
        gone = seen.client_errors(*GONE, grace_us=_GRACE_US)
        if not seen.last_fact("promoted") or None in {before, after} or before == after or not gone:
            return {}
        if self.lag and not lost:
            return {}
        places = {name: seen.last_fact(name) for name in ("primary", "executed")}
        return {"server_before": before, "server_after": after, "lost": lost, **places, "codes": gone}
