"""The versions of Python, the system and the packages that a run used, for reports."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_ALWAYS = ("floodmark", "asyncmy", "pymysql", "msgspec", "pydantic", "faker")


def versions(more: Sequence[str]) -> dict[str, str]:
    """The versions of Python, the system, the packages that every level may use, and of `more` packages."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **{name: _version(name) for name in (*_ALWAYS, *more)},
    }


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


VERSION = _version("floodmark")
