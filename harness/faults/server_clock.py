"""`server_clock`: shift the server's wall clock by `shift`; its monotonic clock, used for timeouts, stays right.

Answers to Jepsen's clock nemesis. Evidence: `NOW()` over a direct connection was off by the shift, and calls of the run
were made meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts, ShiftBy
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.system.clock import Deadline, utc_now, wait_until
from harness.system.errors import WorldError

_FOLLOWS_S = 10.0
_SLACK_MS = 500
"""Tolerance, because the two clocks are not read at the same instant."""


class ServerClock(ServerFault):
    """Shifts the server's wall clock."""

    about = "The wall clock of the database server is off by `shift`, forwards or backwards."
    must_show = (
        "`NOW()` over a direct connection was off by the shift, and calls of the run were made meanwhile."
    )
    abilities = ("server-clock",)
    levels = ("live", "spark")
    can = ()

    do: Literal["server_clock"]
    lasts: Lasts
    shift: ShiftBy

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The block begins when the server shows the shifted time."""
        try:
            with site.server.root() as connection:
                before = _offset_ms(connection)
                site.server.shift_clock(self.shift)
                if not wait_until(
                    lambda: abs(_offset_ms(connection) - self.shift) <= _SLACK_MS,
                    deadline=Deadline(_FOLLOWS_S),
                ):
                    raise WorldError(
                        f"the server's clock was not off by {self.shift} ms after {_FOLLOWS_S:g} s",
                        fix="floodmark setup gets the library that shifts it",
                    )
                site.note_fact(offset_before_ms=before, offset_ms=_offset_ms(connection))
            yield
        finally:
            site.server.shift_clock(0)

    def evidence(self, seen: Seen) -> Evidence:
        before, offset = seen.last_fact("offset_before_ms"), seen.last_fact("offset_ms")
        calls = len(seen.during())
        if offset is None or before is None or abs(offset - before) < abs(self.shift) / 2 or not calls:
            return {}
        return {"offset_ms": offset, "offset_before_ms": before, "calls_during": calls}


def _offset_ms(connection: MySqlConnection) -> int:
    """The server's wall clock minus ours."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT UNIX_TIMESTAMP(NOW(6))")
        theirs = float(cursor.fetchone()[0])
    return round((theirs - utc_now().timestamp()) * 1000)
