"""The ledger of a run: the list of every process, folder, mount, port and container that the run makes.

Invariants: a thing is written before it exists or in the act of its creation, so a SIGKILL at any moment
leaves nothing unlisted; no other process touches the ledger of a living owner; exactly what is listed is
removed, processes by pid and start time, containers by the run's id in their labels. Why this and not Ryuk:
`docs/decisions/0006-ledger-and-reaper.md`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import SubprocessError

from harness.system.child import Child, answer_of, with_variables
from harness.system.choices import Choices, fresh_seed
from harness.system.errors import WorldError
from harness.system.json_types import JsonView
from harness.system.process_identity import (
    Owner,
    ProcessIdentity,
    end_process,
    identify,
    marked_processes,
    this_owner,
)
from harness.world.server_program import remove_shared_memory
from harness.world.settings import Places, WorldSettings

EngineSweep = Callable[[str], list[str]]
"""Removes the containers and networks of one run (by its id); returns one sentence for each."""

UNMOUNT_LIMIT_S = 10.0
YOUNG = ".young"
"""Suffix of a ledger that does not contain its owner yet."""
CLOSING = ".closing"
"""Suffix of a ledger whose entries are being undone: a child that enrols itself meanwhile finds no ledger."""
ENROL_AND_BECOME = """\
owner=$1
shift
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ started _ </proc/$$/stat &&
printf '{"process":{"pid":%s,"started":%s}}\\n' "$$" "$started" >>"$0" &&
read -r first <"$0" || exit 1
case $first in *owner*) ;; *) rm -f "$0"; exit 1 ;; esac
read -r _ _ _ parent _ </proc/$$/stat || exit 1
[ "$parent" = "$owner" ] || exit 1
exec "$@"
"""
"""Run as `sh -c THIS ledger owner command...`.

