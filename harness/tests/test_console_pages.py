"""What a page tells the reader to type prints what the page shows (`console_page.py` tells how a page is read)."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.tests.console_page import Changed, Saved, Typed, difference, session
from harness.tests.tidy import ROOT
from tools.cases import each

PAGES = [
    "docs/tutorial/first-bug.md",
    "docs/tutorial/your-job.md",
    "docs/how-to/own-operator.md",
    "docs/how-to/spark-job.md",
]
TIERS = {
    "sim": [pytest.mark.sweep],
    "sweep": [pytest.mark.sweep, pytest.mark.timeout(300)],
    "real": [pytest.mark.real, pytest.mark.timeout(300)],
    "soak": [pytest.mark.soak, pytest.mark.timeout(1800)],
}
SESSIONS = [
    pytest.param(page, tier, marks=TIERS[tier], id=f"{page}-{tier}")
    for page in PAGES
    for tier in dict.fromkeys(
        step.tier for step in session((ROOT / page).read_text(encoding="utf-8")) if isinstance(step, Typed)
    )
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The reader's folder, in which the commands are executed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FLOODMARK_WORLD", "local")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    yield tmp_path
    forget_modules(tmp_path)


def forget_modules(folder: Path) -> None:
    """Lets a module that was saved anew be imported anew."""
    importlib.invalidate_caches()
    for file in folder.glob("*.py"):
        sys.modules.pop(file.stem, None)


def inside(words: list[str]) -> tuple[int, str]:
    """The exit code and the output of `floodmark`, executed in this process."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(words[1:])
    return code, printed.getvalue()


def outside(words: list[str]) -> tuple[int, str]:
    """The exit code and the output of `floodmark` or `pytest`, executed in a process of its own."""
    module = {"floodmark": "harness", "pytest": "pytest"}[words[0]]
    answer = subprocess.run(
        [sys.executable, "-m", module, *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout


def execute(typed: Typed, *, folder: Path, code: int) -> tuple[int, str]:
    """The exit code and the output of a command of a page, after a command that ended with `code`."""
    words = shlex.split(typed.words, comments=True)
    if words == ["echo", "$?"]:
        return 0, f"{code}\n"
    if words[0] == "floodmark" and typed.tier == "sim":
        forget_modules(folder)
        return inside(words)
    return outside(words)


def change(asked: Changed, *, folder: Path) -> None:
    text = (folder / asked.name).read_text(encoding="utf-8")
    assert text.count(asked.was) == 1, f"{asked.name} has this once: {asked.was}"
    (folder / asked.name).write_text(text.replace(asked.was, asked.becomes), encoding="utf-8")


def save(file: Saved, *, folder: Path) -> None:
    (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
    (folder / file.name).write_text(file.text, encoding="utf-8")


@pytest.mark.parametrize(("page", "tier"), SESSIONS)
def test_the_commands_of_a_page_print_what_it_shows(folder: Path, page: str, tier: str) -> None:
    code = 0
    for step in session((ROOT / page).read_text(encoding="utf-8")):
        if isinstance(step, Saved):
            save(step, folder=folder)
        elif isinstance(step, Changed):
            change(step, folder=folder)
        elif step.tier == tier:
            code, printed = execute(step, folder=folder, code=code)
            told = difference(step, printed)
            assert not told, f"{page}: {told}"


def test_a_line_that_was_not_printed_is_named_with_its_place() -> None:
    [typed] = session("# Page\n\n```console\n$ floodmark doctor\nok    one\nok    two\n```\n")

    assert isinstance(typed, Typed)
    assert "line 6 of the page is not printed: ok    two" in difference(typed, "ok    one\nbad   two\n")
    assert "line 6 of the page is not printed: the end" in difference(typed, "ok    one\nok    two\nmore\n")
    assert not difference(typed, "ok    one\nok    two \n")


@each(
    ("shown", "printed", "equal"),
    [
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\nd\n", "a\nb\n", False),
        ("took ... s, rest\n", "took 4 s, rest\n", True),
        ("took ... s\n", "took 4\n5 s\n", False),
        ("out/20260101-000000-000000/x\n", "out/20271231-235959-999999/x\n", True),
        ("after 3.000 ms\n", "after 4.000 ms\n", False),
        ("", "", True),
        ("", "more\n", False),
    ],
)
def test_dots_stand_for_anything_and_all_else_is_compared(shown: str, printed: str, *, equal: bool) -> None:
    typed = Typed(line=1, words="x", shown=shown, tier="sim")

    assert (not difference(typed, printed)) == equal


def test_times_and_process_ids_are_compared_of_simulated_runs_only() -> None:
    shown, printed = "pid 7 after 3.5 s, 10 rows\n", "pid 8 after 12 ms, 10 rows\n"

    assert difference(Typed(line=1, words="x", shown=shown, tier="sim"), printed)
    assert not difference(Typed(line=1, words="x", shown=shown, tier="real"), printed)


def test_a_session_is_what_is_saved_and_typed_in_order_with_its_tier() -> None:
    saved = "```python\n# a.py\nx = 1\n```\n\n"
    page = f"{saved}<!-- tier: real -->\n```console\n$ one\nsays\n$ two\n```\n\n```\n$ three\n```\n"

    assert list(session(page)) == [
        Saved(name="a.py", text="# a.py\nx = 1\n"),
        Typed(line=8, words="one", shown="says\n", tier="real"),
        Typed(line=10, words="two", shown="", tier="real"),
    ]
