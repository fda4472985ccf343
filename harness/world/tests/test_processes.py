"""A child is in the ledger before it can do anything, and every wait for it has an end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness.system.child import Child, run_to_end
from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import identify
from harness.world.ledger import ENROL_AND_BECOME, Ledger


def start(ledger: Ledger, *command: str, **environment: str) -> Child:
    """A child named `child`."""
    return ledger.start(command, name="child", log=ledger.folder / "child.log", environment=environment)


def entries(ledger: Ledger) -> list[object]:
    """The ledger's process entries."""
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    return [line["process"] for line in lines if "process" in line]


def test_a_child_writes_itself_into_the_ledger_before_it_becomes_the_program(ledger: Ledger) -> None:
    written = f"grep -c '^.\"process' {ledger.path}; exec sleep 60"
    child = start(ledger, "sh", "-c", written)

    child.wait_for(lambda: child.log.read_text() == "1\n", what="its count", limit_s=60)
    who = identify(child.pid)

    assert who is not None
    assert entries(ledger) == [{"pid": who.pid, "started": who.started}]
    child.stop()


def test_a_child_whose_owner_died_meanwhile_never_becomes_the_program(ledger: Ledger, tmp_path: Path) -> None:
    """Its owner's reaper may have read the ledger already, so nobody would ever end it."""
    command = ["/bin/sh", "-c", ENROL_AND_BECOME, str(ledger.path), "1", "touch", str(tmp_path / "started")]

    assert subprocess.run(command, check=False).returncode == 1
    assert not (tmp_path / "started").exists()
    assert ledger.path.exists()


def test_a_child_that_comes_too_late_does_not_bring_a_removed_ledger_back(tmp_path: Path) -> None:
    removed = tmp_path / "removed.ledger"

    subprocess.run(["/bin/sh", "-c", ENROL_AND_BECOME, str(removed), "1", "true"], check=False)

    assert not removed.exists()


def test_a_child_of_a_run_that_has_closed_its_ledger_never_becomes_the_program(tmp_path: Path) -> None:
    """An interruption between its start and its first line; its owner lives on."""
    closed = tmp_path / "closed.ledger"
    owner = str(os.getpid())
    command = ["/bin/sh", "-c", ENROL_AND_BECOME, str(closed), owner, "touch", str(tmp_path / "started")]

    assert subprocess.run(command, check=False).returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_child_is_gone_with_its_group(ledger: Ledger) -> None:
    child = start(ledger, "sh", "-c", "sleep 60 & echo $!; wait")
    child.wait_for(lambda: child.log.read_text() != "", what="its child's pid", limit_s=60)
    grandchild = int(child.log.read_text())

    child.stop()

    assert not child.alive
    assert wait_until(lambda: identify(grandchild) is None, deadline=Deadline(60))


def test_a_child_that_may_go_by_itself_is_asked_first(ledger: Ledger) -> None:
    child = start(ledger, "sh", "-c", "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done")
    child.wait_for(lambda: "up" in child.log.read_text(), what="its start", limit_s=60)

    child.stop(grace_s=5)

    assert child.log.read_text() == "up\nasked\n"


def test_a_child_that_ends_while_it_is_awaited_says_so_with_its_last_words(ledger: Ledger) -> None:
    child = start(ledger, "sh", "-c", "echo no space left >&2; exit 3")

    with pytest.raises(
        WorldError, match=r"child ended with status 3 while we waited for a miracle"
    ) as caught:
        child.wait_for(lambda: False, what="a miracle", limit_s=60)

    assert "no space left" in caught.value.what


def test_a_wait_in_vain_says_what_it_waited_for_and_how_long(ledger: Ledger) -> None:
    child = start(ledger, "sleep", "60")

    with pytest.raises(WorldError, match=r"waited 0\.05 s for a miracle, but it did not happen"):
        child.wait_for(lambda: False, what="a miracle", limit_s=0.05)

    child.stop()


def test_a_child_gets_the_variables_it_was_given(ledger: Ledger) -> None:
    child = start(ledger, "sh", "-c", "echo $COLOUR; exec sleep 60", COLOUR="green")

    child.wait_for(lambda: child.log.read_text() == "green\n", what="its colour", limit_s=60)
    child.stop()


@pytest.mark.parametrize(
    ("command", "limit_s", "says"),
    [
        (["floodmark-no-such-program"], 60, "the program floodmark-no-such-program does not exist"),
        (["sh", "-c", "echo why; exit 4"], 60, "ended with status 4\n    why"),
        (["sleep", "60"], 0.1, "did not end within 0.1 s"),
    ],
)
def test_a_command_that_fails_says_what_it_was_for_and_how_it_failed(
    command: list[str], limit_s: float, says: str
) -> None:
    with pytest.raises(WorldError) as caught:
        run_to_end(command, what="trying", limit_s=limit_s, fix="do better")

    assert caught.value.what.startswith("trying: ")
    assert says in caught.value.what
    assert caught.value.fix == "do better"
