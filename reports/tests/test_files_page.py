"""`docs/reference/report-files.md` names each file and each field that is written, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from harness.conform.filing import TwiceJudged, verdict_document
from harness.scenario.outcome import Pitfall
from harness.tests.tidy import ROOT
from reports.baseline import write_comparison
from reports.campaign_view import view_of
from reports.junit import junit_text
from reports.past_report import report_of
from reports.tests.job_sample import killed_twice
from reports.tests.sample import hostile_outcome, lost_outcome, many, pass_outcome
from reports.write import write_report
from tools.cases import each

PAGE = (ROOT / "docs" / "reference" / "report-files.md").read_text(encoding="utf-8")
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    name: json.loads((ROOT / "reports" / "schemas" / f"{name}.v1.json").read_text(encoding="utf-8"))["$defs"]
    for name in ("run", "certificate")
}
PARTS = [(name, part) for name, parts in SCHEMAS.items() for part in parts]
MADE_BY_A_RUN = {"runs/", "database/"}
"""The folders of a report that a run makes, before there is a report."""


def listed(mark: str) -> list[str]:
    """The names in the first column of the table behind `<!-- mark -->`, each as often as it stands there."""
    found = re.search(rf"^<!-- {re.escape(mark)} -->\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert found is not None, f"the page has no table {mark}"
    rows = found[1].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def marks() -> set[str]:
    return set(re.findall(r"^<!-- (.+) -->$", PAGE, re.MULTILINE))


@each(("document", "part"), PARTS)
def test_the_fields_of_a_part_are_those_of_the_schema(document: str, part: str) -> None:
    assert sorted(listed(f"fields: {document} {part}")) == sorted(SCHEMAS[document][part]["properties"])


def test_no_table_is_of_a_part_that_there_is_not() -> None:
    of_schemas = {f"fields: {document} {part}" for document, part in PARTS}
    others = {"files: report", "properties: junit", "fields: verdict run"}

    assert marks() == of_schemas | others | {
        f"fields: baseline {of}" for of in ("report", "scenario", "measure")
    }


def test_the_versions_that_the_page_tells_are_those_of_the_schemas() -> None:
    for document, part in (("run", "Document"), ("certificate", "Certificate")):
        assert SCHEMAS[document][part]["properties"]["schema_version"] == {"enum": [1]}
    assert PAGE.count("`schema_version` is 1.") == len(SCHEMAS)


def compared_twice(folder: Path) -> Path:
    """A report of a run, written over an earlier one and compared with it."""
    outcome = pass_outcome(folder, measures={"latency_p50": 3.0})
    report, before = folder / "report", folder / "before"
    for _ in range(2):
        write_report([outcome], report, title="t", tell=lambda _: None)
    write_report([outcome], before, title="t")
    write_comparison(report, baseline=report_of(before))
    return report


def test_the_files_of_a_report_are_those_of_the_page(tmp_path: Path) -> None:
    written = {f"{path.name}/" if path.is_dir() else path.name for path in compared_twice(tmp_path).iterdir()}

    assert set(listed("files: report")) == written | MADE_BY_A_RUN


def test_the_fields_of_a_comparison_are_those_of_the_page(tmp_path: Path) -> None:
    told = json.loads((compared_twice(tmp_path) / "baseline.json").read_text(encoding="utf-8"))
    (scenario,) = told["scenarios"]

    assert listed("fields: baseline report") == list(told)
    assert sorted(listed("fields: baseline scenario")) == sorted(scenario)
    assert listed("fields: baseline measure") == list(scenario["measures"][0])


def test_the_fields_of_a_verdict_are_those_of_the_page(tmp_path: Path) -> None:
    outcome = lost_outcome(tmp_path)
    judged = TwiceJudged(
        judgement=outcome.judgement.as_json(), second="agrees", second_verdict="fail", differs=()
    )

    written = verdict_document(outcome, judged)

    assert written["verdict_version"] == 1
    assert sorted(listed("fields: verdict run")) == sorted(written)


def reports_of_each_kind(folder: Path) -> Iterator[str]:
    """JUnit files that have, together, all that one can have."""
    pitfall = Pitfall(name="p", says="It blocks.", advice="Do not.", evidence={})
    for name in ("passed", "lost", "hostile", "job", "campaign"):
        (folder / name).mkdir()
    yield junit_text(view_of([replace(pass_outcome(folder / "passed"), pitfalls=(pitfall,))]), title="t")
    yield junit_text(view_of([lost_outcome(folder / "lost")]), title="t")
    yield junit_text(view_of([hostile_outcome(folder / "hostile")]), title="t")
    yield junit_text(view_of([killed_twice(folder / "job")]), title="t")
    yield junit_text(many(folder / "campaign"), title="t")


def test_the_properties_of_the_suites_are_those_of_the_page(tmp_path: Path) -> None:
    roots = [ET.fromstring(text.encode()) for text in reports_of_each_kind(tmp_path)]  # noqa: S314 - our own text
    written = {str(one.get("name")) for root in roots for one in root.iter("property")}

    assert set(listed("properties: junit")) == written
