"""A user's lookup that is an object: made, opened, called on the loop or on threads, and closed; once per attempt.

Answers to `open` and `close` of Flink's `RichAsyncFunction`. Invariants: no method of an object whose `__call__` blocks
runs on the task's thread; what `open` or `close` raises is an error of the lookup, told with its line; every wait is
bounded, and a call that goes on after `close` is an error too.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from traceback import walk_tb
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn

from harness.database.endpoint import Endpoint
from harness.system.errors import SutError
from reference_impl.errors import OperatorError

_OPEN_S: Final = 30.0
_CLOSE_S: Final = 10.0
_THREADS_S: Final = 15.0
"""How long calls on threads may go on after `close`; as long as the read timeout that a client should have."""


class LookupFailed(OperatorError):
    """`open` or `close` of the lookup failed, or its threads do not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectForm:
    """What can be told of a lookup object, or of its class, without making or calling one."""

    is_class: bool
    code: CodeType
    """The code of its `__call__`."""
    blocks: bool
    """Its `__call__` is a plain `def`, so it runs on threads."""
    takes_pool: bool
    open_takes: int
    """How many arguments its `open` takes; -1: it has no `open`."""
    has_close: bool

    @property
    def connects_itself(self) -> bool:
        """Whether it gets the database, so that the harness does not see what its client meets."""
        return self.open_takes > 0

    @property
    def needs_a_server(self) -> bool:
        """Whether nothing but its own client reaches the database, so a simulated one does not do."""
        return self.connects_itself and not self.takes_pool


def form_of(
    found: object, name: str, *, takes_pool: Callable[[Callable[..., object]], bool | None]
) -> ObjectForm | None:
    """The form of an object with `__call__`, or of a class of such objects; None: it is neither.

    `takes_pool` tells it from a callable's signature. Raises SutError, with the line to write, if it cannot be driven.
    """
    is_class = isinstance(found, type)
    kind = found if isinstance(found, type) else type(found)
    call = _method(kind, "__call__")
    if call is None or inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        return None
    if is_class and _needs_arguments(kind):
        message = f"--sut {name} is a class whose objects need arguments"
        raise SutError(
            message, fix=f"write `lookup = {kind.__name__}(...)` in its module, and --sut MODULE:lookup"
        )
    takes = takes_pool(partial(call, None))
    if takes is None:
        message = f"--sut {name}: `__call__` has other parameters than a lookup"
        raise SutError(message, fix="write `async def __call__(self, record, pool)` or `(self, record)`")
    blocks = not inspect.iscoroutinefunction(call)
    if blocks and takes:
        message = f"--sut {name}: `def __call__` blocks, and the pool's calls must be awaited"
        raise SutError(
            message, fix="write `async def __call__(self, record, pool)`, or `def __call__(self, record)`"
        )
    return ObjectForm(
        is_class=is_class,
        code=call.__code__,
        blocks=blocks,
        takes_pool=takes,
        open_takes=_open_takes(kind, name),
        has_close=_method(kind, "close") is not None,
    )


def _method(kind: type, name: str) -> FunctionType | None:
    """The method `name` as Python code of the class or of one above it."""
    found = next((vars(above)[name] for above in kind.__mro__ if name in vars(above)), None)
    return found if isinstance(found, FunctionType) else None


def _needs_arguments(kind: type) -> bool:
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return True
    return False


def _open_takes(kind: type, name: str) -> int:
    method = _method(kind, "open")
    if method is None:
        return -1
    for arguments in (1, 0):
        try:
            inspect.signature(method).bind(None, *[None] * arguments)
        except TypeError:
            continue
        return arguments
    message = f"--sut {name}: `open` has other parameters than the database"
    raise SutError(message, fix="write `async def open(self, database)`")


