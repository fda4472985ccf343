"""What one call of a user's lookup did with the pool: errors that it met, statements answered, connections held.

The pool finds the call by a context variable, which tasks that the call starts inherit. Invariant: what is told is
known: the frame that caught an error is the outermost one that the error's traceback has reached, and a place that
cannot be told is None.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any, ClassVar, Self

Statement = tuple[str, Sequence[Any]]

_PAUSE_S = 0.001
"""A call that asks again sooner than this after an error has made no pause."""
_ROUNDS = 2
"""Nor has one that asks again before so many rounds of the event loop: they may take long on a busy machine."""
_HURRIED_MIN = 3
"""So many retries in a row without a pause are no limited handful."""
_AWAITS_MAX = 100
"""How deep a coroutine may await others to be followed."""


class _Rounds:
    """Counts the rounds of the running event loop from now on, up to `_ROUNDS`. Mutable."""

    def __init__(self, *, began_s: float) -> None:
        self.began_s = began_s
        self.count = 0
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.count += 1
        if self.count < _ROUNDS:
            asyncio.get_running_loop().call_soon(self._next)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """An error that a call received, neither raised nor overcame by asking again."""

    error: str
    met_at: str
    """The line of the user's code in which it was raised."""
    caught_at: str | None
    """The line that caught it; None: it cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HurriedRetries:
    """How often a call asked again at once after an error, in a row."""

    times: int
    asked_at: str


@dataclass(slots=True, kw_only=True)
class _Met:
    """An error that the call received. Mutable: the pool may raise another one in its place."""

    error: BaseException
    statement: Statement | None
    at: str
    answers_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lent:
    """A connection that the call holds."""

    at: str
    task: asyncio.Task[Any] | None
    """The task that asked for it."""
    is_users: bool
    """Whether the user's code sends the statements; else the pool does, and gives it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Where a call took a connection that it held while it asked for another one, and whether it got that."""

    held: str
    asked: str
    got: bool


