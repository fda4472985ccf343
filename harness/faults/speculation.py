"""`speculation`: make the task of a subtask slow, so that Spark starts a copy of it; then both run until one has won.

Answers to a straggler with `spark.speculation`: the task's Python worker is stopped (SIGSTOP) until Spark has started a
second attempt of the same task on another host, and then goes on beside it. Evidence: both ran at a time, on different
hosts, and the first one wrote events after the copy had begun. What became of its commit is told; V13 judges it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal

from harness.faults.model.fault import OutsideFault
from harness.faults.model.fields import Subtask
from harness.faults.real.evidence import Evidence, Seen, attempt_of
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import await_over, await_replaced, last_words, newest_attempts
from harness.history.notes import Line, OnHost

_LAST_WORDS_S = 15.0
"""How long the first attempt, awake again, may take to find out that a copy has taken over."""


class Speculation(OutsideFault):
    """Stops the worker of `subtask` until Spark has started a copy of its task, once."""

    about = (
        "The worker of `subtask` is stopped (SIGSTOP) until Spark, with speculation on, has started a copy of its task "
        "on another host; then both run."
    )
    must_show = (
        "The copy began on another host while the first attempt lived, which then wrote events beside it."
    )
    stalls = True
    by = "process"
    levels = ("spark",)
    abilities = ("cluster",)
    can = ("res", "kill", "start", "failed")
    holds_locks = True

    do: Literal["speculation"]
    subtask: Subtask

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The block begins when the first attempt, awake again, has ended or found out; or after a while."""
        from harness.faults.real.suspension import awaited, suspended

        who = awaited(partial(site.workers.process, self.subtask))
        if who is None:
            yield
            return
        before = newest_attempts(site, [self.subtask])
        with suspended(who, site.note_fact):
            await_replaced(site, before)
        await_over(site, before, limit_s=_LAST_WORDS_S)
        yield

    def evidence(self, seen: Seen) -> Evidence:
        stopped, replaced = seen.fact("stopped"), seen.fact("replaced")
        if stopped is None or replaced is None or not replaced["attempts"]:
            return {}
        evidence: Evidence = {"pid": stopped["pid"], "state": stopped["state"]}
        if not seen.events:
            return evidence
        who = attempt_of(stopped["pid"], stopped["started"], seen.events)
        words = None if who is None else last_words(seen.events, subtask=who[0], attempt=who[1])
        if words is None:
            return {}
        hosts = [
            _host_of(seen.events, words["subtask"], words[attempt]) for attempt in ("attempt", "successor")
        ]
        return {**evidence, **words, "hosts": hosts} if hosts[0] != hosts[1] else {}


def _host_of(lines: Sequence[Line], subtask: int, attempt: int) -> str:
    told = (line for line in lines if isinstance(line, OnHost) and (line.s, line.a) == (subtask, attempt))
    return next((line.host for line in told), "")
