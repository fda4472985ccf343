"""The versions of Python, the system and the packages that a run used, for reports."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_ALWAYS = ("floodmark", "asyncmy", "pymysql", "msgspec", "pydantic", "faker")
_SPARK = ("pyspark", "pyarrow")


def versions(level: str) -> dict[str, str]:
    """The versions of Python, the system and the packages used at `level`."""
    packages = _ALWAYS + (_SPARK if level == "spark" else ())
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **{name: _version(name) for name in packages},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


VERSION = _version("floodmark")
