"""The faults of a job's processes: who dies, what becomes of the held message, and what is evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from harness.faults.real.evidence import Seen
from harness.faults.real.job_kill import why_too_late
from harness.faults.real.sites import LiveStart
from harness.faults.registry import FAULTS
from harness.faults.tests.entries import made
from harness.faults.tests.fake_job import Job, MessageProxy, held, job_site, noted, shown
from harness.system.errors import WorldError
from tools.cases import each

AT_COMMIT = {"sink": "commit"}
OF_JOBS = [name for name, kind in FAULTS.items() if kind.by == "job"]


def test_the_driver_is_killed_and_its_children_are_not() -> None:
    with Job(helpers=1) as job:
        evidence = shown(made("kill_driver"), *job_site(MessageProxy(), job))

        assert evidence == {"pid": job.begun[0][0].pid}
        assert [process.poll() for process in job.begun[0]] == [-9, None]


def test_a_held_request_of_the_dead_never_arrives() -> None:
    proxy = MessageProxy()
    with Job(owner_of={5: 1}) as job:
        evidence = shown(made("kill_driver", when=AT_COMMIT), *job_site(proxy, job, message=held(proxy, 5)))

        assert proxy.log == ["cut 5"]
        assert evidence["never_arrived"] is True
        assert (evidence["held"], evidence["lag_ms"]) == ("before COMMIT 1 of enriched", 8)


@each("lag_ms, meanwhile", [(301, 2), (301, 0), (99, 2)])
def test_a_kill_of_a_job_that_did_something_after_its_message_was_held_is_no_evidence_and_says_so(
    lag_ms: int, meanwhile: int
) -> None:
    proxy = MessageProxy()
    with Job(owner_of={5: 1}) as job:
        message = held(proxy, 5, lag_us=lag_ms * 1000, meanwhile=meanwhile)
        place, facts = job_site(proxy, job, message=message)

        counts = bool(shown(made("kill_driver", when=AT_COMMIT), place, facts))

    why = why_too_late(Seen(armed_us=0, healed_us=1, facts=facts))
    assert counts is not bool(why)
    assert bool(why) is (lag_ms == 301 and meanwhile == 2)
    assert (
        not why
        or "301 ms after its message was held (before COMMIT 1 of enriched), in which 2 messages" in why
    )


@each("kind", ["kill_driver", "kill_owner", "kill_at_message", "late_commit"])
def test_what_a_kill_leaves_alive_goes_on_behind_it(kind: str) -> None:
    proxy, order = MessageProxy(), list[str]()
    with Job(helpers=1, owner_of={5: 1}) as job:
        message = held(proxy, 5)
        message.still.callback(order.append, "go on")
        killed = job.kill

        def kill(process: Any, *, fault: str) -> bool:
            order.append("kill")
            proxy.noted.append(noted("insert", 6, table="shop.enriched"))
            return killed(process, fault=fault)

        job.kill = kill  # type: ignore[method-assign]
        proxy.after_release = lambda connection: proxy.noted.append(noted("commit", connection, answer=True))
        place, _ = job_site(proxy, job, message=message)
        with made(kind, when=AT_COMMIT).inject(place):
            assert order in (["kill", "go on"], ["kill", "kill", "go on"])


def test_a_held_answer_goes_on_to_the_dead() -> None:
    proxy = MessageProxy()
    with Job(owner_of={5: 1}) as job:
        message = held(proxy, 5, moment="after")
        evidence = shown(made("kill_driver", when=AT_COMMIT), *job_site(proxy, job, message=message))

        assert proxy.log == ["release 5"]
        assert "never_arrived" not in evidence


def test_the_request_of_a_process_that_lives_on_goes_on() -> None:
    """An executor's message is held while the driver dies."""
    proxy = MessageProxy()
    with Job() as job:
        shown(made("kill_driver", when=AT_COMMIT), *job_site(proxy, job, message=held(proxy, 5)))

        assert proxy.log == ["release 5"]


def test_a_start_that_another_fault_has_just_killed_is_not_killed_again_but_its_successor_is() -> None:
    """Nobody has reaped it yet, and nobody waits for the held message any more."""
    proxy = MessageProxy()
    with Job() as job:
        dead = job.newest()
        assert dead is not None
        job.kill(dead.main, fault="another")
        job._start()
        starts = iter([dead, dead, job.newest()])
        job.newest = lambda: next(starts)  # type: ignore[method-assign]

        message = held(proxy, 5, moment="after")
        evidence = shown(made("kill_driver", when=AT_COMMIT), *job_site(proxy, job, message=message))

        assert evidence == {"pid": job.begun[1][0].pid}


