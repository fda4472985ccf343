"""What a command says agrees with what was judged; a report or an exit code that does not is an error (T9)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import Exit, HarnessError
from harness.runs.outcome import RunOutcome
from harness.verdict import Judgement
from reports import junit, markdown, page, pretty, run_document, write
from reports.agreement import refuse_other_exit, refuse_other_files, refuse_other_lines
from reports.pretty import print_outcomes, terminal
from reports.reading import Reading, Tone

WRONG = ["--mutant", "unordered-emission"]
"""A planted defect that V1 convicts; the tests forget that it was planted."""
