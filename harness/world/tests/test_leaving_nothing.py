"""However a world ends, and whoever kills its run, nothing of it is left, and living runs stay whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from harness.system.clock import Deadline, wait_until
from harness.system.process_identity import ProcessIdentity, is_alive, this_owner
from harness.world import containers
from harness.world.ledger import dead_runs, reap
from harness.world.server import ask
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world

pytestmark = [pytest.mark.real, pytest.mark.long]

Kind = tuple[str, str]
"""A world and its proxy."""
Hold = Callable[[Kind], subprocess.Popen[bytes]]

HOLD_A_WORLD = """
import sys
from pathlib import Path
from harness.world.setup.opening import open_world
from harness.world.settings import Places
from harness.world.settings import WorldSettings

settings = WorldSettings.from_environment({"FLOODMARK_CACHE": sys.argv[2], "PATH": sys.argv[3]})
with open_world(sys.argv[1], proxy=sys.argv[4], announce=print, offline=True, settings=settings):
    print("open", flush=True)
    sys.stdin.read()
"""
ROOT = Path(__file__).parents[3]
OPEN_LIMIT_S = 60
"""As long as a loaded machine may take to open a world."""


@pytest.fixture
def hold(own_settings: WorldSettings) -> Iterator[Hold]:
    """Starts a process that opens a world in `own_settings` and holds it."""
    with ExitStack() as stack:

        def start(kind: Kind) -> subprocess.Popen[bytes]:
            command = [
                sys.executable,
                "-c",
                HOLD_A_WORLD,
                kind[0],
                str(own_settings.places.root),
                own_settings.path,
                kind[1],
            ]
            log = stack.enter_context((own_settings.places.root / "holder.log").open("wb"))
            holder = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
            )
            stack.callback(holder.kill)
            return holder

        yield start


def processes_of(settings: WorldSettings) -> list[ProcessIdentity]:
    """Every process that a ledger names."""
    lines = [line for path in settings.places.runs.glob("*.ledger") for line in path.read_text().splitlines()]
    entries = [json.loads(line) for line in lines]
    return [ProcessIdentity(**entry["process"]) for entry in entries if "process" in entry]


def left_over(settings: WorldSettings) -> list[str]:
    """Whatever there is of runs in these places."""
    places = settings.places
    return [str(path) for folder in (places.runs, places.ports) for path in folder.iterdir()]


def is_open(settings: WorldSettings) -> bool:
    """Whether the holder has said that its world is open."""
    return "open\n" in (settings.places.root / "holder.log").read_text()


@pytest.mark.parametrize("ending", [ValueError("a defect"), KeyboardInterrupt()])
def test_a_world_left_by_an_exception_leaves_nothing(
    kind: Kind, own_settings: WorldSettings, ending: BaseException
) -> None:
    seen: list[ProcessIdentity] = []
    before = containers_of_this_process(kind)  # of another test's world, which lasts for its module

    def leave() -> None:
        with open_world(kind[0], proxy=kind[1], announce=print, offline=True, settings=own_settings):
            seen.extend(processes_of(own_settings))
            assert all(is_alive(process) for process in seen)
            raise ending

    with pytest.raises(type(ending)):
        leave()

    processes = {("local", "own"): 2, ("local", "toxiproxy"): 2, ("containers", "own"): 1}
    assert len(seen) == processes.get(kind, 0)
    assert not any(is_alive(process) for process in seen)
    assert left_over(own_settings) == []
    assert containers_of_this_process(kind) == before


def test_a_killed_run_is_cleaned_up_by_the_next_reaper(
    kind: Kind,
    own_settings: WorldSettings,
    hold: Hold,
) -> None:
    holder = hold(kind)
    assert wait_until(lambda: is_open(own_settings), deadline=Deadline(OPEN_LIMIT_S))
    processes = processes_of(own_settings)

    assert reap(own_settings.places, containers.sweep_run) == []  # it lives: not ours to touch
    holder.kill()
    holder.wait()
    (run_id,) = dead_runs(own_settings.places)
    (found,) = reap(own_settings.places, containers.sweep_run)

    assert found.run_id == run_id
    assert found.left == ()
    assert not any(is_alive(process) for process in processes)
    assert left_over(own_settings) == []
    assert containers_of(kind, f"floodmark.run={run_id}") == []


@pytest.mark.parametrize("kind", [("containers", "own")], ids="-".join, indirect=True)
def test_processes_that_start_at_once_share_the_containers_of_a_killed_run(
    kind: Kind, own_settings: WorldSettings, hold: Hold
) -> None:
    holder = hold(kind)
    assert wait_until(lambda: is_open(own_settings), deadline=Deadline(OPEN_LIMIT_S))
    holder.kill()
    holder.wait()
    (run_id,) = dead_runs(own_settings.places)

    with ThreadPoolExecutor(4) as reapers:
        removed = [line for lines in reapers.map(containers.sweep_run, [run_id] * 4) for line in lines]

    assert len(set(removed)) == len(removed)
    assert containers_of(kind, f"floodmark.run={run_id}") == []
    reap(own_settings.places, containers.sweep_run)


@pytest.mark.parametrize("children", [0, 1, 2])
def test_a_run_killed_while_its_world_opens_leaves_nothing_unknown(
    kind: Kind,
    own_settings: WorldSettings,
    hold: Hold,
    children: int,
) -> None:
    """Killed as soon as it has so many processes (or, in containers, reserved so many ports more than one)."""
    holder = hold(kind)
    assert wait_until(
        lambda: has_made(own_settings, children, kind=kind), deadline=Deadline(OPEN_LIMIT_S), every_s=0.001
    )

    holder.kill()
    holder.wait()
    processes = processes_of(own_settings)
    reap(own_settings.places, containers.sweep_run)

    assert not any(is_alive(process) for process in processes)
    assert wait_until(lambda: working_in(own_settings.places.root) == [], deadline=Deadline(60))
    assert left_over(own_settings) == []


def working_in(folder: Path) -> list[str]:
    """The processes whose command names a folder, whatever any ledger says."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [" ".join(command) for command in commands if any(str(folder) in word for word in command)]


