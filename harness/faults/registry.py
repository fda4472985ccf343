"""The registry of fault kinds by name, and the pydantic type of any fault.

Invariant: it holds every fault class of every module directly in `harness.faults`. To add a kind, add a file there; no
other list exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Literal, Union, get_args, get_origin

from pydantic import Discriminator, Tag, TypeAdapter

from harness.faults.model.fault import By, Fault

FaultName = str
"""The name of a kind; the keys of `FAULTS` are all there are."""


def _kinds() -> Iterator[tuple[str, type[Fault]]]:
    """The classes of faults with a name of their own in the modules of `harness.faults`."""
    for info in iter_modules([str(Path(__file__).parent)]):
        name = f"{__package__}.{info.name}"
        if info.ispkg or name == __name__:
            continue
        module = import_module(name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Fault) and value.__module__ == module.__name__:
                do = value.model_fields["do"].annotation
                if get_origin(do) is Literal:
                    yield get_args(do)[0], value


FAULTS: Mapping[FaultName, type[Fault]] = dict(
    sorted(_kinds(), key=lambda named: (get_args(By).index(named[1].by), named[0]))
)
"""Sorted by where they act, then by name."""


def _tag(value: object) -> str | None:
    """The tag of the kind that `do` names; None: it names none that exists."""
    do = value.do if isinstance(value, Fault) else value.get("do") if isinstance(value, Mapping) else None
    return f"<{do}>" if isinstance(do, str) and do in FAULTS else None


if TYPE_CHECKING:
    AnyFault = Fault
else:
    AnyFault = Annotated[
        Union[tuple(Annotated[kind, Tag(f"<{name}>")] for name, kind in FAULTS.items())],  # noqa: UP007 - made here
        Discriminator(_tag, custom_error_type="fault", custom_error_message="should be a fault"),
    ]


@cache
def _adapter() -> TypeAdapter[Fault]:
    return TypeAdapter(AnyFault)


def fault_of(data: object) -> Fault:
    """Validates plain data as a fault. Raises pydantic's ValidationError."""
    return _adapter().validate_python(data)
