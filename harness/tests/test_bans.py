"""The linter's bans hold: a second door to time, randomness, loops or the environment is refused.

Each sentence is shown to our own configuration in `pyproject.toml` and convicted by the rule that is meant
for it, so that no edit of the configuration opens a door in silence.
"""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest

from harness.tests.tidy import ROOT
from tools.cases import each

RUFF = Path(sysconfig.get_path("scripts")) / "ruff"

REFUSED = [
    "import time",
    "from time import sleep",
    "import random",
    "from secrets import token_hex",
    "from datetime import datetime, UTC; datetime.now(UTC)",
    "from datetime import date; date.today()",
    "import os; os.environ['X']",
    "import os; os.getenv('X')",
    "import os; os.urandom(4)",
    "from uuid import uuid4",
    "import asyncio; asyncio.new_event_loop()",
    "import asyncio; asyncio.run(x)",
    "from threading import Timer",
]

DOORS = [
    ("harness/system/clock.py", "import time"),
    ("harness/system/choices.py", "import random"),
    ("reference_impl/mailbox/loops.py", "import asyncio; asyncio.new_event_loop()"),
    ("harness/cli/run.py", "import os; os.environ['X']"),
    ("harness/testing/pytest_plugin.py", "import os; os.environ['X']"),
]


def convictions(path: str, source: str) -> list[str]:
    """The codes that ruff, with our configuration, gives `source` if it stood at `path`."""
    answer = subprocess.run(
        [RUFF, "check", "--output-format=json", f"--stdin-filename={path}", "-"],
        input=source + "\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return [finding["code"] for finding in json.loads(answer.stdout)]


@each("source", REFUSED)
def test_a_second_door_is_refused(source: str) -> None:
    assert "TID251" in convictions("harness/faults/newcomer.py", source)


@each("source", REFUSED)
def test_a_second_door_is_refused_in_tests_too(source: str) -> None:
    assert "TID251" in convictions("harness/tests/test_newcomer.py", source)


@pytest.mark.parametrize(("path", "source"), DOORS)
def test_the_one_door_is_open(path: str, source: str) -> None:
    assert "TID251" not in convictions(path, source)


def test_a_name_of_the_standard_library_is_refused_for_a_module() -> None:
    assert "A005" in convictions("reference_impl/queue.py", '"""A queue."""')
