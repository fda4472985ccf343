"""A world that breaks without our doing says so; what a fault does to its server is no such thing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.tests.real_world import real_world
from harness.world.world import World

pytestmark = pytest.mark.real

NOTICE_LIMIT_S = 60.0


@pytest.fixture(params=["own", "toxiproxy"])
def local_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A local world with either proxy, of this test alone, for the test breaks it."""
    with real_world("local", proxy=request.param) as world:
        yield world


def test_a_server_that_a_fault_ends_pauses_and_starts_is_no_error(local_world: World) -> None:
    server = local_world.server
    local_world.look()

    for act in (server.pause, server.resume, server.kill, server.start, server.shut_down, server.start):
        act()
        local_world.look()


def test_a_server_that_somebody_else_ends_is_an_error(local_world: World) -> None:
    pid = local_world.server.state().pid
    assert pid is not None

    with pytest.raises(WorldError, match="ended, and no fault of this run ended it"):
        _end(pid, local_world.look)


def test_a_proxy_that_somebody_else_ends_is_an_error(local_world: World) -> None:
    port = local_world.links["sink"].port
    me = psutil.Process()
    listening = (child.pid for child in me.children() if port in _ports(child))

    with pytest.raises(WorldError, match="proxy ended, and no fault of this run ended it"):
        _end(next(listening), local_world.look)


def _end(pid: int, look: Callable[[], None]) -> None:
    os.kill(pid, signal.SIGKILL)

    def looked() -> bool:
        look()
        return False

    wait_until(looked, deadline=Deadline(NOTICE_LIMIT_S))


def _ports(process: psutil.Process) -> set[int]:
    return {held.laddr.port for held in process.net_connections("tcp") if held.status == psutil.CONN_LISTEN}
