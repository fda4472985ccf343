"""Whole jobs in virtual time: each client, each crash point, what ends with a process, what leaves."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec import json

from harness.engine.level import Opening, RunSite
from harness.history.verdict import Outcome
from harness.levels.job.order import job_named
from harness.levels.job.sweep import every_point, pairs_of, settings_of, settings_of_pair
from harness.levels.virtual.level import VirtualJobLevel, VirtualPlays
from harness.levels.virtual.tests.virtual_jobs import EXAMPLES, JobWith, job_with, made, order_of, plays
from harness.system.errors import CannotHere, SutError, UsageError, WorldError

__all__ = ["job_with", "plays"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

FEW = ["records=60"]


@pytest.mark.parametrize("client", ["asyncmy", "aiomysql", "connector", "sqlalchemy", "pymysql", "mixed"])
def test_a_job_with_any_client_survives_a_kill_on_both_sides_of_a_commit_d1(
    plays: VirtualPlays, tmp_path: Path, client: str, job_with: JobWith
) -> None:
    order = order_of(job_with("clients.py", client), "killed-after-commit", FEW)

    run = made(plays, order, tmp_path)

    assert run.judgement.outcome is Outcome.PASS, run.judgement
    assert len(run.of("JobStart")) == 4, "two kills, and once more when all is done"
    assert run.record.accounting["records"] == 60


def swept(plays: VirtualPlays, name: str, folder: Path, *, records: int) -> dict[str, set[tuple[str, str]]]:
    """What each crash point of the sink's link shows, by its name; of those without a violation an empty set."""
    job, _ = job_named(EXAMPLES / f"{name}.toml")
    base = order_of(job, "killed-at-message", [f"records={records}"])
    calm = plays.calm_twin(base, RunSite(run_id="calm", folder=folder))
    found = {}
    for number, point in enumerate(one for one in every_point(calm.messages) if one.link == "sink"):
        order = order_of(job, "killed-at-message", settings_of(base.scenario, point))
        run = made(plays, order, folder / f"{number}")
        assert run.judgement.outcome in {Outcome.PASS, Outcome.FAIL}, (point, run.judgement)
        found[point.name] = run.kinds
    return found


@pytest.mark.parametrize(
    ("name", "records", "kind", "count"),
    [
        ("rows_first", 60, "duplicate", 12),
        ("offset_first", 60, "lost", 12),
        ("one_transaction", 60, None, 0),
        ("job", 60, None, 0),
        ("with_journal", 10, None, 0),
    ],
)
def test_a_sweep_convicts_between_two_commits_and_nowhere_else_d8(
    plays: VirtualPlays, tmp_path: Path, name: str, records: int, kind: str | None, count: int
) -> None:
    found = swept(plays, name, tmp_path, records=records)

    convicted = [kinds for kinds in found.values() if kinds]
    assert len(found) >= 22
    assert len(convicted) == count, found
    assert all(kinds == {("V8", kind)} for kinds in convicted)


def test_a_commit_of_a_dead_start_may_arrive_after_its_successor_began_d8(
    plays: VirtualPlays, tmp_path: Path
) -> None:
    runs = {
        name: made(plays, order_of(job_named(EXAMPLES / f"{name}.toml")[0], "late-commit"), tmp_path / name)
        for name in ("one_transaction", "job")
    }

    assert runs["one_transaction"].kinds == {("V8", "duplicate")}
    assert runs["job"].judgement.outcome is Outcome.PASS, runs["job"].judgement


def digest(plays: VirtualPlays, folder: Path) -> str:
    """Of the histories of several crash points and of a frozen start."""
    job, _ = job_named(EXAMPLES / "rows_first.toml")
    points = [[f"faults.kill.when.nth={nth}", *FEW] for nth in (5, 9, 14)]
    orders = [order_of(job, "killed-at-message", settings) for settings in points]
    orders += [order_of(job_named(EXAMPLES / "job.toml")[0], "frozen-start")]
    runs = [made(plays, order, folder / f"{number}") for number, order in enumerate(orders)]
    return hashlib.sha256(b"".join(json.encode(run.record.events) for run in runs)).hexdigest()


def test_equal_orders_give_equal_histories_in_every_process_d2(plays: VirtualPlays, tmp_path: Path) -> None:
    here = digest(plays, tmp_path / "a")
    with VirtualJobLevel().open(Opening(world="local")) as others:
        assert digest(others, tmp_path / "b") == here


