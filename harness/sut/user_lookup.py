"""A user's own lookup behind --sut MODULE:FUNCTION: the rules that its calls are held to, and their values.

Invariant: an observing record is an instance of its kind and equal in every attribute. What is read of it by other
means (C code of a serializer) is not noticed; a second call with another record of the key makes up for that.

Invariants: a call raises an `Exception` or returns JSON; only a cancellation from outside of the call passes unchanged.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from traceback import walk_tb
from types import CodeType
from typing import Any, Final, get_args

import msgspec

from harness.database.pool import MayAskAgain
from harness.database.transactions import ErrorClass, class_of, code_of
from harness.database.watched_call import CALL, Nested, WatchedCall, cancelled_task
from harness.history.event import Met
from harness.history.notes import (
    HiddenError,
    Hurried,
    KeptConnections,
    NestedAcquire,
    NoteLog,
    OwnConnections,
)
from harness.scenario.workloads.shape import Lookup
from harness.sut.lookup_object import LookupObject, ObjectForm, form_of, line_of, place_of
from harness.sut.user_code import ProcessEnded, is_interruption
from harness.system.errors import SutError

OF_KEY: Final = frozenset({"key", "service_ms", "row_bytes", "__class__"})
"""What a function may read of a record and still depend on its key alone: how long the database takes, and how much it
pads, decides no result."""


def observing(kind: type[Lookup], read: set[str]) -> type[Lookup]:
    """A kind of record that adds to `read` the name of each attribute that is read of it."""

    class Observed(kind, frozen=True, kw_only=True):  # type: ignore[call-arg,misc,valid-type]  # mypy knows no such base
        def __getattribute__(self, name: str) -> object:
            read.add(name)
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            read.add("__repr__")
            return str(super().__repr__())

    Observed.__name__ = Observed.__qualname__ = kind.__name__
    return Observed


def as_list(answer: object) -> list[object]:
    """The results of a lookup: None is no result, any other single value one result."""
    if answer is None:
        return []
    return list(answer) if isinstance(answer, list | tuple) else [answer]


RESULT_BYTES_MAX = 1 << 20
"""The largest size of what one call may return, as JSON: results are kept in memory, checkpoints and the history."""
_RAISED_AT = "raised by the lookup at "
_MET = "the call had met: "
_LIMITS: Final = frozenset({"TimeoutError", "all in use", "circuit open", 1205, 1969, 3024})
"""Codes of a passed limit of time: of the pool, which makes no connects after several that took too long, and of the
server for a lock or a statement."""
_OF_DRIVERS: Final = frozenset({"DatabaseError", "InterfaceError", "MySQLError"})
"""Bases of what drivers raise (PEP 249)."""
_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, asyncio.InvalidStateError,
)  # fmt: skip
"""What nobody raises to say that the database does not answer."""
_WRAPPERS_MAX = 20
"""How many partials and decorators may be around an `async def`."""
_DEPTH_MAX = 50
"""How deeply a result may be nested."""
_INTEGERS = range(-(1 << 63), 1 << 64)
"""The integers that JSON readers of the history and the database can hold."""


class UserCodeStopped(Exception):
    """The function raised what would end the process or the task around it (`SystemExit` and the like)."""

    def __init__(self, raised: BaseException) -> None:
        did = "called" if isinstance(raised, ProcessEnded) else "raised"
        super().__init__(f"the lookup {did} {raised!r}; raise a subclass of Exception instead")


class CallCancelled(Exception):
    """The function raised a cancellation, though nobody had cancelled its call. `task`: which it awaited, if known."""

    def __init__(self, task: str | None) -> None:
        what = f"{task}, which it awaited, was cancelled" if task else "what it awaited was cancelled"
        super().__init__(f"{what}, and the call was not (CancelledError); await asyncio.shield(task)")


def user_lookup(found: Any, name: str) -> UserLookup:
    """The lookup that `--sut name` names: an `async def`, an object that is called for each record, or its class.

    It gets the pool if its second parameter is called `pool` or has no default. Raises SutError, with the line to
    write, for anything else.
    """
    code = None if inspect.isclass(found) else _coroutine_code(found)
    is_function = inspect.isroutine(found) or isinstance(found, partial) or hasattr(found, "__wrapped__")
    if code is None or not is_function:
        form = form_of(found, name, takes_pool=_takes_pool)
        if form is not None:
            alive = LookupObject(found, form)
            return UserLookup(alive.call, code=form.code, alive=alive, form=form)
    if inspect.isclass(found):
        message = f"--sut {name} is a class without `__call__`; a lookup is called for each record"
        raise SutError(message, fix="write `async def __call__(self, record, pool): ...` in it")
    if code is None:
        kind = "a generator" if inspect.isasyncgenfunction(found) else type(found).__name__
        message = f"--sut {name} is {kind}, not an `async def`"
        fix = (
            "write `async def lookup(record, pool): ...`, with `return`; "
            "a blocking client needs a class with `def open(self, database)` and `def __call__(self, record)`"
        )
        raise SutError(message, fix=fix)
    takes = _takes_pool(found)
    if takes is None:
        arguments = len(inspect.signature(found).parameters)
        message = f"--sut {name} takes {arguments} argument{'' if arguments == 1 else 's'}"
        raise SutError(message, fix="write `async def lookup(record, pool)` or `async def lookup(record)`")
    return UserLookup(found if takes else lambda record, _pool: found(record), code=code)


def _takes_pool(found: Callable[..., object]) -> bool | None:
    """Whether it is called with `(record, pool)`, or with `(record)`; None: with neither."""
    parameters = inspect.signature(found).parameters.values()
    by_place = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    by_name = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if any(p.default is p.empty for p in (*by_place[2:], *by_name)) or not (by_place or takes_any):
        return None
    if len(by_place) < 2:  # noqa: PLR2004 - (record, pool)
        return takes_any
    return by_place[1].name == "pool" or by_place[1].default is inspect.Parameter.empty


def _coroutine_code(found: object) -> CodeType | None:
    """The code of the `async def` behind functions, methods, partials, wrappers and objects; None: there is none."""
    inner = found
    for _ in range(_WRAPPERS_MAX):
        wrapped = inner.func if isinstance(inner, partial) else getattr(inner, "__wrapped__", None)
        if wrapped is None:
            break
        inner = wrapped
    if not (inspect.isfunction(inner) or inspect.ismethod(inner)):
        inner = inspect.getattr_static(type(inner), "__call__", None)
    code = getattr(inner, "__code__", None)
    return code if inspect.iscoroutinefunction(inner) and isinstance(code, CodeType) else None


class UserLookup:
    """Calls the user's function with `(record, pool)`."""

    def __init__(
        self,
        function: Callable[[Lookup, object], Awaitable[object]],
        *,
        code: CodeType,
        alive: LookupObject | None = None,
        form: ObjectForm | None = None,
    ) -> None:
        """`code`: the code object of what the user wrote, by which the loop watch knows it on a stack.

        `alive`, `form`: of a lookup that is an object, or of the class of one.
        """
        self._function = function
        self.__code__ = code
        self.alive = alive
        """The object, to be opened before the first call and closed after the last; None: it is a function."""
        self.form = form
        self._journal: NoteLog | None = None
        self._holding: list[WatchedCall] = []
        """The ended calls that held a connection at their end."""
        self._connected: Counter[str] = Counter()
        """Where calls connected by themselves, and how often."""
        self._nested: Counter[Nested] = Counter()

    def tell(self, journal: NoteLog) -> None:
        """Records in `journal`, from now on, how calls use the pool."""
        self._journal = journal

    def close(self) -> None:
        """Tells the journal of the connections that were not given back; call it when the pool is not used any more."""
        kept = Counter(line for call in self._holding for line in call.kept())
        if self._journal is not None:
            for line, times in kept.items():
                self._journal.note(KeptConnections(times=times, where=line))
            for line, times in self._connected.items():
                self._journal.note(OwnConnections(times=times, where=line))
            for nested, times in self._nested.items():
                if not nested.got:
                    self._journal.note(
                        NestedAcquire(
                            times=times,
                            where=nested.asked,
                            held=nested.held,
                            got=self._nested[replace(nested, got=True)],
                        )
                    )
        self._holding.clear()

    async def __call__(self, record: Lookup, pool: object) -> object:
        """The function's result itself: a copy would hide that several calls share one object.

        Raises its `Exception`, UserCodeStopped, CallCancelled, or SutError: it is not JSON.
        """
        try:
            result = await self._ended(record, pool)
        except Exception as error:
            # For the words of the attempt's failure: the innermost line in the function's own file, else its first.
            raised = error.__cause__ if isinstance(error, UserCodeStopped | CallCancelled) else error
            error.add_note(f"{_RAISED_AT}{place_of(raised, self.__code__) or line_of(self.__code__)}")
            if (met := self._what_met(error)) is not None:
                error.add_note(f"{_MET}{met}")
            raise
        try:
            _refuse_no_json(result)
        except _NotJson as why:
            message = f"lookup returned {why} for record {record.id}; a result must be JSON ({line_of(self.__code__)})"
            fix = "return dicts, lists, strings, finite numbers, booleans or None"
            raise SutError(message, fix=fix) from None
        return result

    async def _watched(self, record: Lookup, pool: object) -> object:
        """The function's result; records in the journal how the call used the pool."""
        call = WatchedCall(
            home=self.__code__.co_filename, line=line_of(self.__code__), now_s=asyncio.get_running_loop().time
        )
        call.nested, call.root = self._nested, asyncio.current_task()
        CALL.set(call)  # for this task, which makes this one call, and for those that the call starts
        try:
            call.coroutine = self._function(record, pool)
            result = await call.coroutine
            if self._journal is not None:
                for told in call.hidden():
                    hidden = HiddenError(
                        id=record.id, error=told.error, met=told.met_at, caught=told.caught_at
                    )
                    self._journal.note(hidden)
            return result
        finally:
            self._connected += call.connected
            if call.is_holding:
                self._holding.append(call)
            if call.hurried is not None and self._journal is not None:
                row = call.hurried
                self._journal.note(Hurried(id=record.id, times=row.times, where=row.asked_at))

    async def _ended(self, record: Lookup, pool: object) -> object:
        try:
            return await self._watched(record, pool)
        except (SystemExit, KeyboardInterrupt) as raised:
            if is_interruption(raised):
                raise
            raise UserCodeStopped(raised) from raised
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # by the record's timeout, or as the attempt ends
                raise
            raise CallCancelled(cancelled_task(raised, self.__code__.co_filename)) from raised

    def _what_met(self, error: Exception) -> Met | None:
        """What the present call met before it failed with `error`; None: not known."""
        call = CALL.get()
        told = () if call is None else call.errors
        kinds = {_kind(one, told) for one in [*_behind(error), *told]} - {""}
        if "limit" in kinds:
            return "limit"
        if kinds:
            return "error" if kinds == {"error"} else None
        if isinstance(error, CallCancelled):
            return "nothing"
        # A mistake of Python's own kinds in the function's own file; others may stand for what another call met.
        *_, (frame, _) = walk_tb(error.__traceback__)
        is_own = frame.f_code.co_filename == self.__code__.co_filename
        return "nothing" if is_own and isinstance(error, _MISTAKES) else None