def has_made(settings: WorldSettings, children: int, *, kind: Kind) -> bool:
    """Whether the run has come as far as the test wants it to."""
    if kind[0] == "local":
        ledgers = list(settings.places.runs.glob("*.ledger"))
        return bool(ledgers) and len(processes_of(settings)) >= children
    return len(list(settings.places.ports.iterdir())) > children


def test_two_worlds_at_once_do_not_disturb_each_other(kind: Kind, own_settings: WorldSettings) -> None:
    with ExitStack() as outer:
        first = outer.enter_context(
            open_world(kind[0], proxy=kind[1], announce=print, offline=True, settings=own_settings)
        )
        with open_world(
            kind[0], proxy=kind[1], announce=print, offline=True, settings=own_settings
        ) as second:
            ports = [
                world_port.port
                for world in (first, second)
                for world_port in [world.direct, *world.links.values()]
            ]
            assert len(set(ports)) == len(ports)
            ask(second.direct, second.root, "CREATE TABLE floodmark.only_here (id INT)")
            second.proxy.disable("lookups")
            assert ask(first.links["lookups"], first.app, "SHOW TABLES") == []
        assert ask(first.links["sink"], first.app, "SELECT 1") == [(1,)]

    assert left_over(own_settings) == []


def test_a_process_that_a_run_enrols_does_not_outlive_it(kind: Kind, own_settings: WorldSettings) -> None:
    with open_world(kind[0], proxy=kind[1], announce=print, offline=True, settings=own_settings) as world:
        child = subprocess.Popen(["sleep", "60"])
        world.enrol(child.pid)

    assert child.wait(timeout=60) is not None


def containers_of_this_process(kind: Kind) -> list[object]:
    """The containers and networks of this process's runs."""
    ours = json.dumps(asdict(this_owner()))
    return containers_of(kind, f"floodmark.owner={ours}")


def containers_of(kind: Kind, label: str) -> list[object]:
    """The containers and networks that carry a label."""
    if kind[0] != "containers":
        return []
    client = containers.find_engine(WorldSettings.from_environment()).client
    wanted = {"label": label}
    return [*client.containers.list(all=True, filters=wanted), *client.networks.list(filters=wanted)]
