"""The database server of the containers world: a container that faults can kill, stop, pause and start.

Invariants: it is published on a fixed port of loopback, the same after each start; a small disk is a volume in memory
that a second container keeps alive, so it survives a stop of the server; a container that ended without a fault is an
error that quotes the end of its log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from docker.errors import DockerException  # type: ignore[import-untyped]  # it ships no types
from docker.types import Mount  # type: ignore[import-untyped]  # it ships no types
from requests.exceptions import RequestException

from harness.faults.real.server_control import ServerState
from harness.system.clock import Deadline, pause, wait_until
from harness.system.errors import WorldError
from harness.world.containers.engine import Engine, brief
from harness.world.server import lacking

SHUT_DOWN_LIMIT_S = 30
"""After that time the engine kills it."""
END_LIMIT_S = 20.0
FREEZE_LIMIT_S = 5.0
POLL_S = 0.02
ASKED_MAX = 10
"""How often a program is run again whose output did not come: a busy engine loses it (docker/docker-py#2042)."""
DATA = "/var/lib/mysql"
HELD = "/floodmark-disk"
"""Where the second container mounts the volume; the image's own data folder stays visible beside it."""
BALLAST = f"{HELD}/floodmark-ballast"
SMALL_BYTES = 320 * 1024 * 1024
"""Room for the data folder (105 to 200 MB) and what a run may write before a fault fills the disk."""
RUNNING = frozenset({"running", "paused", "restarting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallVolume:
    """A disk in memory for the server's data, and the container that keeps it alive."""

    holder: Any
    mount: Mount

    def copy_own_data(self) -> None:
        """Copy the image's data folder to the volume, with its owners and permissions."""
        same = f"--reference={DATA} {HELD}"
        self._run(f"cp -a {DATA}/. {HELD}/ && chown {same} && chmod {same}")

    def fill(self) -> int:
        """Fill the disk, from the second container; returns the bytes taken."""
        before = self._free_bytes()
        self._run(f"head --bytes 1T /dev/zero >{BALLAST} 2>/dev/null || true")
        return before - self._free_bytes()

    def empty(self) -> None:
        """Free the space again."""
        self._run(f"rm -f {BALLAST}")

    def _free_bytes(self) -> int:
        for _ in range(ASKED_MAX):
            if words := self._run(f"df --output=avail -k {HELD}").split():
                return 1024 * int(words[-1])
        raise WorldError(f"the engine gave no output of df beside the server, asked {ASKED_MAX} times")

    def _run(self, script: str) -> str:
        with _asked("the engine could not act on the server's small disk"):
            code, output = self.holder.exec_run(["sh", "-c", script])
        if code != 0:
            raise WorldError(f"{script!r} ended with status {code} beside the server: {output.decode()}")
        return str(output.decode())


def make_small_volume(engine: Engine, image: str, *, name: str, labels: Mapping[str, str]) -> SmallVolume:
    """Create a volume with a copy of the image's data; it is removed by its labels like everything of a world."""
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={SMALL_BYTES}"}
    with _asked("the engine could not make a small disk for the server"):
        engine.client.volumes.create(name=name, driver="local", driver_opts=options, labels=dict(labels))
        held = Mount(target=HELD, source=name, type="volume")
        holder = engine.client.containers.create(
            image, entrypoint=["sleep", "infinity"], mounts=[held], labels=dict(labels)
        )
        holder.start()
    volume = SmallVolume(holder=holder, mount=Mount(target=DATA, source=name, type="volume"))
    volume.copy_own_data()
    return volume


class ContainerMachine:
    """A `harness.world.server.Machine` over a container."""

    def __init__(
        self,
        container: Any,
        *,
        volume: SmallVolume | None,
        wait: Callable[[Callable[[], bool], str, Deadline], None],
    ) -> None:
        self._container = container
        self._volume = volume
        self._wait = wait
        self._ended_by_us = False

    def kill(self) -> None:
        """SIGKILL through the engine, which works on a paused container too."""
        self._ended_by_us = True
        with _asked("the engine could not kill the server's container"):
            self._container.kill()
        self._await_end()

    def shut_down(self) -> None:
        """SIGTERM, then SIGKILL if it does not end in time."""
        self._ended_by_us = True
        with _asked("the engine could not stop the server's container"):
            self._container.stop(timeout=SHUT_DOWN_LIMIT_S)
        self._await_end()

    def _await_end(self) -> None:
        if not wait_until(
            lambda: self._status() not in RUNNING, deadline=Deadline(END_LIMIT_S), every_s=POLL_S
        ):
            raise WorldError(f"the server's container had not ended after {END_LIMIT_S:g} s")

    def start(self) -> None:
        """Start the same container: same port, same data."""
        with _asked("the engine could not start the server's container again"):
            self._container.start()
        self._ended_by_us = False

    def pause(self) -> None:
        """Pause the container with the engine's freezer, which on a busy machine may need several tries.

        With cgroup v1 freezing is a game of chance (opencontainers/runc, pull request 2791).
        """
        deadline = Deadline(FREEZE_LIMIT_S)
        while self._status() == "running":
            try:
                with _asked("the engine could not pause the server's container"):
                    self._container.pause()
            except WorldError:
                if deadline.passed:
                    raise
                pause(POLL_S)

    def resume(self) -> None:
        """Unfreeze the container."""
        if self._status() == "paused":
            with _asked("the engine could not resume the server's container"):
                self._container.unpause()

    def look(self) -> ServerState:
        """The current start of the container and whether it is paused.

        Raises WorldError if it ended without a fault.
        """
        status = self._status()
        if status in RUNNING:
            state = self._container.attrs["State"]
            paused = status == "paused"
            return ServerState(
                start=str(state["StartedAt"]), paused=paused, pid=int(state["Pid"]), uptime_s=None
            )
        if not self._ended_by_us:
            raise WorldError(
                f"the server's container is {status}, and no fault of this run ended it{self._last_words()}",
                fix="its log says why; run it again with --keep always to have it whole",
            )
        return ServerState(start=None, paused=False, pid=None, uptime_s=None)

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait for `condition`. If the container ends, raises WorldError with the end of its log."""
        self._wait(condition, what, Deadline(limit_s))

    def fill_disk(self) -> int:
        """Fill the free space with a ballast file."""
        if self._volume is None:
            raise lacking("a small disk")
        return self._volume.fill()

    def free_disk(self) -> None:
        """Remove the ballast file."""
        if self._volume is None:
            raise lacking("a small disk")
        self._volume.empty()

    def shift_clock(self, shift_ms: int) -> None:
        """Always raises: no image of ours has the library."""
        raise lacking(f"a clock that can be shifted by {shift_ms} ms")

    def _status(self) -> str:
        with _asked("the engine does not report the state of the server's container"):
            self._container.reload()
        return str(self._container.status)

    def _last_words(self) -> str:
        with _asked("the engine does not give the log of the server's container"):
            lines = self._container.logs(tail=8).decode(errors="replace").splitlines()
        return "".join(f"\n    {line}" for line in lines)


def containers_server_lacks(*, flavour: str) -> dict[str, str]:
    """For each ability that a containers world with this server lacks: what would have it."""
    lacks = {"server-clock": "a server whose clock a library shifts: run with --world local"}
    if flavour == "mariadb":
        lacks["offline-mode"] = (
            "a MySQL server, and the image is MariaDB: name another in FLOODMARK_MYSQL_IMAGE"
        )
    return lacks


@contextmanager
def _asked(failure: str) -> Iterator[None]:
    """Turn an error of the engine into a WorldError."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise WorldError(f"{failure}: {brief(error)}", fix="see the engine's log") from error