class WatchedCall:
    """One call. Mutable: the pool tells it what happens."""

    def __init__(self, *, home: str, line: str, now_s: Callable[[], float]) -> None:
        """`home`: the file of the user's function; `line`: its own `file:line`, told where no better one is known."""
        self.coroutine: Any = None
        """The user's coroutine, once it was made."""
        self._home = home
        self._line = line
        self._now_s = now_s
        self._met: list[_Met] = []
        self._answered: list[Statement | None] = []
        self._lent: dict[object, _Lent] = {}
        self._failed: dict[object, _Rounds] = {}
        """The time since a task of the call met an error and has not asked again."""
        self._hurried: Counter[object] = Counter()
        self.hurried: HurriedRetries | None = None
        """The longest row of retries without a pause, if it is a long one."""
        self.connected: Counter[str] = Counter()
        """Where the call connected by itself, and how often."""
        self.nested: Counter[Nested] = Counter()
        """How often calls waited for a connection while they held one; shared by those of one lookup."""
        self.root: asyncio.Task[Any] | None = None
        """The task that makes the call."""

    def asks(self) -> None:
        """A statement or a connection is asked for."""
        task = asyncio.current_task()
        since = self._failed.pop(task, None)
        if since is None:
            return
        if since.count >= _ROUNDS and self._now_s() - since.began_s >= _PAUSE_S:
            self._hurried[task] = 0
            return
        self._hurried[task] += 1
        times = self._hurried[task]
        if times >= _HURRIED_MIN and (self.hurried is None or times > self.hurried.times):
            self.hurried = HurriedRetries(times=times, asked_at=self._present_line())

    def note_error(self, error: BaseException, statement: Statement | None) -> None:
        """`error` is about to reach the user's code; it may replace one that was told before."""
        self._failed[asyncio.current_task()] = _Rounds(began_s=self._now_s())
        for met in self._met:
            if met.error is error or met.error is error.__cause__:
                met.error = error
                return
        line = self._present_line()
        self._met.append(_Met(error=error, statement=statement, at=line, answers_before=len(self._answered)))

    def answers(self, statement: Statement | None) -> None:
        """`statement` was answered; None: a connection was used without an error, for whatever."""
        self._hurried[asyncio.current_task()] = 0
        self._answered.append(statement)

    def lends(self, lease: object, *, is_users: bool) -> None:
        """The call holds a connection."""
        self._lent[lease] = _Lent(at=self._present_line(), task=asyncio.current_task(), is_users=is_users)

    @contextmanager
    def waits(self) -> Iterator[None]:
        """The call waits for a connection, maybe while this task, or that of the call, holds another one."""
        holders = (asyncio.current_task(), self.root)
        held = next((lent.at for lent in self._lent.values() if lent.is_users and lent.task in holders), None)
        if held is None:
            yield
            return
        asked = self._present_line()
        self.nested[Nested(held=held, asked=asked, got=False)] += 1
        yield
        self.nested[Nested(held=held, asked=asked, got=True)] += 1

    def returns(self, lease: object) -> None:
        """The call has given the connection back."""
        self._lent.pop(lease, None)

    def connects(self) -> None:
        """The call connects to the database by itself, without the pool."""
        self.connected[self._present_line()] += 1

    @property
    def errors(self) -> Sequence[BaseException]:
        """The errors of the database, and the passed limits of the pool, that reached the call."""
        return [met.error for met in self._met]

    @property
    def is_holding(self) -> bool:
        """Whether it holds a connection."""
        return bool(self._lent)

    def kept(self) -> Sequence[str]:
        """Where the call asked for connections that stay lent: the tasks that asked for them have ended."""
        return [lent.at for lent in self._lent.values() if lent.task is not None and lent.task.done()]

    def hidden(self) -> Iterator[Hidden]:
        """For a call that returned normally: the errors that it hides."""
        for met in self._met:
            # Got over: the same statement was answered, before or after; for an unknown one, any afterwards.
            if not (
                len(self._answered) > met.answers_before
                if met.statement is None
                else met.statement in self._answered
            ):
                yield Hidden(
                    error=f"{type(met.error).__name__}: {met.error}",
                    met_at=met.at,
                    caught_at=_caught_at(met.error),
                )

    def _present_line(self) -> str:
        """The innermost line in the function's file at which the call is now, by the stack or by what it awaits."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - public by its docs
        while frame is not None:
            if frame.f_code.co_filename == self._home:
                return _told(self._home, frame.f_lineno)
            frame = frame.f_back
        line, awaits = self._line, self.coroutine
        for _ in range(_AWAITS_MAX):
            frame = getattr(awaits, "cr_frame", None)
            if frame is None:
                break
            if frame.f_code.co_filename == self._home:
                line = _told(self._home, frame.f_lineno)
            awaits = awaits.cr_await
        return line


CALL: ContextVar[WatchedCall | None] = ContextVar("CALL", default=None)
"""The call of a user's lookup that runs now; None: it is the harness's own code."""


class _Ports:
    """The ports of which `watch_connects` was told. Mutable: an audit hook belongs to its process, and stays."""

    watched: ClassVar[set[int]] = set()


def watch_connects(port: int) -> None:
    """From now on record, for each call, the connections that it makes to that port with any client."""
    if not _Ports.watched:
        sys.addaudithook(_audited)
    _Ports.watched.add(port)


def _audited(event: str, args: tuple[object, ...]) -> None:
    if event != "socket.connect":
        return
    call, address = CALL.get(), args[1]
    if call is not None and isinstance(address, tuple) and address[1] in _Ports.watched:
        call.connects()


class WatchedConnection:
    """A lent connection whose cursors tell the call of answers and errors; everything else is the connection's own."""

    def __init__(self, connection: Any, call: WatchedCall, errors: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._call = call
        self._errors = errors

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def cursor(self, *args: object, **options: object) -> object:
        """A cursor of the connection."""
        return _WatchedCursor(self._connection.cursor(*args, **options), self._call, self._errors)


class _WatchedCursor:
    """A cursor, for `async with` too."""

    def __init__(self, cursor: Any, call: WatchedCall, errors: tuple[type[Exception], ...]) -> None:
        self._cursor = cursor
        self._call = call
        self._errors = errors

    def __getattr__(self, name: str) -> object:
        return getattr(self._cursor, name)

    async def __aenter__(self) -> Self:
        await self._cursor.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> object:
        return await self._cursor.__aexit__(*error)

    async def execute(self, sql: str, args: Sequence[object] = ()) -> object:
        """Execute the statement. Raises the driver's errors."""
        statement = (sql, args)
        self._call.asks()
        try:
            found = await self._cursor.execute(sql, args)
        except self._errors as error:
            self._call.note_error(error, statement)
            raise
        self._call.answers(statement)
        return found


def _told(file: str, number: int) -> str:
    return f"{os.path.relpath(file)}:{number}"


# ------------------------------------------------------------------------------------------ who caught it


def _caught_at(error: BaseException) -> str | None:
    """The line of the handler that caught `error`; None: it cannot be told.

    An error enters each frame that it passes into its traceback, so the outermost one there is that which caught it,
    or that of a task whose outcome somebody took as a value. Only a handler in the source tells the two apart.
    """
    outermost = next(walk_tb(error.__traceback__), None)
    if outermost is None:
        return None
    frame, number = outermost
    file = frame.f_code.co_filename
    caught = _handler(file, number, frame, error)
    return None if caught is None else _told(file, caught)


def _handler(file: str, number: int, frame: FrameType, error: BaseException) -> int | None:
    """The line of the statement around line `number` of `frame` that catches `error`."""
    for around in reversed(_around(file, number)):
        match around:
            case ast.Try() if _spans(around.body, number):
                for handler in around.handlers:
                    if _catches(handler.type, frame, error):
                        return handler.lineno
                if ends := [part for part in around.finalbody if isinstance(part, ast.Return)]:
                    return ends[0].lineno
            case ast.With() | ast.AsyncWith() if any(map(_suppresses, around.items)):
                return around.lineno
    return None


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _around(file: str, number: int) -> list[ast.stmt]:
    """The statements around line `number` in its innermost function, from the outside."""
    tree = _tree(file)
    found: list[ast.stmt] = []
    if tree is None:
        return found
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                if part.lineno <= number <= (part.end_lineno or part.lineno):
                    is_function = isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
                    found = [] if is_function else [*found, part]
                    nodes.append(part)
            elif isinstance(part, ast.excepthandler | ast.match_case):
                nodes.append(part)
    return found


def _spans(body: Sequence[ast.stmt], number: int) -> bool:
    return body[0].lineno <= number <= (body[-1].end_lineno or body[-1].lineno)


def _catches(kind: ast.expr | None, frame: FrameType, error: BaseException) -> bool:
    """Whether `except kind:` catches `error`, as far as its names can be looked up in the frame."""
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        return any(_catches(part, frame, error) for part in kind.elts)
    found = _named(kind, frame)
    try:
        return found is not None and isinstance(error, found)
    except TypeError:
        return False


def _named(name: ast.expr, frame: FrameType) -> Any:
    match name:
        case ast.Name():
            spaces = (frame.f_locals, frame.f_globals, vars(builtins))
            return next((space[name.id] for space in spaces if name.id in space), None)
        case ast.Attribute():
            return getattr(_named(name.value, frame), name.attr, None)
        case ast.Subscript():
            with suppress(Exception):  # the user's own container
                return _named(name.value, frame)[_named(name.slice, frame)]
            return None
        case ast.Constant():
            return name.value
        case _:
            return None


def cancelled_task(error: BaseException, home: str) -> str | None:
    """The cancelled task that a line in file `home` awaited, from which the CancelledError `error` came.

    None: it is not known; the expression behind `await` is looked up only if it is made of names and indexes.
    """
    for frame, number in walk_tb(error.__traceback__):
        tree = _tree(home) if frame.f_code.co_filename == home else None
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Await) and node.lineno <= number <= (node.end_lineno or node.lineno):
                awaited = node.value.args if isinstance(node.value, ast.Call) else [node.value]
                for task in (_named(part, frame) for part in awaited):
                    if isinstance(task, asyncio.Task) and task.cancelled():
                        return f"task `{getattr(task.get_coro(), '__qualname__', task.get_name())}`"
    return None


def _suppresses(item: ast.withitem) -> bool:
    called = item.context_expr
    if not isinstance(called, ast.Call):
        return False
    name = called.func
    return (name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")) == "suppress"
