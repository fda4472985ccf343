"""Imports Floodmark's own top-level packages before anything of a user's can take their names.

Invariant: after `import_ours`, `reports` and `reference_impl` are ours for the rest of the process.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import harness
from harness.system.errors import UsageError

OURS = ("harness", "reference_impl", "reports")
_HOME = Path(harness.__file__).resolve().parents[1]


def import_ours() -> None:
    """Import them from the folder that holds `harness`. Raises UsageError if another package has taken a name."""
    for name in OURS:
        if sys.modules.get(name) is None:
            sys.path.insert(0, str(_HOME))
            try:
                import_module(name)
            finally:
                sys.path.remove(str(_HOME))
        module = sys.modules[name]
        if Path(module.__file__ or "").resolve().parents[1:2] != (_HOME,):
            place = module.__file__ or "another folder"
            message = f"`{name}` is imported from {place}, and Floodmark has a package of that name"
            fix = "rename yours, or import harness.testing before it"
            raise UsageError(message, fix=fix)


def hidden_packages() -> list[Path]:
    """The packages of the import path that cannot be imported, because they have the names of ours."""
    found = [Path(folder, name, "__init__.py").resolve() for folder in sys.path for name in OURS]
    theirs = dict.fromkeys(file.parent for file in found if file.is_file() and file.parents[1] != _HOME)
    return list(theirs)
