"""The same seed leaves the same bytes in another process with another hash seed."""

from __future__ import annotations

from typing import Self

import pytest

from harness.system.errors import Exit
from tools.trials import equality


def test_a_difference_is_told_and_costs_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Process:
        def __init__(self, digest: str) -> None:
            self.stdout = iter([f"run 1 9 {digest}\n"])
            self.returncode = 0

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            """Over."""

    digests = iter(["aa", "bb"])
    monkeypatch.setattr(equality, "_process", lambda *_: Process(next(digests)))

    assert equality.main(["--runs", "1"]) == Exit.VIOLATION

    said = capsys.readouterr().out
    assert "differs: run 1 9 aa and run 1 9 bb" in said
    assert "1 differences" in said


@pytest.mark.soak
def test_histories_are_equal_across_processes_and_hash_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert equality.main(["--runs", "50"]) == Exit.HOLD

    assert ": 0 differences" in capsys.readouterr().out
