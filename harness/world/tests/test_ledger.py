"""What a dead run left is undone, exactly that, and living runs are never touched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from harness.system.errors import WorldError
from harness.system.process_identity import identify
from harness.world import server_program
from harness.world.ledger import Ledger, dead_runs, open_ledger, reap, reserve_port
from harness.world.mysql_server import mount_small_disk, no_small_disk
from harness.world.settings import Places, WorldSettings


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A child that does nothing for long."""
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def bury(ledger: Ledger, **changes: object) -> None:
    """Make the ledger look as if its owner had been killed (or as `changes` say)."""
    first, *others = ledger.path.read_text().splitlines()
    owner = json.loads(first)["owner"]
    owner["process"]["started"] -= 1
    owner.update(changes)
    ledger.path.write_text("".join(f"{line}\n" for line in [json.dumps({"owner": owner}), *others]))


def swept(run_id: str) -> list[str]:
    """An engine that had one container of any run."""
    return [f"container of {run_id}"]


def broken(run_id: str) -> list[str]:
    """An engine that does not answer."""
    raise WorldError(f"no engine for {run_id}")


def test_a_closed_ledger_leaves_nothing(places: Places, sleeper: subprocess.Popen[bytes]) -> None:
    ledger = Ledger(places).begin()
    ledger.note_process(sleeper.pid)
    reserve_port(ledger)
    (ledger.folder / "file").write_text("anything")

    ledger.close(swept)

    assert identify(sleeper.pid) is None
    assert not list(places.runs.iterdir())
    assert not list(places.ports.iterdir())


