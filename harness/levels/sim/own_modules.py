"""The modules of the function under test, imported once for each simulated attempt.

Answers to the process of a worker, which imports the function anew. Invariant: while an attempt runs, `sys.modules`
holds its own copies, so a lock, a counter or a cache of a module belongs to one attempt and is gone with it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from sysconfig import get_path
from types import FrameType, ModuleType
from typing import Final

from harness.system.own_packages import OURS

_ENTRY: Final = "__main__"
_STANDARD: Final = Path(get_path("stdlib"))
_INSTALLED: Final = {"site-packages", "dist-packages"}


class ModulesOfRun:
    """Hands each attempt of a run a copy of the modules beside `MODULE:FUNCTION`. Mutable.

    The user's modules are those whose top-level module or package lies in the folder of the function's. What they
    import from elsewhere is shared.
    """

    def __init__(self, sut: str) -> None:
        self._module = sut.partition(":")[0]
        self.is_importing = False
        """Whether an attempt imports now, which may take long and takes no virtual time."""
        self.shared: str | None = None
        """Why attempts share the modules, in a sentence; None: they do not."""
        import_module(self._module)
        self._top = self._module.partition(".")[0]
        self._folder = _folder_of(sys.modules[self._top])
        self._whose: dict[str, bool] = {}
        self._first: ModuleCopy | None = None
        self._entered: ModuleCopy | None = None

    def copy(self) -> ModuleCopy:
        """The modules of the next attempt; it has them from now on."""
        if self._first is None:
            self._first = ModuleCopy(self)
            self.enter(self._first)
        elif self.shared is None and self._top not in OURS:
            self._import_again()
        return self._entered or self._first

    def enter(self, copy: ModuleCopy) -> None:
        """Let `copy` be what is imported."""
        if self._entered is not copy:
            self._leave()
            sys.modules.update(copy.modules)
            copy.size = len(sys.modules)
            self._entered = copy

    def close(self) -> None:
        """Let the modules be those that were imported before the run."""
        if self._first is not None:
            self.enter(self._first)

    def _import_again(self) -> None:
        self._leave()
        self._entered = None
        self.is_importing = True
        try:
            import_module(self._module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may refuse to be imported twice
            why = f"{type(error).__name__}: {error}"
            self.shared = (
                f"The attempts shared the variables of {self._module}, which cannot be imported twice ({why}); "
                "in a job each worker has its own"
            )
            self.close()
        else:
            self.enter(ModuleCopy(self))
        finally:
            self.is_importing = False

    def _leave(self) -> None:
        """Take the user's modules away; those that were imported late stay with the attempt that imported them."""
        entered = self._entered
        if entered is not None and entered.size != len(sys.modules):
            entered.modules = self.present()
        for name in self.present() if entered is None else entered.modules:  # `present` costs 1 ms
            del sys.modules[name]

    def present(self) -> dict[str, ModuleType]:
        """The user's modules that are imported now."""
        return {name: module for name, module in list(sys.modules.items()) if self._is_users(name)}

    def _is_users(self, name: str) -> bool:
        top = name.partition(".")[0]
        known = self._whose.get(top)
        if known is None:
            found = sys.modules.get(top)
            beside = found is not None and self._folder is not None and _folder_of(found) == self._folder
            known = self._whose[top] = top not in {*OURS, _ENTRY} and (top == self._top or beside)
        return known


class ModuleCopy:
    """The user's modules as one attempt has them. Mutable: an attempt may import more."""

    def __init__(self, run: ModulesOfRun) -> None:
        self._run = run
        self.modules = run.present()
        self.size = len(sys.modules)
        """How many modules there were in all, when these were known."""

    def has(self, frame: FrameType) -> bool:
        """Whether the code of `frame` is in one of these modules."""
        return frame.f_globals.get("__name__") in self.modules

    def enter(self) -> None:
        """Let these be what is imported."""
        self._run.enter(self)


def _folder_of(top: ModuleType) -> Path | None:
    """The folder of the import path in which it lies; None: in none, or where packages are installed."""
    file = getattr(top, "__file__", None)
    places = [file] if file else list(getattr(top, "__path__", ()))
    if not places:
        return None
    place = Path(places[0])
    folder = place.parent.parent if place.name == "__init__.py" else place.parent
    return None if folder.name in _INSTALLED or folder == _STANDARD else folder
