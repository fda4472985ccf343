"""A run that is killed while its server stands still on a full disk of its own leaves neither of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.system.clock import Deadline, wait_until
from harness.tests.real_world import require_world
from harness.world.containers import find_engine, sweep_run
from harness.world.ledger import reap
from harness.world.mysql_server import no_small_disk
from harness.world.settings import WorldSettings

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

HOLD_A_STOPPED_SERVER_ON_A_FULL_DISK = """
import sys
from harness.world.setup.opening import open_world
from harness.world.settings import WorldSettings

settings = WorldSettings.from_environment({"FLOODMARK_CACHE": sys.argv[2], "PATH": sys.argv[3]})
needs = frozenset({"small-disk"})
with open_world(sys.argv[1], proxy="own", announce=print, offline=True, settings=settings, needs=needs) as world:
    world.server.fill_disk()
    world.server.pause()
    print("open", flush=True)
    sys.stdin.read()
"""
ROOT = Path(__file__).parents[3]
OPEN_LIMIT_S = 90


@pytest.fixture
def killed_run(kind: str, own_settings: WorldSettings) -> str:
    """The id of a run that was killed so."""
    command = [sys.executable, "-c", HOLD_A_STOPPED_SERVER_ON_A_FULL_DISK, kind]
    command += [str(own_settings.places.root), own_settings.path]
    log = own_settings.places.root / "holder.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output) as holder,
    ):
        wait_until(
            lambda: "open\n" in log.read_text() or holder.poll() is not None, deadline=Deadline(OPEN_LIMIT_S)
        )
        assert "open\n" in log.read_text(), log.read_text()
        run_id = next(own_settings.places.runs.glob("*.ledger")).stem
        if kind == "containers":  # while it lives, for then nobody else may take it
            assert f"floodmark-{run_id}" in volumes(own_settings)
        holder.kill()
    return run_id


def volumes(settings: WorldSettings) -> list[str]:
    """The names of the engine's volumes."""
    return [volume.name for volume in find_engine(settings).client.volumes.list()]


@pytest.fixture(params=["local", "containers"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of world whose server can have a small disk here."""
    chosen: str = request.param
    require_world(chosen, "own", settings=WorldSettings.from_environment())
    if chosen == "local" and no_small_disk():
        pytest.skip(no_small_disk())
    return chosen


def test_the_reaper_takes_both(kind: str, killed_run: str, own_settings: WorldSettings) -> None:
    reaped = reap(own_settings.places, sweep_run)

    assert [run.run_id for run in reaped] == [killed_run]
    assert reaped[0].left == ()
    if kind == "local":
        assert f"mount {own_settings.places.runs / killed_run / 'disk'}" in reaped[0].removed
    else:  # another process of ours that starts meanwhile may have been the one that removed it
        assert f"floodmark-{killed_run}" not in volumes(own_settings)
    assert not list(own_settings.places.runs.iterdir())
    assert str(own_settings.places.root) not in Path("/proc/mounts").read_text()
