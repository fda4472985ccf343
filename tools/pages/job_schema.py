"""The JSON Schema (draft 07) of job files and the tables of their keys, generated from the model.

`python -m tools.pages.job_schema` rewrites the schema, and the part of `docs/how-to/jobs.md` between its two marks; a
test fails while one of them is stale. Invariant: both list exactly the keys that `floodmark job` reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticUndefined

from harness.faults.parts.parts import Part
from harness.levels.job.job_file import (
    Claims,
    Job,
    JobFile,
    JobStop,
    LookupTables,
    SinkTable,
    SourceFields,
    SourcePlace,
)
from tools.pages.scenario_schema import draft_07, written_defaults

_ROOT: Final = Path(__file__).resolve().parents[2]
JOB_SCHEMA = _ROOT / "harness" / "schemas" / "job.v1.json"
PAGE = _ROOT / "docs" / "how-to" / "jobs.md"
_BEGIN: Final = "<!-- keys: made by `python -m tools.pages.job_schema` -->\n"
_END: Final = "<!-- end of the keys -->\n"
_PARTS: Final[tuple[type[Part], ...]] = (
    Job,
    JobStop,
    SourcePlace,
    SourceFields,
    LookupTables,
    SinkTable,
    Claims,
)
_TABLES: Final[Mapping[str, type[Part]]] = {
    "job": Job,
    "source": SourcePlace,
    "lookups": LookupTables,
    "sink": SinkTable,
    "claims": Claims,
}
_INNER: Final[Mapping[type[Part], str]] = {JobStop: "stop", SourceFields: "fields"}


def job_schema_text() -> str:
    """The content of the schema's file."""
    return json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"


def job_schema() -> dict[str, Any]:
    """The schema as plain data."""
    made = JobFile.model_json_schema(by_alias=True, mode="validation")
    definitions = made.pop("$defs")
    made["properties"].pop("folder", None)
    for part in _PARTS:
        written_defaults(part, definitions[part.__name__])
    for entry in made["properties"].values():
        entry.pop("default", None)
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Floodmark job file, version 1",
        **{key: value for key, value in made.items() if key != "title"},
        "definitions": definitions,
    }
    cleaned: dict[str, Any] = draft_07(whole)
    return cleaned


def keys_text() -> str:
    """The tables of all keys, for the page."""
    return "\n".join(_tables())


def _tables() -> Iterator[str]:
    for table, part in _TABLES.items():
        yield f"**`[{table}]`** {part.__doc__}\n"
        yield "| key | default | meaning |"
        yield "|---|---|---|"
        yield from _rows(part)
        yield ""


def _rows(part: type[Part], *, inside: str = "") -> Iterator[str]:
    for name, field in part.model_fields.items():
        inner = next((kind for kind, key in _INNER.items() if key == name and not inside), None)
        if inner is not None:
            yield from _rows(inner, inside=f"{name}.")
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        required = field.default is PydanticUndefined or field.default is None
        value = "" if required else adapter.dump_python(field.default, mode="json")
        shown = "" if required else f"`{json.dumps(value)}`"
        about = str(field.description).replace("|", "\\|")
        yield f"| `{inside}{field.alias or name}` | {shown} | {about} |"


def page_text(page: str) -> str:
    """The page with its generated part made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{keys_text()}\n{_END}{after}"


def main() -> None:
    """Writes both files."""
    JOB_SCHEMA.write_text(job_schema_text(), encoding="utf-8")
    PAGE.write_text(page_text(PAGE.read_text("utf-8")), encoding="utf-8")
    sys.stdout.write(f"{JOB_SCHEMA}\n{PAGE}\n")


if __name__ == "__main__":
    main()
