"""The program that compares two systems on random scripts, and the scripts that it saves."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.conform.protocol.comparison import MismatchKind
from harness.conform.protocol.coverage import SIGHTS
from harness.conform.protocol.script import CallName, Life, Script, value_key
from harness.conform.protocol.tests.test_differential import fake
from harness.system.errors import Exit, UsageError
from tools.trials.differential import differential, load_script, save_script


def test_the_command_prints_the_seed_first_and_saves_what_can_be_replayed(tmp_path: Path) -> None:
    left, right = (shlex.join(fake(plant)) for plant in ("", "forgets the timestamp"))
    systems = ["--left", left, "--right", right, "--profile", "strict"]

    ran = CliRunner().invoke(
        differential, [*systems, "--scripts", "50", "--seed", "4", "--save", str(tmp_path)]
    )
    saved = tmp_path / "difference-1.json"
    again = CliRunner().invoke(differential, [*systems, "--replay", str(saved)])
    alike = CliRunner().invoke(
        differential, ["--left", left, *systems[2:], "--right", left, "--replay", str(saved)]
    )

    assert (ran.exit_code, again.exit_code, alike.exit_code) == (Exit.VIOLATION, Exit.VIOLATION, Exit.HOLD)
    assert ran.stdout.startswith("seed 4 ")
    assert all(sight in ran.stdout for sight in SIGHTS)
    assert "scripts/s" in ran.stdout
    assert MismatchKind.OUTPUTS in again.stdout


def test_a_saved_script_is_read_back(tmp_path: Path) -> None:
    name = CallName(value=value_key({"n": 1.5}), attempt=2, nth=1)
    commands = (
        {"cmd": "complete", "call": name, "results": []},
        {"cmd": "complete", "call": 3, "results": [1]},
    )
    life = Life(config={"mode": "ordered"}, now=-3, restore=7, commands=commands)
    script = Script(name="by hand", lives=(life, Life(config={})))

    save_script(tmp_path / "saved.json", script)

    assert load_script(tmp_path / "saved.json") == script


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"format": "another", "name": "", "lives": []})])
def test_what_is_no_saved_script_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)

    with pytest.raises(UsageError, match="wrong.json is not a saved script"):
        load_script(path)