def test_a_kill_runs_nothing_of_the_job_and_each_start_imports_it_anew_d9(
    plays: VirtualPlays, tmp_path: Path, job_with: JobWith
) -> None:
    order = order_of(job_with("clean_up.py"), "killed-after-commit", FEW)

    run = made(plays, order, tmp_path)

    assert run.judgement.outcome is Outcome.PASS, run.judgement
    notes = (run.folder / "job" / "state" / "notes.txt").read_text().splitlines()
    assert notes == [
        "1 begins, module imported 1 times",
        "2 begins, module imported 1 times",
        "3 begins, module imported 1 times", "3 finally", "3 atexit",
        "4 begins, module imported 1 times", "4 finally", "4 atexit",
    ]  # fmt: skip
    assert "printed at once" in run.log(1)


LEAVES = {
    "thread": "starts a thread",
    "pool": "starts a thread",
    "process": "starts a process",
    "unix": "connects to a Unix socket",
    "elsewhere": r"connects to 192\.0\.2\.1:80",
    "bare": "connects a socket of its own",
    "uvloop": "imports uvloop, which has an event loop of its own",
    "c": "imports MySQLdb, which is a client in C with sockets of its own",
    "fork": "forks",
    "swallows": "starts a thread",
}


@pytest.mark.parametrize("what", list(LEAVES))
def test_what_leaves_virtual_time_is_refused_with_its_line_d10(
    plays: VirtualPlays, tmp_path: Path, what: str, job_with: JobWith
) -> None:
    with pytest.raises(SutError, match=rf"the job {LEAVES[what]} \(.*leaves\.py:\d+\)") as refusal:
        made(plays, order_of(job_with("leaves.py", what), "calm-job", FEW), tmp_path)

    assert refusal.value.fix == "run it with --level job"


def test_a_jobs_sleep_is_virtual_and_sigterm_is_its_own(
    plays: VirtualPlays, tmp_path: Path, job_with: JobWith
) -> None:
    job = job_with("told.py", ends="settles")

    run = made(plays, order_of(job, "killed-after-commit", FEW), tmp_path)

    assert run.judgement.outcome is Outcome.PASS, run.judgement
    state = run.folder / "job" / "state"
    assert (state / "goodbye.txt").read_text() == "asked to end"
    clock_s, slept_s = (state / "clock.txt").read_text().split()
    assert clock_s.startswith("17672256")
    assert slept_s == "10.00"
    told = (state / "told.txt").read_text()
    instant, second, day, *_ = told.split()
    assert abs(float(instant) - float(clock_s)) <= 1
    assert (second, day) == (f"{int(float(instant))}.0", "2026-01-01")
    again = made(plays, order_of(job, "killed-after-commit", FEW), tmp_path / "again")
    assert (again.folder / "job" / "state" / "told.txt").read_text() == told, "chance and calendar repeat"


def test_a_sink_that_is_a_view_is_refused_because_the_log_does_not_show_its_changes(
    plays: VirtualPlays, tmp_path: Path, job_with: JobWith
) -> None:
    job = job_with("clients.py", "pymysql")
    made_as_view = tmp_path / "view.sql"
    made_as_view.write_text(
        (EXAMPLES / "sink.sql").read_text().replace("TABLE enriched", "TABLE behind")
        + "CREATE VIEW enriched AS SELECT * FROM behind;\n"
    )
    job = job.model_copy(update={"sink": job.sink.model_copy(update={"schema_file": str(made_as_view)})})

    with pytest.raises(WorldError, match="sink.table enriched is a view"):
        made(plays, order_of(job, "killed-after-commit", FEW), tmp_path / "run")


def test_a_job_that_is_no_python_is_refused(job_with: JobWith) -> None:
    job = job_with()
    go = job.model_copy(update={"job": job.job.model_copy(update={"command": ["/bin/sh", "job.sh"]})})

    with pytest.raises(
        UsageError, match="virtual time follows jobs in Python alone, and the command is /bin/sh"
    ):
        VirtualJobLevel().refuse(order_of(go, "calm-job"))


def test_a_fault_of_the_servers_process_is_refused(
    plays: VirtualPlays, tmp_path: Path, job_with: JobWith
) -> None:
    with pytest.raises(CannotHere, match="needs a server that may be killed"):
        made(plays, order_of(job_with("clients.py", "asyncmy"), "server-killed", FEW), tmp_path)


def test_a_job_that_survives_each_kill_is_convicted_by_a_pair(plays: VirtualPlays, tmp_path: Path) -> None:
    job, _ = job_named(EXAMPLES / "with_journal.toml")
    first = order_of(job, "killed-at-message", ["records=10"])
    calm = plays.calm_twin(first, RunSite(run_id="calm", folder=tmp_path))
    found = set()

    for number, pair in enumerate(pairs_of(every_point(calm.messages), 60, seed=1)):
        order = order_of(job, "killed-twice", settings_of_pair(first.scenario, pair))
        found |= made(plays, order, tmp_path / f"{number}").kinds
        if found:
            break

    assert found == {("V8", "lost")}
