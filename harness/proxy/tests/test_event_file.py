"""The file of `--log`: whatever the disk does, bytes pass, the control interface answers, and losses are told."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.proxy import service
from harness.proxy.link_log import LinkLog
from harness.proxy.service import EventFile, RawFile, opened
from harness.proxy.tests.conftest import Stand
from harness.proxy.toxics.stage import Stream
from harness.system.clock import Deadline, wait_until
from harness.system.errors import UsageError


class FullDisk:
    """Takes `room` bytes, then none until more room is made. Mutable."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.got = b""
        self.refused = threading.Event()

    def write(self, data: bytes) -> int:
        if not self.room:
            self.refused.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = data[: self.room]
        self.room -= len(taken)
        self.got += taken
        return len(taken)

    def close(self) -> None:
        pass


class HungDisk:
    """No write returns before `released`. Mutable."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def write(self, data: bytes) -> int:
        self.released.wait(60)
        return len(data)

    def close(self) -> None:
        pass


@pytest.fixture
def logged() -> Iterator[Callable[[RawFile], EventFile]]:
    """Makes event files; what they complain of is in `complaints`."""
    made: list[EventFile] = []

    def make(file: RawFile) -> EventFile:
        made.append(EventFile(file, name="deeds.jsonl", complain=complaints.append))
        return made[-1]

    complaints.clear()
    yield make
    for one in made:
        one.close()


complaints: list[str] = []


def log_to(stand: Stand, file: EventFile) -> None:
    """Let the link write its log there, too."""
    stand.link.log = LinkLog(link="db", loop=stand.loop, file=file)


def test_a_full_disk_stops_no_bytes_and_no_control_call_proxy_b(
    stand: Stand, logged: Callable[[RawFile], EventFile]
) -> None:
    disk = FullDisk(room=0)
    log_to(stand, logged(disk))
    sender, hearer = stand.ends(Stream.DOWNSTREAM)
    stand.add("latency", latency=1)

    sender.sendall(b"passes")

    assert stand.read(hearer, 6) == b"passes"
    assert disk.refused.wait(60)
    assert stand.log("delayed"), "the log of the control interface has it"


def test_a_disk_that_hangs_stops_no_bytes_proxy_b(
    stand: Stand, logged: Callable[[RawFile], EventFile]
) -> None:
    disk = HungDisk()
    log_to(stand, logged(disk))
    sender, hearer = stand.ends(Stream.DOWNSTREAM)
    stand.add("latency", latency=1)

    sender.sendall(b"passes")

    assert stand.read(hearer, 6) == b"passes"
    disk.released.set()


def test_losses_are_told_at_once_and_counted_at_the_end_proxy_b(
    logged: Callable[[RawFile], EventFile],
) -> None:
    file = logged(FullDisk(room=0))

    file.write("{}\n")
    file.write("{}\n")
    assert wait_until(lambda: file.lost == 2, deadline=Deadline(60))

    file.close()
    assert complaints == [
        "log entries are lost, for deeds.jsonl cannot be written now: No space left on device",
        "2 log entries are missing in deeds.jsonl",
    ]


def test_when_there_is_room_again_whole_lines_follow_a_torn_one_proxy_b(
    logged: Callable[[RawFile], EventFile],
) -> None:
    disk = FullDisk(room=12)
    file = logged(disk)
    file.write('{"n": 1}\n')
    file.write('{"n": 2}\n')
    assert disk.refused.wait(60)
    assert wait_until(lambda: file.lost == 1, deadline=Deadline(60))

    disk.room = 1_000
    file.write('{"n": 3}\n')

    assert wait_until(lambda: disk.got.endswith(b"3}\n"), deadline=Deadline(60))
    assert disk.got.decode().splitlines() == ['{"n": 1}', '{"n', '{"n": 3}']


def test_more_than_a_slow_disk_can_take_is_lost_and_counted_proxy_b(
    logged: Callable[[RawFile], EventFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LINES_MAX", 3)
    disk = HungDisk()
    file = logged(disk)

    for _ in range(10):
        file.write("{}\n")

    assert file.lost >= 6
    disk.released.set()


def test_a_log_has_all_its_lines_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "deeds.jsonl"

    for run in (1, 2):
        with closing(opened(path, complain=complaints.append)) as file:
            for n in range(100):
                file.write(json.dumps({"run": run, "n": n}) + "\n")

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"run": run, "n": n} for run in (1, 2) for n in range(100)]


def test_a_log_that_cannot_be_opened_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        opened(tmp_path / "no" / "folder", complain=complaints.append)
