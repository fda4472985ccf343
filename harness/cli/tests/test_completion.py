"""A shell completes commands and names; what it asks is answered without a traceback."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from harness.cli.completion import _names_for
from harness.cli.main import COMPLETE, floodmark, main
from tools.cases import each


def completed(*words: str) -> list[str]:
    """What a shell is offered for the last of `words`."""
    shell = ShellComplete(floodmark, {}, "floodmark", COMPLETE)
    *before, last = words
    return [item.value for item in shell.get_completions(before, last)]


@each(
    ("words", "offered"),
    [
        (["tre"], ["trend"]),
        (["run", "latency-spike-o"], ["latency-spike-ordered"]),
        (["run", "--mutant", "unordered-em"], ["unordered-emission"]),
        (["run", "--tag", "gat"], ["gate"]),
        (["list", "scenarios", "--fault", "kill_que"], ["kill_query"]),
        (["job", "late-com"], ["late-commit"]),
        (["run", "--level", "s"], ["sim", "spark"]),
        (["run", "--baseli"], ["--baseline"]),
    ],
)
def test_a_name_is_completed(words: list[str], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_what_is_no_name_may_be_a_file() -> None:
    shell = ShellComplete(floodmark, {}, "floodmark", COMPLETE)

    (item,) = shell.get_completions(["run"], "./my")

    assert (item.type, item.value) == ("file", "./my")


def test_a_completion_never_fails() -> None:
    def broken() -> list[str]:
        raise OSError

    complete = _names_for(broken)

    assert complete(None, None, "x") == []  # type: ignore[arg-type]  # it asks neither


def test_the_shells_question_is_answered_with_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {
        COMPLETE: "bash_complete",
        "COMP_WORDS": "floodmark run --tag gat",
        "COMP_CWORD": "3",
    }.items():
        monkeypatch.setenv(name, value)

    assert main([]) == 0
    assert capsys.readouterr() == ("plain,gate\n", "")


@pytest.mark.parametrize(("shell", "sign"), [("zsh", "compdef"), ("fish", "complete --no-files")])
def test_click_prints_the_script_of_a_shell(
    shell: str, sign: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(COMPLETE, f"{shell}_source")

    assert main([]) == 0
    assert sign in capsys.readouterr().out
