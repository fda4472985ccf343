"""Scripts are data: drawn alike from equal seeds, saved and read back without loss."""

from __future__ import annotations

import subprocess
import sys

from harness.conform.protocol.script import (
    ChoiceStream,
    value_key,
)
from harness.conform.protocol.script_drawing import FLAWED, ScriptSettings, draw_script
from harness.system.choices import Choices

SETTINGS = ScriptSettings(
    modes=("ordered", "unordered"),
    profile="flink",
    abilities=frozenset({"ordered", "unordered", "retry", "snapshot", "status", "marker", "flink-profile"}),
)
DIGEST = """
import hashlib
from harness.conform.protocol.tests.test_script import SETTINGS
from harness.conform.protocol.script_drawing import draw_script
text = "".join(str(draw_script(5, number, settings=SETTINGS)) for number in range(30))
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_a_seed_draws_the_same_scripts_in_every_process() -> None:
    digests = [
        subprocess.run(
            ["env", f"PYTHONHASHSEED={hash_seed}", sys.executable, "-c", DIGEST],
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    ]

    assert digests[0] == digests[1]
    assert len(digests[0]) == 65


def test_dice_show_every_side_about_as_often_and_alike_for_alike_purposes() -> None:
    throws = [
        [dice.index(6) for _ in range(6_000)]
        for dice in (ChoiceStream(Choices(1, "a")), ChoiceStream(Choices(1, "a")))
    ]

    assert throws[0] == throws[1]
    assert all(850 < throws[0].count(side) < 1_150 for side in range(6))


def test_another_number_draws_another_script() -> None:
    assert draw_script(5, 1, settings=SETTINGS).lives != draw_script(5, 2, settings=SETTINGS).lives


def test_scripts_keep_to_what_both_systems_claim() -> None:
    poor = ScriptSettings(modes=("ordered",), profile="strict", abilities=frozenset({"ordered"}))
    lives = [life for number in range(200) for life in draw_script(3, number, settings=poor).lives]
    told = {command.get("cmd") for life in lives for command in life.commands if command not in FLAWED}

    assert told.isdisjoint({"snapshot", "status", "marker"})
    assert not any("retry" in life.config for life in lives)
    assert {life.config["mode"] for life in lives} == {"ordered"}


def test_every_value_of_a_script_is_another_one() -> None:
    for number in range(50):
        script = draw_script(8, number, settings=SETTINGS)
        told = [command for life in script.lives for command in life.commands if command not in FLAWED]
        values = [value_key(command["value"]) for command in told if command["cmd"] == "element"]

        assert len(set(values)) == len(values)


def test_a_value_is_known_by_its_json() -> None:
    keys = [value_key(value) for value in (1, 1.0, True, "1", {"a": 1, "b": 2}, {"b": 2, "a": 1})]

    assert len(set(keys)) == 5
    assert keys[4] == keys[5]