class LookupObject:
    """The object of one attempt. Mutable: it is made by `open`, and its threads end with `close`."""

    def __init__(self, found: object, form: ObjectForm) -> None:
        self._found: Any = found
        self._form = form
        self._made: Any = None if form.is_class else found
        self._threads: ThreadPoolExecutor | None = None
        self._thread_of_life: ThreadPoolExecutor | None = None
        """For `open` and `close`, which do not wait for calls."""
        self._calls: dict[Future[object], None] = {}
        """The calls that threads were asked for and have not ended."""

    async def open(self, database: Endpoint, *, threads: int) -> None:
        """Makes the object if it is a class, and calls its `open`. Raises LookupFailed.

        `threads`: how many calls of a blocking lookup run at a time.
        """
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lookup")
        self._thread_of_life = ThreadPoolExecutor(1, thread_name_prefix="lookup's life")
        await self._step("open", partial(self._begin, database), limit_s=_OPEN_S)

    async def _begin(self, database: Endpoint) -> None:
        if self._form.is_class:
            self._made = self._found()
        if self._form.open_takes >= 0:
            given = [database if database.host else _NoServer()] if self._form.open_takes else []
            await self._run(self._thread_of_life, self._made.open, *given)

    async def call(self, record: object, pool: object) -> object:
        """One call of the object; raises what it raises."""
        if self._form.takes_pool:
            return await self._made(record, pool)
        return await self._run(self._threads, self._made, record)

    async def close(self, *, has_failed: bool = False) -> None:
        """Calls the object's `close` and ends its threads. Raises LookupFailed.

        `has_failed`: the attempt has, so calls that still run on threads are not waited for; its process ends.
        """
        threads = self._threads
        if threads is None:
            return
        try:
            if self._form.has_close and self._made is not None:
                await self._step(
                    "close", partial(self._run, self._thread_of_life, self._made.close), limit_s=_CLOSE_S
                )
            if not has_failed:
                await self._all_ended()
        finally:
            self._threads = None
            for pool in (threads, self._thread_of_life):
                if pool is not None:
                    pool.shutdown(wait=False, cancel_futures=True)

    async def _all_ended(self) -> None:
        """A thread cannot be cancelled, so the calls that timed out are waited for."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        going_on = [call for call in calls if not call.done()]
        if not going_on:
            return
        await asyncio.get_running_loop().run_in_executor(None, partial(wait, going_on, timeout=_THREADS_S))
        count = sum(not call.done() for call in going_on)
        if count:
            message = (
                f"{count} calls of the lookup still run on their threads {_THREADS_S:g} s after close() "
                f"({line_of(self._form.code)}); give its client a read timeout"
            )
            raise LookupFailed(message)

    async def _run(
        self, threads: ThreadPoolExecutor | None, method: Callable[..., object], *arguments: object
    ) -> object:
        """Calls `method`: on one of `threads` if it is plain and `__call__` is, too."""
        is_coroutine = inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(
            type(method).__call__
        )
        if is_coroutine or not self._form.blocks:
            result = method(*arguments)
            return await result if inspect.isawaitable(result) else result
        assert threads is not None, "a lookup is opened before it is called"
        call = threads.submit(method, *arguments)
        self._calls[call] = None
        call.add_done_callback(lambda ended: self._calls.pop(ended, None))
        return await asyncio.wrap_future(call)

    async def _step(self, name: str, step: Callable[[], Awaitable[object]], *, limit_s: float) -> None:
        """Awaits `step`; what it raises becomes an error that names the method `name`."""
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                await step()
        except SutError:
            raise
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._fail(name, raised)
        except TimeoutError as raised:
            if limit.expired():
                message = f"the lookup's {name}() did not end within {limit_s:g} s ({self._line(name)})"
                raise LookupFailed(message) from raised
            self._fail(name, raised)
        except (Exception, SystemExit, KeyboardInterrupt) as raised:  # noqa: BLE001 - told as the lookup's error
            self._fail(name, raised)

    def _fail(self, name: str, raised: BaseException) -> NoReturn:
        where = place_of(raised, self._form.code) or self._line(name)
        message = f"the lookup's {name}() raised {type(raised).__name__}: {raised} ({where})"
        raise LookupFailed(message) from raised

    def _line(self, name: str) -> str:
        """The first line of the method; else that of `__call__`."""
        kind = self._found if self._form.is_class else type(self._found)
        method = _method(kind, name)
        return line_of(self._form.code if method is None else method.__code__)


class _NoServer:
    """Stands for the database at level sim, where there is none: each use raises an error that says so."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        message = f"the lookup's open() reads database.{name}, and level sim has no server to connect to"
        raise SutError(message, fix="run it with --level live, or use nothing but the pool")


def line_of(code: CodeType) -> str:
    """The file and first line of a function."""
    return f"{os.path.relpath(code.co_filename)}:{code.co_firstlineno}"


def place_of(error: BaseException | None, code: CodeType) -> str | None:
    """The innermost line in the file of `code` from which `error` came; None: it came from none."""
    frames = walk_tb(None if error is None else error.__traceback__)
    lines = [number for frame, number in frames if frame.f_code.co_filename == code.co_filename]
    return f"{os.path.relpath(code.co_filename)}:{lines[-1]}" if lines else None
