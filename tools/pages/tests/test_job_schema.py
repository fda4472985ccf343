"""The JSON Schema of job files and the tables of their keys: fresh, and complete."""

from __future__ import annotations

from harness.levels.job.job_file import JobFile
from tools.pages.job_schema import JOB_SCHEMA, PAGE, job_schema, job_schema_text, page_text
from tools.pages.tests.test_scenario_schema import DRAFT_07, schemas


def test_the_published_schema_of_job_files_is_the_models() -> None:
    """Stale: run `python -m tools.pages.job_schema`."""
    assert JOB_SCHEMA.read_text(encoding="utf-8") == job_schema_text()


def test_the_page_of_jobs_has_the_keys_of_the_model() -> None:
    """Stale: run `python -m tools.pages.job_schema`."""
    page = PAGE.read_text(encoding="utf-8")

    assert page == page_text(page)


def test_the_schema_of_job_files_speaks_draft_07() -> None:
    found = list(schemas(job_schema()))

    assert {key for schema in found for key in schema} <= DRAFT_07 | {"anyOf"}


def test_every_table_of_a_job_file_is_in_the_schema() -> None:
    tables = {name for name, field in JobFile.model_fields.items() if not field.exclude}

    assert job_schema()["properties"].keys() == tables
