"""Real traffic over a real server that faults disturb, with the look at what they leave behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.tests.traffic import Traffic
from harness.system.clock import Deadline, monotonic_us, utc_now, wait_until
from harness.world.world import World

BITES_WITHIN_S = 60.0
LEAST_S = 0.3
"""So long a fault lasts at least."""


class DisturbedRun:
    """A run of traffic in a world, for faults to disturb."""

    def __init__(self, world: World, database: str) -> None:
        self.server = world.server.of_run(database)
        self.traffic = Traffic(
            lookups=world.app.at(world.links["lookups"], database),
            sink=world.app.at(world.links["sink"], database),
        )

    def site(self) -> Site:
        """Where a fault acts; what it finds goes to the traffic's own record."""
        nobody = cast("Any", None)
        found = self.traffic.found
        return Site(
            control=nobody,
            workers=nobody,
            server=self.server,
            note_fact=lambda **facts: found.append(facts),
            seed=1,
            over=threading.Event(),
        )

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Traffic while the block lasts; afterwards it goes on, nothing is left behind, and nothing was lost."""
        before = self.left_behind()
        with self.traffic.flowing():
            yield
            self.traffic.await_progress()
        assert self.left_behind() == before
        assert self.acknowledged_are_there()

    def bitten(self, fault: OutsideFault) -> tuple[Evidence, Seen]:
        """Arm it, heal it when it has bitten; what it has left, and what was seen."""
        site = self.site()
        with self.flowing():
            with fault.inject(site):
                armed_us, least = monotonic_us(), Deadline(LEAST_S)

                def has_bitten() -> bool:
                    return least.passed and bool(fault.evidence(self.traffic.seen(armed_us, monotonic_us())))

                wait_until(has_bitten, deadline=Deadline(BITES_WITHIN_S), every_s=0.05)
                site.over.set()
                healed_us = monotonic_us()
            self.traffic.await_progress()
            seen = self.traffic.seen(armed_us, healed_us)
        return fault.evidence(seen), seen

    def left_behind(self) -> list[Any]:
        """All that a fault could have forgotten: variables, a clock, tables, columns, a lock."""
        with self.server.root(self.server.database) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 60, innodb_lock_wait_timeout = 60")
            cursor.execute("SELECT @@GLOBAL.read_only, @@GLOBAL.max_connections, @@GLOBAL.wait_timeout")
            found = [*cursor.fetchall()]
            cursor.execute("SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.net_buffer_length")
            found += cursor.fetchall()
            cursor.execute("SELECT ABS(UNIX_TIMESTAMP(NOW()) - %s) < 60", (utc_now().timestamp(),))
            found += cursor.fetchall()
            cursor.execute("SHOW FULL TABLES")
            found += cursor.fetchall()
            cursor.execute("SHOW COLUMNS FROM customer")
            found += [row[0] for row in cursor.fetchall()]
            cursor.execute("UPDATE fence SET token = token")
            return found

    def acknowledged_are_there(self) -> bool:
        """No commit that was answered is lost, and none is there twice, by the database's own count."""
        with self.server.root(self.server.database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT epoch, COUNT(*) FROM output GROUP BY epoch")
            rows = dict(cursor.fetchall())
        return all(rows.get(epoch) == 5 for epoch in self.traffic.acknowledged) and set(rows.values()) <= {5}