def _behind(error: BaseException) -> Sequence[BaseException]:
    """The error, its causes and their contexts, also those that `from None` hides."""
    found: list[BaseException] = []
    left = [error]
    while left:
        one = left.pop()
        if not any(one is other for other in found):
            found.append(one)
            left += [behind for behind in (one.__cause__, one.__context__) if behind is not None]
    return found


def _kind(error: BaseException, told: Sequence[BaseException]) -> str:
    """`limit`: a limit of time passed; `error`: the database's; `lost`: either; empty: neither."""
    if isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower():
        return "limit"
    if isinstance(error, MayAskAgain):
        return "limit" if error.code in _LIMITS else "error"
    if isinstance(error, OSError):
        return "lost"
    names = {kind.__name__ for kind in type(error).__mro__}
    if not (any(error is one for one in told) or names & _OF_DRIVERS):
        return ""
    code = code_of(error)
    if code in _LIMITS:
        return "limit"
    # A client of the user's own gives up on a slow answer with the error of a lost connection, too.
    return "lost" if class_of(code) is ErrorClass.RECONNECT else "error"


def met_by(error: BaseException) -> Met | None:
    """What the call met that failed with `error`, as the user's lookup noted it; None: not known.

    Calls that share a task raise one error, so what any of them met counts for all.
    """
    notes = getattr(error, "__notes__", ())
    return next((met for met in get_args(Met) if f"{_MET}{met}" in notes), None)