Fields 4 and 22 of stat are the parent and the start time; field 2 is `(sh)`, one word. The order matters: if the owner
is still the parent after the line was written, a reaper of the dead owner will read the line. If the owner is gone by
then, or has closed its ledger (renamed it, so that this line stands in a new file), the program must not start, and a
removed ledger must not reappear.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What was removed of one dead run, and what could not be removed; one sentence each."""

    run_id: str
    removed: tuple[str, ...]
    left: tuple[str, ...] = ()


class Ledger:
    """The ledger of this process's run. Mutable: it grows with each thing made."""

    def __init__(self, places: Places, *, ports: range | None = None) -> None:
        """For a new run of this process; nothing is on disk before `begin`. `ports`: take ports from these only."""
        self.places = places
        self.ports = ports
        self.run_id = f"{os.getpid()}-{fresh_seed()}"
        self.path = places.runs / f"{self.run_id}.ledger"
        self.folder = places.runs / self.run_id
        """The run's scratch folder; removed with the run."""

    def begin(self) -> Ledger:
        """Write the ledger, which names this process as its owner, and make the run's scratch folder."""
        self.places.make()
        # Renamed when it names its owner, so a visible ledger always has one.
        _append(self._young, {"owner": asdict(this_owner())})
        self._young.rename(self.path)
        self.note_folder(self.folder)
        self.folder.mkdir(mode=0o700)
        return self

    @property
    def _young(self) -> Path:
        return self.path.with_suffix(YOUNG)

    def start(
        self, command: Sequence[str], *, name: str, log: Path, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start a child, whose output goes to `log`; the command must not contain secrets.

        A small shell writes its own pid and start time into the ledger and then becomes the program, so a SIGKILL of
        this process at any moment leaves no unlisted child.
        """
        enrolled = (str(self.path), str(os.getpid()))
        return Child(
            ["/bin/sh", "-c", ENROL_AND_BECOME, *enrolled, *with_variables(environment), *command],
            name=name,
            output=log,
            cwd=self.folder,
        )

    def note_process(self, pid: int) -> None:
        """List a process that was just started; one that has ended already needs no entry."""
        who = identify(pid)
        if who is not None:
            _append(self.path, {"process": asdict(who)})

    def note_mark(self, mark: str) -> None:
        """List a mark (`NAME=VALUE`) that processes are about to have in their environment.

        They are a job's, and may start others that this process never learns of.
        """
        _append(self.path, {"mark": mark})

    def note_folder(self, folder: Path) -> None:
        """List a folder (or file) that is about to be made."""
        _append(self.path, {"folder": str(folder)})

    def note_mount(self, folder: Path) -> None:
        """List a mount that is about to be made."""
        _append(self.path, {"mount": str(folder)})

    def note_port(self, port: int) -> None:
        """List a port whose lock is about to be taken."""
        _append(self.path, {"port": port})

    def note_engine(self) -> None:
        """List that containers or networks with this run's label are about to be made."""
        _append(self.path, {"engine": True})

    def close(self, sweep: EngineSweep) -> Reaped:
        """Remove everything listed that still exists, then the ledger, even one that `begin` left incomplete."""
        self._young.unlink(missing_ok=True)
        closing = self.path.with_suffix(CLOSING)
        with suppress(FileNotFoundError):  # it was not begun, or an earlier close left something
            self.path.rename(closing)
        return _undo_all(closing, places=self.places, sweep=sweep)


@contextmanager
def open_ledger(settings: WorldSettings, sweep: EngineSweep) -> Iterator[Ledger]:
    """A ledger for the block; nothing of it is left, also if an interruption comes while it is written."""
    ledger = Ledger(settings.places, ports=settings.ports)
    try:
        yield ledger.begin()
    finally:
        ledger.close(sweep)


def reap(places: Places, sweep: EngineSweep) -> list[Reaped]:
    """Remove what dead runs left.

    Living runs and runs of other machines that share the folder are not touched.
    """
    done = []
    for path in _ledgers(places):
        with _sole_reaper(path) as mine:
            if mine and _is_dead(_owner(path)):
                done.append(_undo_all(path, places=places, sweep=sweep))
    return done


def dead_runs(places: Places) -> list[str]:
    """The ids of dead runs that left something; only looks."""
    owners = {path.stem: _owner(path) for path in _ledgers(places)}
    return [run_id for run_id, owner in owners.items() if _is_dead(owner)]


def _ledgers(places: Places) -> list[Path]:
    return sorted(path for suffix in (".ledger", YOUNG, CLOSING) for path in places.runs.glob(f"*{suffix}"))


def _is_dead(owner: Owner | None) -> bool:
    """Whether the owner is certainly dead."""
    return owner is not None and not owner.is_foreign() and not owner.is_alive()


def _undo_all(path: Path, *, places: Places, sweep: EngineSweep) -> Reaped:
    """Undo the entries, last first; remove the ledger if nothing is left."""
    run_id = path.stem
    removed: list[str] = []
    left: list[str] = []
    for entry in reversed(_entries(path)):
        try:
            match entry:  # each tells what was removed, nothing if it was gone already
                case {"process": {"pid": int(pid), "started": int(started)}}:
                    removed += _end_process(ProcessIdentity(pid=pid, started=started))
                case {"mark": str(mark)}:
                    removed += [said for who in marked_processes(mark) for said in _end_process(who)]
                case {"folder": str(folder)}:
                    removed += _remove_folder(Path(folder))
                case {"mount": str(folder)}:
                    removed += _unmount(Path(folder))
                case {"port": int(port)}:
                    lock = places.ports / str(port)
                    # The entry is written before the lock is taken, so the lock may belong to another run.
                    if lock.is_symlink() and str(lock.readlink()) == run_id:
                        lock.unlink()
                        removed.append(f"lock of port {port}")
                case {"engine": True}:
                    removed += sweep(run_id)
        except (WorldError, OSError) as error:
            left.append(str(error))
    if not left:
        path.unlink(missing_ok=True)
    return Reaped(run_id=run_id, removed=tuple(removed), left=tuple(left))


def _end_process(who: ProcessIdentity) -> list[str]:
    removed = [f"process {who.pid}"] if end_process(who) else []
    if identify(who.pid) is None:  # else another process has the number now
        removed += remove_shared_memory(who.pid)
    return removed


def _unmount(folder: Path) -> list[str]:
    if not folder.is_mount():
        return []
    # Lazy: a file that is held open there must not prevent the other entries from being undone.
    try:
        answer_of(["umount", "--lazy", str(folder)], limit_s=UNMOUNT_LIMIT_S).check_returncode()
    except (OSError, SubprocessError) as error:
        raise WorldError(
            f"the disk at {folder} could not be unmounted: {error}", fix=f"umount {folder}"
        ) from error
    return [f"mount {folder}"]


def _remove_folder(folder: Path) -> list[str]:
    if not folder.exists():
        return []
    if folder.is_dir():
        shutil.rmtree(folder)
    else:
        folder.unlink()
    return [f"folder {folder}"]


def _append(path: Path, entry: Mapping[str, object]) -> None:
    """Append one line with one write call, so that a kill leaves only complete lines."""
    line = json.dumps(entry, separators=(",", ":")) + "\n"
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(file, line.encode())
            if written < len(line):
                raise OSError(errno.ENOSPC, "only a part could be written")
        finally:
            os.close(file)
    except OSError as error:
        raise WorldError(
            f"cannot write the run's ledger {path}: {error.strerror}",
            fix="free some space, or set FLOODMARK_CACHE to a folder that you may write to",
        ) from error


def _entries(path: Path) -> list[JsonView]:
    found = []
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:  # its owner removed it meanwhile
        return []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue  # an incomplete line: its thing was not made yet
    return found


def _owner(path: Path) -> Owner | None:
    """The owner in the ledger; None if there is no readable one, and then the run does not count as dead."""
    for entry in _entries(path):
        match entry:
            case {
                "owner": {
                    "process": {"pid": int(pid), "started": int(started)},
                    "boot": boot,
                    "machine": machine,
                }
            }:
                process = ProcessIdentity(pid=pid, started=started)
                return Owner(process=process, boot=str(boot), machine=str(machine))
    return None


@contextmanager
def _sole_reaper(path: Path) -> Iterator[bool]:
    """Yields whether this process is the only one to reap this ledger during the block."""
    try:
        file = path.open("rb")
    except FileNotFoundError:  # another process reaped it meanwhile
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield path.exists()


LOOPBACK = "127.0.0.1"
LOWEST = 20_000
HIGHEST = 65_535
TRIES_MAX = 300
"""How many ports are tried before an error."""


def reserve_port(ledger: Ledger) -> int:
    """Reserve a port of loopback for the ledger's run; it is released with the run.

    It is outside the ephemeral range, from which the kernel could give a port to any client while the proxy that owns
    it has it closed (`docs/reference/references.md`, Measured). Two runs that share a cache never hold the same port.
    """
    candidates = preferred_range() if ledger.ports is None else ledger.ports
    start = Choices(fresh_seed(), "ports").index(len(candidates))
    for step in range(min(len(candidates), TRIES_MAX)):
        port = candidates[(start + step) % len(candidates)]
        if _bindable(port) and _lock(port, ledger=ledger):
            return port
    raise WorldError(
        f"no free port on {LOOPBACK} among {candidates[0]}-{candidates[-1]}: each one tried is taken",
        fix="set FLOODMARK_PORTS to a range with free ports, like 21000-21999",
    )


def preferred_range() -> range:
    """The ports below the kernel's ephemeral range, or above it if there are more."""
    source = Path("/proc/sys/net/ipv4/ip_local_port_range")
    low, high = (int(word) for word in source.read_text().split()) if source.exists() else (49_152, HIGHEST)
    below, above = range(LOWEST, low), range(high + 1, HIGHEST + 1)
    widest = max(below, above, key=len)
    return widest if len(widest) >= TRIES_MAX else range(LOWEST, HIGHEST + 1)


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a port in TIME_WAIT can be bound.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _lock(port: int, *, ledger: Ledger) -> bool:
    """Take the port's lock: a symbolic link to the run's id, which is created atomically."""
    lock = ledger.places.ports / str(port)
    if lock.is_symlink():
        return False
    ledger.note_port(port)
    try:
        lock.symlink_to(ledger.run_id)
    except FileExistsError:
        return False
    return True
