"""The job's side of virtual time: its clock, sockets and event loop lead to the process that has the world.

Runs in a forked child, for one start of the job. Answers to Shadow's and gVisor's system calls, by Python's own doors:
`time`, `socket`, asyncio's event loop policy. Invariants: the job gets no other time and no other network; what it
begins between two waits takes no virtual time; what would lead out (a thread, a process, a socket of another kind, a
library with sockets of its own) ends the run with the line that asked for it.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import ctypes
import gc
import os
import pickle
import random  # noqa: TID251 - the job's own is seeded
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import time  # noqa: TID251 - the door that is replaced
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import takewhile
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, cast

from harness.levels.sim.subtask_loop import CallsAtOnce
from harness.levels.sim.wire import BlockingSocket, WireClient, WireTransport, connection_refused

EPOCH_US: Final = 1_767_225_600_000_000
"""What `time.time()` is when a run begins: 2026-01-01 00:00:00 UTC, as NOW() of the server."""
SIZE: Final = struct.Struct("<I")
READ_MAX: Final = 1 << 16
_HARNESS: Final = str(Path(__file__).resolve().parents[2])
_LIBRARY: Final = str(Path(os.__file__).parent)
_PATH: Final = tuple(sys.path)
"""Where an interpreter that has just started looks for modules."""
_ELSEWHERE: Final = {
    "uvloop": "has an event loop of its own",
    "MySQLdb": "is a client in C with sockets of its own",
    "pyspark": "starts a JVM",
    "bytewax": "runs in threads of its own",
    "quixstreams": "reads a broker",
    "confluent_kafka": "reads a broker",
    "aiokafka": "reads a broker",
}
"""Modules that cannot be followed, and why."""
_IN_C: Final = frozenset({"_mysql_connector"})
"""Modules without which their library takes Python."""


def received(recv: Callable[[int], bytes]) -> bytes | None:
    """The next message of the pipe, whose ends take turns, so that it is the only one; None: the other end has gone."""
    data = b""
    while len(data) < SIZE.size or len(data) < SIZE.size + SIZE.unpack_from(data)[0]:
        read = recv(READ_MAX)
        if not read:
            return None
        data += read
    return data[SIZE.size :]


class Escaped(BaseException):
    """The job has left virtual time; nothing of it may go on."""


class World:
    """The pipe to the process that has clock and network. Mutable."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._recv, self._send = pipe.recv, pipe.sendall
        self.now_us = 0
        self._ops: list[tuple[Any, ...]] = []
        self._number = 0
        self._ends: dict[int, _Remote] = {}

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def wake(self) -> None:
        """Nothing waits while this runs."""

    def does(self, *op: Any) -> None:
        """Told with the next wait: no time passes until then."""
        self._ops.append(op)

    def wait(self, until_ms: int | None) -> None:
        """Until then, or until something arrives."""
        self._exchange("wait", until_ms)

    def sleep(self, seconds: float) -> None:
        due_us = self.now_us + max(0, ceil(seconds * 1e6))
        while self.now_us < due_us:
            self.wait(-(-due_us // 1000))

    def _exchange(self, what: str, argument: object) -> Any:
        ops, self._ops = self._ops, []
        data = pickle.dumps((what, argument, ops), protocol=5)
        self._send(SIZE.pack(len(data)) + data)
        told = received(self._recv)
        if told is None:
            os._exit(1)  # the world has gone
        self.now_us, answer, news = pickle.loads(told)  # noqa: S301 - our own
        for number, kind, value in news:
            if kind == "signal":
                _be_told(value)
            elif number in self._ends:
                self._ends[number].hear(kind, value)
        return answer

    # ---------------------------------------------------------------------------------- connections

    def client(
        self, port: int, deliver: Callable[[bytes], None], lost: Callable[[Exception | None], None]
    ) -> WireClient:
        self._number += 1
        made = self._ends[self._number] = _Remote(self, self._number, port, deliver, lost)
        return made

    def opens(self, number: int, port: int) -> bool:
        """Whether somebody listens there."""
        return bool(self._exchange("connect", (number, port)))

    def forget(self, number: int) -> None:
        self._ends.pop(number, None)

    def ends(self, code: int, modules: Sequence[str]) -> None:
        """The last thing that is said; `modules`: what was imported of what is installed."""
        self._exchange("exit", (code, modules))

    def escapes(self, what: str) -> NoReturn:
        """The job leaves virtual time."""
        line = line_of_job()
        self._exchange("escape", f"the job {what} ({line})")
        raise Escaped(what)


class _Remote:
    """The client's end of a connection: a `WireClient`. Mutable."""

    def __init__(
        self,
        world: World,
        number: int,
        port: int,
        deliver: Callable[[bytes], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        self._world, self._number, self._port = world, number, port
        self._deliver, self._lost = deliver, lost
        self._is_over = False

    def greet(self) -> bool:
        is_there = self._world.opens(self._number, self._port)
        if not is_there:
            self._end(None)
        return not is_there

    def write(self, data: bytes) -> None:
        if not self._is_over:
            self._world.does("send", self._number, data)

    def close(self) -> None:
        if not self._is_over:
            self._world.does("close", self._number)
            self._end(None)

    def hear(self, kind: str, value: bytes) -> None:
        """What has arrived."""
        if kind == "data":
            self._deliver(value)
        else:
            self._end(ConnectionResetError(104, os.strerror(104)) if kind == "reset" else None)

    def _end(self, why: Exception | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._world.forget(self._number)
            self._lost(why)


# --------------------------------------------------------------------------------------- the event loop


class _Selector:
    """What asyncio's loop waits by."""

    def __init__(self, world: World) -> None:
        self._world = world

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            self._world.wait(None)
        elif timeout > 0:
            self._world.wait(self._world.now_ms + max(1, ceil(round(1000 * timeout, 6))))
        return []

    def close(self) -> None: ...


class _Numbered:
    """Its place in a set is by a number and not by its address, so a loop over what `asyncio.wait` returns repeats.

    Mutable: counts.
    """

    _made: ClassVar[int] = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        _Numbered._made += 1
        self._number = _Numbered._made
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class _JobTask(_Numbered, asyncio.Task[Any]): ...


class _JobFuture(_Numbered, asyncio.Future[Any]): ...


class JobLoop(CallsAtOnce):
    """asyncio's own loop, in virtual time. Mutable."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector = _Selector(world)
        self._clock_resolution = 1e-9
        self._signals: dict[int, asyncio.Handle] = {}
        self.set_task_factory(lambda loop, work, **options: _JobTask(work, loop=loop, **options))

    def create_future(self) -> asyncio.Future[Any]:
        return _JobFuture(loop=self)

    def time(self) -> float:
        return self._world.now_us / 1e6

    def _process_events(self, event_list: object) -> None:
        """Nothing: what arrives calls back by itself."""

    def _write_to_self(self) -> None:
        """One thread needs no wake-up."""

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """A connection in the virtual network."""
        if options.get("ssl"):
            self._world.escapes("asks for TLS")
        if options.get("sock") is not None:
            self._world.escapes("connects a socket of its own")
        number = _port_of(self._world, host, port)
        transport = WireTransport(self, lambda deliver, lost: self._world.client(number, deliver, lost))
        protocol = protocol_factory()
        if transport.client.greet():
            await transport.lost
            raise connection_refused()
        transport.begin(protocol)
        return transport, protocol

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        handle = self._signals[sig] = asyncio.Handle(callback, args, self)
        signal.signal(sig, lambda *_: None if handle.cancelled() else self._ready.append(handle))

    def remove_signal_handler(self, sig: int) -> bool:
        handle = self._signals.pop(sig, None)
        if handle is not None:
            handle.cancel()
            signal.signal(sig, signal.SIG_DFL)
        return handle is not None

    def __getattribute__(self, name: str) -> Any:
        if name not in _NOT_IN_THE_LOOP:
            return super().__getattribute__(name)

        def refuse(*_: Any, **__: Any) -> NoReturn:
            self._world.escapes(_NOT_IN_THE_LOOP[name])

        return refuse


_NOT_IN_THE_LOOP: Final = {
    "create_server": "listens",
    "create_unix_server": "listens",
    "create_unix_connection": "connects to a Unix socket",
    "create_datagram_endpoint": "opens a datagram socket",
    "start_tls": "asks for TLS",
    "subprocess_exec": "starts a process",
    "subprocess_shell": "starts a process",
    "add_reader": "watches a descriptor",
    "add_writer": "watches a descriptor",
    "sock_connect": "connects a socket of its own",
    "sock_recv": "reads a socket of its own",
    "sock_sendall": "writes to a socket of its own",
    "connect_read_pipe": "reads a pipe",
    "connect_write_pipe": "writes to a pipe",
}


class _Policy(asyncio.DefaultEventLoopPolicy):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def new_event_loop(self) -> JobLoop:
        return JobLoop(self._world)


# -------------------------------------------------------------------------------------------- the doors


def _port_of(world: World, host: object, port: object) -> int:
    if host not in {"127.0.0.1", "localhost"} or not isinstance(port, int | str) or not str(port).isdigit():
        world.escapes(f"connects to {host}:{port}")
    return int(port)


def line_of_job() -> str:
    """The innermost line of the job's own code, or of a library if none of its own is on the stack."""
    frames = [frame for frame, _ in traceback.walk_stack(None)]
    own = [one for one in frames if not _is_installed(one.f_code.co_filename)]
    frame = (own or frames)[0]
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_installed(file: str) -> bool:
    return file.startswith((_HARNESS, "<", _LIBRARY)) or "site-packages" in file or "dist-packages" in file


def _be_told(number: int) -> None:
    """A signal, at the instant at which the world sends it."""
    handler = signal.getsignal(number)
    if callable(handler):
        handler(number, sys._getframe())  # noqa: SLF001 - as the interpreter calls it
    elif handler is not signal.SIG_IGN:
        os.kill(os.getpid(), number)
        signal.pause()


def _take_doors(world: World) -> None:
    """From here on the job has the time and the network of `world`, and nothing else."""
    times: dict[str, Callable[..., Any]] = {
        "time": lambda: (EPOCH_US + world.now_us) / 1e6,
        "time_ns": lambda: 1000 * (EPOCH_US + world.now_us),
        "monotonic": lambda: world.now_us / 1e6,
        "monotonic_ns": lambda: 1000 * world.now_us,
        "perf_counter": lambda: world.now_us / 1e6,
        "perf_counter_ns": lambda: 1000 * world.now_us,
        "sleep": world.sleep,
    }
    for name, function in times.items():
        setattr(time, name, function)
    _tell_calendar()

    def create_connection(
        address: tuple[Any, Any], timeout: Any = None, *_: Any, **__: Any
    ) -> BlockingSocket:
        port = _port_of(world, *address[:2])
        limit_s = float(timeout) if isinstance(timeout, int | float) else None
        return BlockingSocket(world, lambda deliver, lost: world.client(port, deliver, lost), limit_s=limit_s)

    def refusing(what: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> NoReturn:
            world.escapes(what)

        return refuse

    doors: Any = socket
    doors.create_connection = create_connection
    doors.socket.connect = refusing("connects a socket of its own")
    doors.socket.connect_ex = doors.socket.bind = doors.socket.connect
    threads: Any = threading.Thread
    threads.start = refusing("starts a thread")
    os.fork = refusing("forks")
    _refuse_processes(world)
    _refuse_imports(world)
    in_turn = asyncio.as_completed

    def as_completed(fs: Iterable[Any], *, timeout: float | None = None) -> Iterator[Any]:
        """A set of coroutines has the order of their addresses; a set of tasks has not (see `_Numbered`)."""
        return in_turn([asyncio.ensure_future(one) for one in dict.fromkeys(fs)], timeout=timeout)

    asyncio.as_completed = asyncio.tasks.as_completed = as_completed
    asyncio.set_event_loop_policy(_Policy(world))
    asyncio.set_event_loop(None)


def _tell_calendar() -> None:
    """What reads the clock in C, in this process alone: `datetime.now` and the functions of `time` without an instant.

    The class itself is changed, so that every module has it, however it was imported.
    """
    for name in ("gmtime", "localtime", "ctime"):
        really = getattr(time, name)
        setattr(time, name, lambda secs=None, really=really: really(time.time() if secs is None else secs))
    write, doors = time.strftime, cast("Any", time)
    doors.strftime = lambda form, *when: write(form, *(when or (time.localtime(),)))
    (methods,) = gc.get_referents(datetime.__dict__)
    methods["now"] = classmethod(lambda cls, tz=None: cls.fromtimestamp(time.time(), tz))
    methods["utcnow"] = classmethod(lambda cls: cls.utcfromtimestamp(time.time()))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))


def _be_drawn(seed: int) -> None:
    """What the job takes for chance: `random`, and apart from it `os.urandom`, of which are `uuid4` and `secrets`."""
    random.seed(seed)
    of_system = random.Random(f"urandom {seed}").randbytes
    for door, name in ((os, "urandom"), (random, "_urandom")):
        setattr(door, name, of_system)


def _refuse_processes(world: World) -> None:
    """A process that a library starts and waits for is let be: mysql.connector asks `lsb_release`."""
    really = subprocess.Popen.__init__

    def start(self: Any, *args: Any, **options: Any) -> None:
        frames = (frame.f_code.co_filename for frame, _ in traceback.walk_stack(None))
        caller = next((file for file in frames if file not in {subprocess.__file__, __file__}), __file__)
        if not _is_installed(caller):
            world.escapes("starts a process")
        really(self, *args, **options)

    opened: Any = subprocess.Popen
    opened.__init__ = start


def _refuse_imports(world: World) -> None:
    really = builtins.__import__

    def load(name: str, *args: Any, **options: Any) -> Any:
        top = name.partition(".")[0]
        if top in _IN_C:
            raise ImportError(f"{top} has sockets of its own, which virtual time cannot follow")
        if top in _ELSEWHERE:
            world.escapes(f"imports {top}, which {_ELSEWHERE[top]}")
        return really(name, *args, **options)

    builtins.__import__ = load


# ----------------------------------------------------------------------------------------- one start


def live(
    pipe: socket.socket,
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    seed: int,
    own: Sequence[str],
) -> NoReturn:
    """The life of one start: runs the Python program of `command`, and ends this process.

    `own`: what `own_modules` returned before the fork.
    """
    code = 1
    try:
        os.closerange(3, pipe.fileno())  # what the world's process has open
        os.closerange(pipe.fileno() + 1, 1 << 12)
        _be_a_process(folder, environment, log)
        for name in own:
            sys.modules.pop(name, None)
        newest = next(reversed(sys.modules))
        _be_drawn(seed)
        world = World(pipe)
        world.wait(0)  # the first instant
        _take_doors(world)
        code = _code_of(lambda: _run(command))
        _run_exit_handlers()
        sys.stdout.flush()
        sys.stderr.flush()
        new = {name: sys.modules[name] for name in takewhile(newest.__ne__, reversed(sys.modules))}
        files = {name: getattr(module, "__file__", None) or "" for name, module in new.items()}
        world.ends(code, sorted(name for name, file in files.items() if "site-packages" in file))
    except BaseException:  # noqa: BLE001 - it is told in the job's log, and the process ends
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _be_a_process(folder: Path, environment: Mapping[str, str], log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.setsid()
    os.chdir(folder)
    os.environ.clear()  # noqa: TID251 - the job's own
    os.environ.update(environment)  # noqa: TID251
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit._clear()  # noqa: SLF001 - the handlers are those of the world's process
    sys.path[:] = _PATH


def _run(command: Sequence[str]) -> None:
    """As `python PROGRAM ARGUMENTS`, `python -m MODULE` or `python -c CODE`."""
    words = list(command[1:])
    while words and words[0] in {"-u", "-B", "-P"}:
        words.pop(0)
    sys.modules["__main__"].__dict__.pop("__file__", None)
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as the interpreter does
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")


def _code_of(work: Callable[[], None]) -> int:
    try:
        work()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130
    except Escaped:
        raise
    except BaseException:  # noqa: BLE001 - as the interpreter does
        _print_error()
        return 1
    return 0


def _print_error() -> None:
    """The traceback, without what is ours."""
    kind, error, at = sys.exc_info()
    while at is not None and _is_installed(at.tb_frame.f_code.co_filename):
        at = at.tb_next
    traceback.print_exception(kind, error, at)


def _run_exit_handlers() -> None:
    """The job's own, as the interpreter does."""
    try:
        atexit._run_exitfuncs()  # noqa: SLF001
    except BaseException:  # noqa: BLE001
        traceback.print_exc()


def is_python(command: Sequence[str]) -> bool:
    """Whether `command` is a program for this interpreter."""
    name = Path(command[0]).name
    return command[0] == sys.executable or name.startswith("python")


@cache
def own_modules(count: int) -> Sequence[str]:
    """The modules of this process that each start imports anew, such as what `claims.expected` is imported from.

    `count`: how many modules there are, so that it looks anew when there are more. Called before the fork: a child that
    looks at each of them copies a third of the memory.
    """
    del count
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return [name for name, file in files.items() if file is not None and not _is_installed(file)]


def preload(modules: Sequence[str]) -> None:
    """Import what the job imports of what is installed, so that its starts need not."""
    for name in modules:
        try:
            import_module(name)
        except Exception:  # noqa: BLE001, S112 - the job will tell
            continue
