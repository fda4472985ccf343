"""Defects of the report and the exit code, each planted in one of their parts (T9): none may hide a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from harness.engine import campaign, perform
from harness.history import files
from harness.scenario import outcome as outcome_values
from harness.system.errors import Exit
from harness.tests.harness_defects import Plant
from reports import junit, pretty, run_document, run_section, write
from reports import reading as report_reading
from reports.reading import Reading, Tone


def _documents_a_pass(patch: pytest.MonkeyPatch) -> None:
    honest: Callable[..., Any] = run_document._run

    def flattering(section: Any) -> Any:
        good = {"verdict": "pass", "as_expected": True, "reading": "conformant"}
        return msgspec.structs.replace(honest(section), **good)

    patch.setattr(run_document, "_run", flattering)


def _reads_everything_well(patch: pytest.MonkeyPatch) -> None:
    good = Reading(tone=Tone.GOOD, word="conformant", sentence="All is well.")
    for module in (run_section, run_document, report_reading):
        patch.setattr(module, "read_run", lambda outcome: good)


def _prints_a_pass(patch: pytest.MonkeyPatch) -> None:
    honest: Any = pretty._headline
    good = Reading(tone=Tone.GOOD, word="conformant", sentence="All is well.")
    patch.setattr(pretty, "_headline", lambda reading: honest(good))


def _is_never_red(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(junit, "_result", lambda *_: None)
    patch.setattr(junit, "_is_red", lambda case: True)


def _expects_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcome_values, "seen_as_expected", lambda *_: True)


def _exits_with_0(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(campaign.Finished, "exit_code", property(lambda self: Exit.HOLD))


def _writes_another_word(name: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        honest: Any = getattr(write, name)
        patch.setattr(write, name, lambda *parts, **more: honest(*parts, **more).replace("convicted", "well"))

    return plant


def _keeps_the_old_document(patch: pytest.MonkeyPatch) -> None:
    first: list[str] = []

    def stale(document: Any) -> str:
        first.append(run_document.document_text(document).replace(document.runs[0].run_id, "another"))
        return first[0]

    patch.setattr(write, "document_text", stale)


def _breaks_the_schema(patch: pytest.MonkeyPatch) -> None:
    honest = run_document.document_text
    patch.setattr(write, "document_text", lambda document: honest(document).replace('"title"', '"name"', 1))


def _counts_too_much(patch: pytest.MonkeyPatch) -> None:
    honest: Any = outcome_values.RunOutcome

    def boasting(**parts: Any) -> Any:
        accounting = {**parts["accounting"], "rows": parts["accounting"]["rows"] + 1}
        return honest(**{**parts, "accounting": accounting})

    patch.setattr(perform, "RunOutcome", boasting)


def _stores_another_history(patch: pytest.MonkeyPatch) -> None:
    honest = files.write
    patch.setattr(perform, "write", lambda path, header, events: honest(path, header, events[:-2]))


IN_THE_REPORT: Mapping[str, tuple[Plant, str]] = {
    "document": (_documents_a_pass, "run.json of run"),
    "reading": (_reads_everything_well, "run.json of run"),
    "headline": (_prints_a_pass, "the printed headlines"),
    "junit": (_is_never_red, "junit.xml is not red"),
    "expected": (_expects_everything, "run.json of run"),
    "exit code": (_exits_with_0, "the exit code is 0"),
    "summary": (_writes_another_word("markdown_text"), "the headline of summary.md is not"),
    "page": (_writes_another_word("page_text"), "the headline of index.html is not"),
    "document of another run": (_keeps_the_old_document, "run.json holds other runs"),
    "document without its schema": (_breaks_the_schema, "is not a run document of schema version 1"),
    "counts": (_counts_too_much, "rows, the report says"),
    "history": (_stores_another_history, "events, the report says"),
}
"""Those of the report and the exit code, for a run that did not go as expected."""
