"""The systems under test by name, and the import of a user's own function by `MODULE:ATTR`.

Invariant: a name that cannot be loaded is an error before anything starts; the message gives the existing names.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from harness.scenario.order import REFERENCE
from harness.sut.lookup_object import ObjectForm
from harness.sut.user_code import is_interruption, set_aside, why_hidden
from harness.sut.user_lookup import user_lookup
from harness.system.errors import SutError, UsageError

if TYPE_CHECKING:
    from harness.sut.lookup import Nonces

__all__ = [
    "REFERENCE",
    "REFERENCE_EMITTER",
    "SUTS",
    "LookupFunction",
    "connects_itself",
    "load_attribute",
    "load_lookup",
    "needs_a_server",
    "needs_threads",
    "refuse_hidden",
]

REFERENCE_EMITTER = "reference-emitter"
SUTS = {
    REFERENCE: "the reference operator with the reference lookup, which retries after a lost connection",
    REFERENCE_EMITTER: "the operator of FLIP-12's first design, with an emitter thread, and the same lookup",
}
"""The built-in systems under test, with one sentence each."""

_RENAME = "rename the module, or uninstall the other one"

LookupFunction = Callable[..., Awaitable[Any]]
"""`async def lookup(record, pool)` or `async def lookup(record)`; returns a list of results or one result."""


def load_lookup(name: str, *, nonces: Nonces | None = None, tells_versions: bool = False) -> LookupFunction:
    """The lookup of the system under test `name`, to be called as `(record, pool)`.

    `nonces` gives our own lookup the nonce of each call and records the nonce of its answer (V19); `tells_versions`:
    and the version of the rows (V8).
    """
    if name in SUTS:
        from harness.sut.lookup import OwnNonces, ReferenceLookup  # noqa: PLC0415 - most callers name a user's

        return ReferenceLookup(OwnNonces() if nonces is None else nonces, tells_versions=tells_versions)
    if ":" not in name:
        close = get_close_matches(name, SUTS, n=1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"floodmark list suts; your own: --sut {_own(name)}"
        )
        message = f"there is no system under test called {name!r}"
        raise UsageError(message, fix=hint)
    return user_lookup(load_attribute(name, option="--sut", kind="FUNCTION"), name)


def connects_itself(name: str) -> bool:
    """Whether the system under test `name` is a user's lookup with a client of its own. Raises as `load_lookup`."""
    form = None if name in SUTS else _form(name)
    return form is not None and form.connects_itself


def needs_a_server(name: str) -> bool:
    """Whether it is a user's lookup that asks by its own client alone. Raises as `load_lookup`."""
    form = None if name in SUTS else _form(name)
    return form is not None and form.needs_a_server


def needs_threads(name: str) -> bool:
    """Whether it is a user's lookup whose `__call__` blocks. Raises as `load_lookup`."""
    form = None if name in SUTS else _form(name)
    return form is not None and form.blocks


def _form(name: str) -> ObjectForm | None:
    form: ObjectForm | None = getattr(load_lookup(name), "form", None)
    return form


def refuse_hidden(name: str) -> None:
    """Raises SutError if the current folder has the module of `--sut name`, but another one of its name was loaded.

    A stale copy of the function must not be tested in its place.
    """
    if ":" in name and (hidden := why_hidden(name.partition(":")[0])):
        raise SutError(f"--sut {name}: {hidden}", fix=_RENAME)


def load_attribute(name: str, *, option: str, kind: str) -> Any:
    """The object `MODULE:ATTR`. Raises SutError that names `option` if it cannot be loaded."""
    module, _, attribute = name.partition(":")
    found: Any = None
    try:
        with set_aside():
            found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if is_interruption(error):
            raise
        what = (
            str(error)
            if isinstance(error, ImportError | AttributeError)
            else f"{type(error).__name__}: {error}"
        )
        hidden = why_hidden(module)
        message = f"{option} {name}: {what}" + (f"; {hidden}" if hidden else "")
        fix = _RENAME if hidden else _how_to_load(name, found, error, kind=kind)
        raise SutError(message, fix=fix) from error
    return found


def _how_to_load(name: str, found: object, error: BaseException, *, kind: str) -> str:
    """What to do where `name` cannot be loaded; `found`: the module, or the object in it, that was loaded."""
    module, _, attribute = name.partition(":")
    if PurePath(module).name != module or module.endswith(".py"):
        return f"write {PurePath(module).stem}:{attribute or kind}, in the folder of that file"
    if found is not None:
        missing = getattr(error, "name", None) or attribute
        names = [one for one in vars(found) if not one.startswith("_")] if hasattr(found, "__dict__") else []
        close = get_close_matches(missing, names, n=1)
        if close:
            return f"did you mean {module}:{attribute.removesuffix(missing)}{close[0]}?"
    elif not (isinstance(error, ModuleNotFoundError) and error.name in {module, module.partition(".")[0]}):
        return f"correct {module}: it cannot be imported"
    return f"write MODULE:{kind}, with MODULE importable from the current folder or the environment"


def _own(name: str) -> str:
    """How to name a function in the file `name`, or in any."""
    file = PurePath(name)
    is_file = file.suffix == ".py" or Path(f"{name}.py").is_file()
    return f"{file.stem}:FUNCTION, in the folder of that file" if is_file else "module:function"
