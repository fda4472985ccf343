"""`docs/reference/testing.md`: every example runs, and the page names what `harness.testing` has."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import harness.testing
from harness.tests.tidy import ROOT
from pytest_floodmark import OPTIONS

PAGE = (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")
EXAMPLES: Mapping[str, str] = dict(
    re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "enrich.py"])
def test_an_example_of_the_page_runs_u5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for saved in ("enrich.py", name):
        (tmp_path / saved).write_text(EXAMPLES[saved])
    words = ["-m", "pytest", "-p", "pytest_floodmark", "-W", "error"] if name.startswith("test_") else []

    done = subprocess.run(
        [sys.executable, *words, name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_block_of_python_is_an_example_with_a_name_u5() -> None:
    assert len(EXAMPLES) == PAGE.count("```python")


def test_the_page_names_everything_that_is_public_u5() -> None:
    spans = " ".join(re.findall(r"`([^`\n]+)`", PAGE)) + " ".join(EXAMPLES.values())

    assert not [name for name in harness.testing.__all__ if not re.search(rf"\b{name}\b", spans)]


def test_the_page_names_every_option_u5() -> None:
    assert not [name for name in OPTIONS if f"`{name}" not in PAGE]


def test_every_public_name_can_be_had_and_is_imported_when_it_is_asked_for() -> None:
    """A lookup imports `MayAskAgain` in each of its workers, which must not import the checkers for that."""
    asked = "from harness.testing import MayAskAgain; import sys; print('harness.judge.checkers.judge' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
    assert [name for name in harness.testing.__all__ if not hasattr(harness.testing, name)] == []
    with pytest.raises(AttributeError, match="module 'harness.testing' has no attribute 'judge'"):
        harness.testing.judge  # type: ignore[attr-defined]  # noqa: B018 - the claim
