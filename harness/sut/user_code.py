"""User code in the harness's own process: where its modules are found, and what it is kept from doing.

At level sim lookups run there, and at every level the module is imported there first. Invariant: after `set_aside`
standard output and `os._exit` are as before.

Invariants: the user's folder comes last on the import path, so that a folder called `harness` or `queue` in it hides
nothing; a process that starts for a run imports along the same path, in the same order, as the one that ordered it.
"""

from __future__ import annotations

import ctypes
import dis
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType, TracebackType
from typing import Any, NoReturn

from harness.system.errors import SutError
from harness.system.own_packages import OURS

_ELSEWHERE_FIX = (
    "define it at the top of a module, by name, and hand over `module.name` or the text 'module:name'"
)


def add_current_folder() -> None:
    """Add the current folder to the import path, behind everything else, if it is not there already."""
    folder = str(Path.cwd())
    if folder not in map(_absolute, sys.path):
        sys.path.append(folder)


def import_path() -> tuple[str, ...]:
    """The import path of this process, with absolute folders."""
    return tuple(dict.fromkeys(map(_absolute, sys.path)))


def take_path(path: Iterable[str]) -> None:
    """Import along `path` from now on, in its order; what this process has besides stays behind it."""
    wanted = list(path)
    sys.path[:] = [*wanted, *(folder for folder in sys.path if folder not in wanted)]


def _absolute(folder: str) -> str:
    """An empty entry means the current folder."""
    return os.path.abspath(folder)  # noqa: PTH100 - it must not resolve links, which the importer does not either


def why_hidden(module: str) -> str | None:
    """Says that Python finds another module of that name than the current folder's `module`; None: it does not."""
    top = module.partition(".")[0]
    mine = next((place for place in (Path(top), Path(f"{top}.py")) if place.exists()), None)
    found = sys.modules.get(top)
    if mine is None or found is None or getattr(found, "__file__", None) is None:
        return None
    file = Path(str(found.__file__)).resolve()
    own = {Path(f"{top}.py").resolve(), (Path(top) / "__init__.py").resolve()}
    if Path.cwd().resolve() in file.parents and file in own:
        return None
    if top in OURS:
        return f"`{top}` is a package of Floodmark, which hides {mine} of this folder; rename yours"
    if mine.is_dir() and not (mine / "__init__.py").exists():
        return None  # such a folder gives way to any package of its name, for Python itself
    return f"Python finds `{top}` in {file}, which hides {mine} of this folder"


def name_of(found: object) -> str:
    """The name `MODULE:ATTR` under which any process can import this very object.

    Raises SutError for what has no such name: a lambda in a call, a function inside a function.
    """
    if isinstance(found, str):
        return found
    name = _of_its_own(found) or _of_a_variable(found)
    if name is None:
        inner = found.func if isinstance(found, partial) else found
        shown = getattr(inner, "__qualname__", None) or f"an object of {type(inner).__qualname__}"
        message = f"sut={shown} has no name of its own in a module, so no other process could import it"
        raise SutError(message, fix=_ELSEWHERE_FIX)
    return name


def _of_its_own(found: object) -> str | None:
    """`module:qualname`, if that leads back to the object; for a bound method, the name of its object first."""
    if isinstance(found, MethodType):
        owner = _of_its_own(found.__self__) or _of_a_variable(found.__self__)
        return owner and f"{owner}.{found.__name__}"
    module, qualname = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return None
    inner: Any = sys.modules.get(module)
    for part in qualname.split("."):
        inner = getattr(inner, part, None)
    return f"{module}:{qualname}" if inner is found else None


def _of_a_variable(found: object) -> str | None:
    """The first variable of a module that holds the object: the module of its class before the others."""
    own = sys.modules.get(getattr(found, "__module__", None) or type(found).__module__)
    modules = [own] if isinstance(own, ModuleType) else []
    for module in (*modules, *list(sys.modules.values())):
        if isinstance(module, ModuleType):
            name = next((name for name, value in list(vars(module).items()) if value is found), None)
            if name is not None:
                return f"{module.__name__}:{name}"
    return None


_OUT, _ERR = 1, 2
_RAISE = dis.opmap["RAISE_VARARGS"]


class ProcessEnded(SystemExit):
    """Raised where user code calls `os._exit`, which would end the harness."""

    def __repr__(self) -> str:
        return f"os._exit({self.code})"


class _Aside:
    """How many blocks set user code aside now. Mutable; threads share it, as they share the process."""

    lock = threading.Lock()
    blocks = 0
    undone = ExitStack()


@contextmanager
def set_aside() -> Iterator[None]:
    """While the block lasts, what is written to standard output goes to standard error, and `os._exit` raises."""
    with _Aside.lock:
        _Aside.blocks += 1
        if _Aside.blocks == 1:
            _Aside.undone.enter_context(_output_aside())
            _Aside.undone.enter_context(redirect_stdout(sys.stderr))
            _Aside.undone.enter_context(_exit_raises())
    try:
        yield
    finally:
        with _Aside.lock:
            _Aside.blocks -= 1
            if _Aside.blocks == 0:
                _Aside.undone.close()


@contextmanager
def _output_aside() -> Iterator[None]:
    """Lets the descriptor of standard output lead to standard error: C code and child processes write to it."""
    _flush()
    try:
        kept = os.dup(_OUT)
    except OSError:  # closed: there is nothing to keep apart
        yield
        return
    try:
        with suppress(OSError):  # standard error is closed
            os.dup2(_ERR, _OUT)
        yield
    finally:
        _flush()
        os.dup2(kept, _OUT)
        os.close(kept)


def _flush() -> None:
    """Writes what Python and the C library hold back, to where the descriptor leads now."""
    with suppress(ValueError, OSError, AttributeError):  # closed, or no stream
        sys.stdout.flush()
    ctypes.pythonapi.fflush(None)


@contextmanager
def _exit_raises() -> Iterator[None]:
    exits, process = os._exit, os.getpid()

    def ended(status: int) -> NoReturn:
        if os.getpid() != process:  # a child that user code has forked
            exits(status)
        raise ProcessEnded(status)

    os._exit = ended
    try:
        yield
    finally:
        os._exit = exits


def is_interruption(error: BaseException) -> bool:
    """Whether `error` is Ctrl-C, which ends the harness, and not a KeyboardInterrupt that user code raised."""
    return isinstance(error, KeyboardInterrupt) and not is_raised_by_code(error)


def is_raised_by_code(error: BaseException) -> bool:
    """Whether a `raise` raised `error`, and not a signal (Ctrl-C) that was handled between two instructions."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE
