"""`split`: the replica is promoted while the old primary still takes writes, and some connections stay there.

Answers to split brain: both believe that they are the primary. Connections that live when it begins stay where they
are, and every new one reaches the promoted server. As soon as the old primary has commits that the other one lacks, a
`share` of the sink's connections, drawn by the seed, is reset and comes again. At the end the old primary is fenced off
(read-only, its sessions ended): what only it has is gone.

Evidence: each server had commits of the run that the other one did not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, cast

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Share, UntilEffective
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import MessageControl, Site
from harness.faults.real.server_control import EPOCHS, find_lost, repeating
from harness.system.choices import Choices
from harness.system.clock import monotonic_us

_LOOK_S = 0.1


class Split(ServerFault):
    """Two primaries for a while."""

    about = (
        "The replica is promoted while the old primary still takes writes: live connections stay with the old one, new "
        "ones reach the promoted server, and a `share` of the sink's is reset once the old one has written. At the end "
        "the old one is fenced off."
    )
    must_show = "Each of the two servers had commits of the run that the other one lacked."
    levels = ("live", "spark")
    abilities = ("packets", "replica")
    loses_commits = True
    can = ("failed", "res")

    do: Literal["split"]
    lasts: UntilEffective = None
    share: Share = 50

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        pair, database, table = site.server.pair, site.server.database, site.sink_table or EPOCHS
        pair.stop_receiving()
        began_us, at_split = monotonic_us(), pair.standing()
        pair.promote()
        pair.move_links(cut=False)
        site.note_fact(began_us=began_us, **at_split)
        looks = _Looks(site=site, table=table, share=self.share, draw=Choices(site.seed, f"fault {self.id}"))
        try:
            with repeating(looks.once, _LOOK_S):
                yield
        finally:
            ended = pair.fence_off(database, read_only=True)
            site.note_fact(ended=ended, **find_lost(pair, database, table=site.sink_table))

    def evidence(self, seen: Seen) -> Evidence:
        old, gained = seen.last_fact("only_on_old"), seen.last_fact("only_on_promoted")
        if not old or not gained:
            return {}
        return {
            "only_on_old": old,
            "only_on_promoted": gained,
            "stayed": seen.last_fact("stayed"),
            "reset": seen.last_fact("reset"),
        }


@dataclass(slots=True, kw_only=True)
class _Looks:
    """Compares the table on both servers: resets connections once the old one has written, and notes when both have.

    Mutable: remembers how far it is.
    """

    site: Site
    table: str
    share: int
    draw: Choices
    has_reset: bool = False
    has_noted: bool = False

    def once(self) -> None:
        """One comparison, until each has had what the other one lacked.

        What was lost may be written again to the promoted server, and is then on both.
        """
        pair, database = self.site.server.pair, self.site.server.database
        if not self.has_reset:
            old = len(pair.only_on("primary", database, self.table))
            if old:
                self.has_reset = True
                self.site.note_fact(only_on_old=old, **self._reset_some())
        elif not self.has_noted:
            gained = len(pair.only_on("replica", database, self.table))
            if gained:
                self.has_noted = True
                self.site.note_fact(only_on_promoted=gained)

    def _reset_some(self) -> dict[str, int]:
        """Resets a share of the sink's live connections, at least one, and not all if there are several."""
        control = cast("MessageControl", self.site.control)  # by the ability `packets`
        live = sorted(one.id for one in control.connections("sink"))
        wanted = min(max(1, round(len(live) * self.share / 100)), max(1, len(live) - 1), len(live))
        for _ in range(wanted):
            control.cut_one("sink", live.pop(self.draw.index(len(live))))
        return {"stayed": len(live), "reset": wanted}