def test_at_a_message_all_processes_die() -> None:
    proxy = MessageProxy()
    with Job(helpers=2, owner_of={5: 1}) as job:
        evidence = shown(made("kill_at_message"), *job_site(proxy, job, message=held(proxy, 5)))

        assert len(evidence["pids"]) == 3
        assert all(process.poll() == -9 for process in job.begun[0])


def test_without_an_owner_there_is_nobody_to_kill() -> None:
    proxy = MessageProxy()
    with Job() as job, pytest.raises(WorldError, match="no process owns connection 5"):
        shown(made("kill_owner"), *job_site(proxy, job, message=held(proxy, 5)))


def test_a_job_without_executors_loses_none() -> None:
    with Job() as job, pytest.raises(WorldError, match="no executor"):
        shown(made("kill_executor"), *job_site(MessageProxy(), job))


def test_an_executor_is_killed_and_the_driver_is_not() -> None:
    with Job(helpers=1, executors_too=True) as job:
        evidence = shown(made("kill_executor"), *job_site(MessageProxy(), job))

        assert evidence == {"pid": job.begun[0][1].pid}
        assert job.begun[0][0].poll() is None


def late(proxy: MessageProxy, *, writes: bool = True, commits: bool = True) -> dict[str, Any]:
    """The evidence of a late COMMIT of connection 5; its successor is connection 6."""
    fault = made("late_commit", **({} if writes else {"for": "20ms"}))

    def committed(connection: int) -> None:
        if commits:
            proxy.noted.append(noted("commit", connection, answer=True))

    proxy.after_release = committed
    with Job(owner_of={5: 1}) as job:
        place, facts = job_site(proxy, job, message=held(proxy, 5))
        killed = job.kill

        def kill(process: Any, *, fault: str) -> bool:
            if writes:
                proxy.noted.append(noted("insert", 6, table="shop.enriched"))
            return killed(process, fault=fault)

        job.kill = kill  # type: ignore[method-assign]
        return shown(fault, place, facts)


def test_a_late_commit_is_let_through_when_the_successor_writes() -> None:
    proxy = MessageProxy()

    evidence = late(proxy)

    assert evidence["successor"] == "writes"
    assert evidence["rows_modified"] == 3
    assert proxy.log[-3:] == ["release 5", "-f.notes.downstream", "-f.notes.upstream"]


def test_a_late_commit_without_a_successor_is_no_evidence() -> None:
    assert late(MessageProxy(), writes=False) == {}


def test_only_a_commit_that_has_not_arrived_can_be_late() -> None:
    with pytest.raises(ValidationError, match="before the server gets it"):
        made("late_commit", when={"sink": "commit", "moment": "after"})
    with pytest.raises(ValidationError, match="before the server gets it"):
        made("late_commit", when={"sink": "write"})


def test_a_frozen_start_stands_still_until_the_second_has_committed() -> None:
    proxy = MessageProxy()
    with Job() as job:
        begun = job.start_beside

        @contextmanager
        def start_beside(*, fault: str) -> Iterator[LiveStart]:
            job.commits += 1
            with begun(fault=fault) as second:
                yield second

        job.start_beside = start_beside  # type: ignore[method-assign]
        place, facts = job_site(proxy, job)
        first = job.begun[0][0]
        place.over.set()  # it does not wait for what the first start does, awake again
        with made("frozen_start", **{"for": "10ms"}).inject(place):
            pass

        assert [fact["what"] for fact in facts] == ["stopped", "resumed", "woke"]
        assert facts[0]["pid"] == first.pid
        assert (facts[2]["first"], facts[2]["second"], facts[2]["commits_of_the_second"]) == (1, 2, 1)


@pytest.mark.parametrize(
    ("woke", "counts"),
    [({"messages_after_it_woke": 2, "ended": False}, True), ({"messages_after_it_woke": 0, "ended": True}, True),
     ({"messages_after_it_woke": 0, "ended": False}, False)],
)  # fmt: skip
def test_a_frozen_start_that_does_nothing_afterwards_is_no_evidence(
    woke: dict[str, Any], *, counts: bool
) -> None:
    found = [{"what": "stopped", "pid": 7}, {"what": "woke", "first": 1, "second": 2, **woke}]

    assert bool(made("frozen_start").evidence(Seen(armed_us=0, healed_us=1, facts=found))) is counts


@each("kind", OF_JOBS)
def test_a_fault_of_a_job_that_found_nothing_has_no_evidence(kind: str) -> None:
    assert made(kind).evidence(Seen(armed_us=0, healed_us=1)) == {}
