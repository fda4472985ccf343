"""Project defaults: `[tool.floodmark]` in the nearest pyproject.toml.

Environment variables and the command line override them. Invariant: an unknown setting is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from harness.system.errors import UsageError
from harness.system.json_types import Json

OPTIONS = (
    "level", "world", "proxy", "sut", "expected", "seed", "runs", "jobs", "mutant", "report", "format", "keep",
    "budget", "runner", "cluster", "master", "on", "schema", "data", "records", "sql", "set", "tag", "offline",
    "quiet", "verbose", "no-color", "fail-on", "baseline", "open",
)  # fmt: skip
"""The options of `docs/reference/command-line.md` that a project may set."""

_PARAMETERS = {
    "schema": "own_schema",
    "data": "own_data",
    "records": "own_records",
    "set": "settings",
    "tag": "tags",
    "format": "form",
    "no-color": "no_color",
    "open": "opens",
}
"""Options whose parameter has another name in the code."""


def project_settings(commands: Iterable[str]) -> Json:
    """The settings for every command, as click's `default_map`; empty if the nearest pyproject.toml has none."""
    folders = (Path.cwd(), *Path.cwd().parents)
    file = next((f for folder in folders if (f := folder / "pyproject.toml").is_file()), None)
    if file is None:
        return {}
    try:
        tools = tomllib.loads(file.read_text("utf-8")).get("tool", {})
        found = tools.get("floodmark", {}) if isinstance(tools, dict) else tools
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        message = f"{file}: {error}"
        raise UsageError(message, fix="correct the file, or run floodmark from another folder") from error
    if not isinstance(found, dict):
        message = f"{file}: `tool.floodmark` is not a table of settings"
        raise UsageError(message, fix="write [tool.floodmark], and below it one line for each setting")
    settings = {_known(name, file): _placed(name, value, file) for name, value in found.items()}
    return {command: dict(settings) for command in commands}


def _known(name: str, file: Path) -> str:
    if name not in OPTIONS:
        from difflib import get_close_matches  # late, so that `--help` is fast

        close = get_close_matches(name, OPTIONS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from: {', '.join(OPTIONS)}"
        message = f"{file}: [tool.floodmark] has no setting {name!r}"
        raise UsageError(message, fix=hint)
    return _PARAMETERS.get(name, name.replace("-", "_"))


def _placed(name: str, value: object, file: Path) -> object:
    """A path of a user's own file, relative to the pyproject.toml that names it; any other value as it is."""
    match name, value:
        case (("schema" | "records"), str()):
            return str(file.parent / value)
        case "data", str():
            return [str(file.parent / value)]
        case "data", list():
            return [str(file.parent / one) if isinstance(one, str) else one for one in value]
        case _:
            return value
