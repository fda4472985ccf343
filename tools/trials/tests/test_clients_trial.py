"""The trial of clients: one lookup by the pool and by two drivers, and where their verdicts differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tools.trials.clients_trial import main


@pytest.mark.real
@pytest.mark.timeout(120)
def test_each_client_has_its_column_and_a_difference_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"

    ran = CliRunner().invoke(main, ["calm", "keys-composite", "--write", str(page)])

    assert ran.exit_code == 0, ran.output
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[-4:] == [
        "| scenario | pool | asyncmy | aiomysql |",
        "| --- | --- | --- | --- |",
        "| calm | pass | pass | pass |",
        "| keys-composite | pass | pass | pass |",
    ]
    assert "2 of 2 verdicts are those of the pool" in ran.output
