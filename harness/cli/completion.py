"""The names that a shell completes; click completes commands and options, and has the script for the shell.

Invariant: names come from the registries that the commands use, so what is
completed exists; a completion never fails, for a shell would show its traceback in the middle of a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _names_for(listed: Callable[[], Iterable[str]], *, files: bool = False) -> Completer:
    """A completer of the names that `listed` gives; `files`: of files and folders too, if no name fits."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names: list[str] = []
        with suppress(Exception):
            names = [name for name in dict.fromkeys(listed()) if name.startswith(incomplete)]
        if not names and files:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(name) for name in names]

    return complete


def _scenarios() -> Sequence[str]:
    from harness.scenario.catalogue import catalogue

    return ["all", *catalogue()]


def _job_scenarios() -> Sequence[str]:
    from harness.levels.job.job_scenarios import job_catalogue

    return ["all", *job_catalogue()]


def _mutants() -> Iterable[str]:
    from harness.sut.defects import DEFECTS

    return DEFECTS


def _suts() -> Iterable[str]:
    from harness.sut.registry import SUTS

    return SUTS


def _faults() -> Iterable[str]:
    from harness.faults.registry import FAULTS

    return FAULTS


_TAGS = re.compile(r"^tags: *\[([^\]]*)\]", re.MULTILINE)
"""The form of `tags` in the shipped files; a YAML parser would take a second for all of them."""


def _tags() -> Sequence[str]:
    from harness.scenario.catalogue import catalogue_folder

    texts = (path.read_text("utf-8") for path in sorted(catalogue_folder().rglob("*.yaml")))
    return sorted({tag.strip() for text in texts for tags in _TAGS.findall(text) for tag in tags.split(",")})


scenario_names = _names_for(_scenarios, files=True)
job_scenario_names = _names_for(_job_scenarios, files=True)
mutant_names = _names_for(_mutants)
sut_names = _names_for(_suts)
fault_names = _names_for(_faults)
tag_names = _names_for(_tags)
