"""A process that makes runs in virtual time, beside a harness that may have threads.

Started by `python -m` with this module's name. Invariants: it has one thread, since it forks, and a fixed hash seed, so
that a job which iterates over a set does so alike in each run; it ends when its input does.

    harness -> host   pickled calls: ("open", ServerAt), ("play", order, place), ("calm", order)
    host -> harness   pickled ("phase", name, text), and then ("done", result) or ("failed", error)
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from harness.engine.level import Observer, Opening, OutsideRecord, RunSite, Stop
from harness.levels.job.job_run import Pace
from harness.levels.job.order import JobOrder
from harness.levels.job.traffic import Message
from harness.levels.virtual.plays import PlaysHere
from harness.levels.virtual.world import ServerAt
from harness.sut.user_code import take_path
from harness.system.child import PYTHON, Child
from harness.system.errors import HarnessError

_SIZE: Final = struct.Struct("<Q")
_END_S: Final = 5.0
_YOUNG: Final = 50_000
"""How many objects are made between two collections; by default a tenth of the time goes into these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run is made, and for how long."""

    folder: Path
    limit_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmTold:
    """What a sweep needs of a calm twin."""

    messages: tuple[Message, ...]
    pace: Pace


class Host:
    """The harness's end. Mutable: one call at a time."""

    def __init__(self, server: ServerAt, *, folder: Path, note_process: Callable[[int], None]) -> None:
        self._child = Child(
            [*PYTHON, __name__],
            name="the process of runs in virtual time",
            talks=True,
            output=-1,
            errors=folder / f"host-{id(self)}.log",
            environment={**os.environ, "PYTHONHASHSEED": "0"},  # noqa: TID251 - that of this process
        )
        note_process(self._child.pid)
        self._call(Observer(), None, "open", server)

    def play(self, order: JobOrder, place: Place, *, observer: Observer, stop: Stop) -> OutsideRecord:
        """Makes a run. Raises what it raises there."""
        made: OutsideRecord = self._call(observer, stop, "play", order, place)
        return made

    def calm(self, order: JobOrder, *, observer: Observer) -> CalmTold:
        made: CalmTold = self._call(observer, None, "calm", order)
        return made

    def close(self) -> None:
        self._child.end(grace_s=_END_S)
        self._child.close_pipes()

    def _call(self, observer: Observer, stop: Stop | None, *words: Any) -> Any:
        child, is_told = self._child, False
        assert child.input is not None and child.output is not None  # noqa: PT018 - it was started with pipes
        write(child.input, words)
        while True:
            if stop is not None and stop.is_set() and not is_told:
                is_told = True
                child.signal(signal.SIGTERM)
            told = read(child.output, wait_s=0.2)
            if told is _SILENT:
                continue
            if told is None:
                message = f"the process of runs in virtual time has ended{child.last_words()}"
                raise HarnessError(message, fix="please report it, with the command")
            match told:
                case ("phase", name, text):
                    observer.phase(name, text)
                case ("done", result):
                    return result
                case ("failed", error):
                    raise error


_SILENT: Final = object()


def write(pipe: IO[bytes], words: object) -> None:
    data = pickle.dumps(words, protocol=5)
    pipe.write(_SIZE.pack(len(data)) + data)
    pipe.flush()


def read(pipe: IO[bytes], *, wait_s: float | None = None) -> Any:
    """What was written; None at the end; `_SILENT` if nothing came for `wait_s`."""
    if wait_s is not None and not select.select([pipe], [], [], wait_s)[0]:
        return _SILENT
    head = _whole(pipe, _SIZE.size)
    data = None if head is None else _whole(pipe, _SIZE.unpack(head)[0])
    return None if data is None else pickle.loads(data)  # noqa: S301 - our own process


def _whole(pipe: IO[bytes], size: int) -> bytes | None:
    """Unbuffered, since `select` must see what is left."""
    found = bytearray()
    while len(found) < size:
        part = os.read(pipe.fileno(), size - len(found))
        if not part:
            return None
        found += part
    return bytes(found)


# ------------------------------------------------------------------------------------------- in the host


class _Tells(Observer):
    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def phase(self, name: str, text: str) -> None:
        write(self._pipe, ("phase", name, text))


def main() -> None:
    gc.set_threshold(_YOUNG)
    reads = os.fdopen(os.dup(0), "rb", buffering=0)
    writes = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what anything prints is no answer
    stop = Stop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    plays: PlaysHere | None = None
    while (words := read(reads)) is not None:
        stop.clear()
        try:
            match words:
                case ("open", at):
                    plays = PlaysHere(opening=Opening(), at=at)
                    result: object = None
                case (what, order, *rest):
                    take_path(order.import_path)
                    assert plays is not None, "it is opened first"
                    place = rest[0] if rest else Place(folder=Path(), limit_s=None)
                    site = RunSite(
                        run_id=f"v{os.getpid():010}",
                        folder=place.folder,
                        limit_s=place.limit_s,
                        observer=_Tells(writes),
                        stop=stop,
                    )
                    if what == "play":
                        result = plays(order, site)
                    else:
                        twin = plays.calm_twin(order, site)
                        result = CalmTold(messages=twin.messages, pace=twin.pace)
        except Exception as error:  # noqa: BLE001 - raised again by the harness
            write(writes, ("failed", _picklable(error)))
        else:
            write(writes, ("done", result))


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - written here
    except Exception:  # noqa: BLE001
        return HarnessError(f"{type(error).__name__}: {error}", fix="please report it, with the command")
    return error


if __name__ == "__main__":
    # The classes that are pickled are those of the module by its name.
    import_module(__spec__.name).main()
