"""`docs/reference/scenarios.md` tells the truth: its example runs, and it names every field, fault and trigger."""

from __future__ import annotations

import re

import pytest

from harness.faults.parts.parts import Expectations, Operator, Part, Task, Workload
from harness.faults.parts.triggers import TRIGGERS
from harness.faults.registry import FAULTS
from harness.scenario.catalogue import catalogue_folder
from harness.scenario.file import apply_settings, loads
from harness.scenario.model import Scenario
from tools.pages.scenario_schema import scenario_schema

PAGE = (catalogue_folder().parent / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]


def rows(section: str) -> list[list[str]]:
    """The tables' rows below the heading of `section`, cell by cell."""
    _, _, after = PAGE.partition(f"\n## {section}\n")
    body = after.partition("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.mark.parametrize(
    ("section", "part"),
    [("The scenario", Scenario), ("`operator`", Operator), ("`workload`", Workload), ("`task`", Task)],
)
def test_every_field_is_on_the_page_with_its_default(section: str, part: type[Part]) -> None:
    whole = scenario_schema()
    schema = whole if part is Scenario else whole["definitions"][part.__name__]
    told = {row[0].strip("`"): row[2].strip("`") for row in rows(section)}

    assert list(told) == [field.alias or name for name, field in part.model_fields.items()]
    for name, entry in schema["properties"].items():
        default = entry.get("default", "none")
        optional = str(default).lower() if isinstance(default, bool) else str(default).replace("'", "")
        default = optional if name not in schema.get("required", []) else "required"
        assert told[name] == default


def test_every_trigger_and_every_other_field_is_on_the_page() -> None:
    parts = (*FAULTS.values(), Expectations, *TRIGGERS.values())
    names = {field.alias or name for part in parts for name, field in part.model_fields.items()}

    assert [name for name in sorted(names) if not re.search(rf"[`{{ ]{name}[`:]", PAGE)] == []


def test_the_example_is_sound() -> None:
    assert loads(EXAMPLE).scenario == "latency-and-a-kill"


def test_the_settings_shown_are_settings() -> None:
    shown = re.findall(r"--set '?([^'\n]*?=(?:\{[^}]*\}|[^' \n]+))'?", PAGE)
    shown = [setting for setting in shown if not setting.startswith("KEY")]

    assert len(shown) == 3
    assert apply_settings(loads(EXAMPLE), shown[:2]).workload.records == 2000
    assert apply_settings(loads(EXAMPLE), shown[2:]) != loads(EXAMPLE)