def failure_of_lookup(error: BaseException, record: int) -> str | None:
    """Says that a user's lookup raised `error` for that record, and where; None: no user's lookup raised it."""
    where = raised_at(error)
    if where is None:
        return None
    return f"the lookup raised {type(error).__name__}: {error} for record {record} ({where})"


def raised_at(error: BaseException) -> str | None:
    """The line of a user's lookup at which `error` was raised: `enrich.py:5`; None: no user's lookup raised it."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_RAISED_AT)]
    return notes[-1].removeprefix(_RAISED_AT) if notes else None


def failure_of_task(error: BaseException) -> str | None:
    """Says that a task which a user's lookup started raised what would end the process; None: it did not."""
    if not isinstance(error, SystemExit | KeyboardInterrupt):
        return None
    frame, number = list(walk_tb(error.__traceback__))[-1]
    return f"a task that the lookup started raised {error!r} ({os.path.relpath(frame.f_code.co_filename)}:{number})"


class _NotJson(Exception):
    """What a result has that JSON has not."""


def _refuse_no_json(result: object) -> None:
    """Raises `_NotJson` unless `result` can be written as JSON, and not too large. Tuples are written as lists."""
    _refuse_other(result, depth=0)
    try:
        written = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError) as error:
        raise _NotJson(f"{type(result).__name__} that cannot be written ({error})") from error
    if len(written) > RESULT_BYTES_MAX:
        message = (
            f"{type(result).__name__} of {len(written)} bytes, where RESULT_BYTES_MAX is {RESULT_BYTES_MAX},"
        )
        raise _NotJson(message)


def _refuse_other(value: object, *, depth: int) -> None:
    """Raises `_NotJson` unless `value` is JSON all the way down."""
    if depth > _DEPTH_MAX:
        raise _NotJson(f"{type(value).__name__} that is nested more than {_DEPTH_MAX} deep")
    match value:
        case None | bool() | str():
            return
        case int() if value in _INTEGERS:
            return
        case int():
            raise _NotJson("int of more than 64 bits")
        case float() if math.isfinite(value):
            return
        case float():
            raise _NotJson(f"float {value}")
        case dict():
            for key, part in value.items():
                if not isinstance(key, str):
                    raise _NotJson(f"dict with a key of type {type(key).__name__}")
                _refuse_other(part, depth=depth + 1)
        case list() | tuple():
            for part in value:
                _refuse_other(part, depth=depth + 1)
        case _:
            raise _NotJson(type(value).__name__)
