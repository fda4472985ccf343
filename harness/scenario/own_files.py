"""The files of a user's own that a scenario names (`schema`, `data`, `records`): their paths and counts.

Invariant: in a scenario that was read, paths are absolute, relative to the file that names them, and `workload.records`
is what the subtask with the most records of the file gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.faults.parts.own_records import dealt, read_records
from harness.scenario.mistakes import validated
from harness.scenario.model import Scenario
from harness.system.errors import UsageError

_SUBTASKS = 2
"""The default of `workload.subtasks`."""


def with_asked_files(
    scenario: Scenario, *, schema: Path | None, data: Sequence[Path], records: Path | None
) -> Scenario:
    """`scenario` with the files that the command line names in place of its own. Raises UsageError."""
    asked = {
        **({} if schema is None else {"schema": str(schema)}),
        **({"data": [str(path) for path in data]} if data else {}),
        **({} if records is None else {"records": str(records)}),
    }
    if not asked:
        return scenario
    plain = {**scenario.model_dump(mode="json", by_alias=True), **asked}
    found = validated(with_own_files(plain, folder=Path.cwd()))
    if isinstance(found, Scenario):
        return found
    options = ", ".join(f"--{name}" for name in asked)
    message = f"scenario {scenario.scenario} with {options}: {'; '.join(mistake.say for mistake in found)}"
    raise UsageError(message, fix="; ".join(dict.fromkeys(mistake.hint for mistake in found if mistake.hint)))


def with_own_files(data: object, *, folder: Path) -> Any:
    """Plain data of a scenario with absolute paths, of which relative ones stand for files in `folder`.

    The counts of `records` replace `workload.records`, and bound `expects.records`. Raises UsageError if the records
    cannot be read.
    """
    if not isinstance(data, Mapping) or not {"schema", "data", "records"} & set(data):
        return data
    found = dict(data)
    for name in ("schema", "records"):
        if isinstance(found.get(name), str):
            found[name] = str(folder / found[name])
    if isinstance(found.get("data"), str):
        found["data"] = [found["data"]]
    if isinstance(found.get("data"), list):
        found["data"] = [str(folder / one) if isinstance(one, str) else one for one in found["data"]]
    return _counted(found) if isinstance(found.get("records"), str) else found


def _counted(data: dict[str, Any]) -> dict[str, Any]:
    records = read_records(data["records"])
    workload, expects = data.get("workload", {}), data.get("expects")
    if not isinstance(workload, Mapping):
        return data
    subtasks = workload.get("subtasks", _SUBTASKS)
    if isinstance(subtasks, int) and subtasks > 0:
        data["workload"] = {**workload, "records": max(map(len, dealt(records, subtasks=subtasks)))}
    if isinstance(expects, Mapping) and isinstance(expects.get("records"), int):
        data["expects"] = {**expects, "records": min(expects["records"], len(records))}
    return data