def _interrupted_at(line: int) -> Callable[..., Any]:
    """A trace function that raises KeyboardInterrupt at the n-th line of `Ledger.begin` and what it calls there."""
    left = [line]

    def of_line(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return of_line

    def of_call(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        return of_line if frame.f_code.co_name in {"begin", "_append", "note_folder"} else None

    return of_call


def test_an_interruption_at_any_line_of_the_beginning_leaves_nothing(places: Places) -> None:
    interrupted = 0
    for line in range(1, 100):
        before = sys.gettrace()
        sys.settrace(_interrupted_at(line))
        try:
            with open_ledger(WorldSettings(places=places), swept):
                break
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        assert not list(places.runs.iterdir()), f"after line {line}"

    assert interrupted >= 20


def test_the_things_of_a_living_run_are_not_touched(ledger: Ledger, sleeper: subprocess.Popen[bytes]) -> None:
    ledger.note_process(sleeper.pid)
    port = reserve_port(ledger)

    assert reap(ledger.places, swept) == []
    assert sleeper.poll() is None
    assert ledger.folder.exists()
    assert (ledger.places.ports / str(port)).is_symlink()


def test_a_dead_runs_things_are_removed_and_told(places: Places, sleeper: subprocess.Popen[bytes]) -> None:
    ledger = Ledger(places).begin()
    ledger.note_process(sleeper.pid)
    ledger.note_engine()
    port = reserve_port(ledger)
    bury(ledger)
    assert dead_runs(places) == [ledger.run_id]

    (found,) = reap(places, swept)

    assert found.run_id == ledger.run_id
    assert found.removed == (
        f"lock of port {port}",
        f"container of {ledger.run_id}",
        f"process {sleeper.pid}",
        f"folder {ledger.folder}",
    )
    assert identify(sleeper.pid) is None
    assert reap(places, swept) == []


def test_a_process_that_has_a_dead_ones_pid_is_spared(
    places: Places, sleeper: subprocess.Popen[bytes]
) -> None:
    ledger = Ledger(places).begin()
    with ledger.path.open("a") as file:
        file.write(json.dumps({"process": {"pid": sleeper.pid, "started": 1}}) + "\n")
    bury(ledger)

    (found,) = reap(places, swept)

    assert sleeper.poll() is None
    assert found.removed == (f"folder {ledger.folder}",)


def test_the_shared_memory_of_a_killed_servers_clock_goes_with_the_process(
    places: Places, sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_program, "SHARED_MEMORY", tmp_path)
    memory, semaphore = (tmp_path / f"{name}_{sleeper.pid}" for name in ("faketime_shm", "sem.faketime_sem"))
    somebody_elses = tmp_path / "faketime_shm_1"
    for path in (memory, semaphore, somebody_elses):
        path.touch()
    ledger = Ledger(places).begin()
    ledger.note_process(sleeper.pid)

    closed = ledger.close(swept)

    assert closed.removed[:3] == (
        f"process {sleeper.pid}",
        f"shared memory {memory}",
        f"shared memory {semaphore}",
    )
    assert not memory.exists()
    assert not semaphore.exists()
    assert somebody_elses.exists()


def test_the_shared_memory_of_a_living_process_that_has_a_dead_ones_pid_stays(
    places: Places, sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_program, "SHARED_MEMORY", tmp_path)
    memory = tmp_path / f"faketime_shm_{sleeper.pid}"
    memory.touch()
    ledger = Ledger(places).begin()
    with ledger.path.open("a") as file:
        file.write(json.dumps({"process": {"pid": sleeper.pid, "started": 1}}) + "\n")

    ledger.close(swept)

    assert memory.exists()


def test_a_lock_that_another_run_took_first_is_spared(places: Places) -> None:
    slow, quick = Ledger(places).begin(), Ledger(places).begin()
    port = reserve_port(quick)
    slow.note_port(port)
    bury(slow)

    reap(places, swept)

    assert str((places.ports / str(port)).readlink()) == quick.run_id
    quick.close(swept)


def test_what_cannot_be_removed_stays_in_the_ledger_for_the_next_reaper(places: Places) -> None:
    ledger = Ledger(places).begin()
    ledger.note_engine()
    bury(ledger)

    (first,) = reap(places, broken)
    (second,) = reap(places, swept)

    assert first.left == (f"no engine for {ledger.run_id}",)
    assert second.removed == (f"container of {ledger.run_id}",)
    assert not ledger.path.exists()


def test_runs_of_another_machine_on_a_shared_folder_are_left_alone(places: Places) -> None:
    ledger = Ledger(places).begin()
    bury(ledger, machine="elsewhere")

    assert reap(places, swept) == []
    assert dead_runs(places) == []
    assert ledger.folder.exists()


def test_a_torn_last_line_hides_nothing_of_the_rest(places: Places) -> None:
    ledger = Ledger(places).begin()
    bury(ledger)
    with ledger.path.open("a") as file:
        file.write('{"folder":"/somewh')

    (found,) = reap(places, swept)

    assert found.removed == (f"folder {ledger.folder}",)


def test_a_ledger_without_a_readable_owner_is_left_alone(places: Places) -> None:
    strange = places.runs / "strange.ledger"
    strange.write_text("not one of ours\n")

    assert reap(places, swept) == []
    assert strange.exists()


def test_a_ledger_that_cannot_be_written_says_where_and_what_to_do(ledger: Ledger, tmp_path: Path) -> None:
    ledger.path.unlink()
    ledger.path.mkdir()

    with pytest.raises(WorldError, match="FLOODMARK_CACHE") as caught:
        ledger.note_folder(tmp_path)

    assert str(ledger.path) in caught.value.what
    ledger.path.rmdir()
    ledger.path.touch()


def test_a_mount_of_a_dead_run_is_unmounted_before_its_folder_goes(places: Places) -> None:
    if no_small_disk():
        pytest.skip(no_small_disk())
    ledger = Ledger(places).begin()
    disk = ledger.folder / "disk"
    mount_small_disk(disk, size_bytes=1 << 20, ledger=ledger)
    (disk / "file").write_text("anything")
    bury(ledger)

    reaped = reap(places, swept)

    assert f"mount {disk}" in reaped[0].removed
    assert not reaped[0].left
    assert not disk.exists()
    assert not ledger.folder.exists()


def test_a_ledger_that_announces_a_mount_which_never_came_is_undone_all_the_same(places: Places) -> None:
    ledger = Ledger(places).begin()
    ledger.note_mount(ledger.folder / "disk")
    bury(ledger)

    assert not reap(places, swept)[0].left


def test_a_marked_process_is_ended_although_its_parent_died_and_it_has_a_session_of_its_own(
    places: Places,
) -> None:
    ledger = Ledger(places).begin()
    ledger.note_mark("FLOODMARK_JOB_RUN=of-this-test")
    leaves_one = (
        "import os, sys\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    sys.stdout.write(str(os.getpid()))\n"
        "    sys.stdout.flush()\n"
        "    os.close(1)\n"
        "    os.execvp('sleep', ['sleep', '60'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", leaves_one],
        env={"FLOODMARK_JOB_RUN": "of-this-test", "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    left = int(done.stdout)
    assert identify(left) is not None
    bury(ledger)

    [reaped] = reap(places, swept)

    assert f"process {left}" in reaped.removed
    assert identify(left) is None
