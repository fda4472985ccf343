"""`floodmark list`: names that work, one sentence each, for people, tables and machines."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness.cli.list import list_
from harness.history.invariants import INVARIANTS
from harness.scenario.catalogue import catalogue
from harness.sut.defects import HARNESS_CHECKS

KINDS = ["scenarios", "faults", "invariants", "suts", "mutants"]


def listed(kind: str, form: str = "pretty") -> str:
    result = CliRunner().invoke(list_, [kind, "--format", form], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_each_name_has_one_sentence_on_its_line(kind: str) -> None:
    rows = json.loads(listed(kind, "json"))[kind]

    lines = listed(kind).splitlines()

    assert [line.split()[0] for line in lines] == [row["name"] for row in rows]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_as_many_cells_in_every_row(kind: str) -> None:
    lines = listed(kind, "markdown").splitlines()

    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert len(lines) > 2


def test_scenarios_are_those_of_the_catalogue() -> None:
    assert [row["name"] for row in json.loads(listed("scenarios", "json"))["scenarios"]] == list(catalogue())


def test_every_planted_defect_names_a_scenario_or_none_and_who_must_convict_it() -> None:
    for row in json.loads(listed("mutants", "json"))["mutants"]:
        assert row["scenario"] is None or row["scenario"] in catalogue()
        assert set(row["convicted_by"]) <= {*INVARIANTS, *HARNESS_CHECKS}
        assert row["convicted_by"]


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(list_, ["toxics"])

    assert result.exit_code != 0
    assert "scenarios" in result.stderr
