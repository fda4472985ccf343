"""Watermarks and statuses of several inputs: the reference emits what the real Flink 2.3.0 emits, step by step.

An operator of several inputs must agree everywhere. The valve has FLINK-40475 and FLINK-38454, which came after 2.3.0:
with the release's rules for a change of status it must agree everywhere; as it is, in the statuses, and it is never
behind Flink with a watermark. `python -m harness.conform.oracle.tests.test_several_inputs 100000` runs more scripts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from harness.conform.oracle.program import SEVERAL_INPUTS, find_oracle
from harness.system.choices import Draw, fresh_seed
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from reference_impl.checkpoints.input_gate import StatusWatermarkValve
from reference_impl.elements import Watermark, WatermarkStatus
from reference_impl.functions.keyed_operators import SeveralInputs

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

SCRIPTS = 2_000
MAX_WATERMARK = 2**63 - 1
"""The last watermark of an input that has ended."""

What: TypeAlias = int | str
Script: TypeAlias = list[tuple[int, What]]
"""Each step: the input, and a watermark or a status."""
Steps: TypeAlias = list[list[What]]
"""What each step of a script emits."""


def drawn_script(draw: Draw, inputs: int) -> Script:
    """Watermarks that rise, stand still or fall; statuses, also repeated ones; ends, after which an input is silent."""
    script: Script = []
    last = dict.fromkeys(range(inputs), draw.between(-3, 3))
    for _ in range(draw.between(4, 40)):
        if not last:
            break
        one = draw.one_of(*last)
        if draw.chance(25):
            del last[one]
            script.append((one, MAX_WATERMARK))
        elif draw.chance(400):
            script.append((one, draw.one_of("idle", "idle", "active")))
        else:
            last[one] += draw.between(-2, 5)
            script.append((one, last[one]))
    return script


def drawn_scripts(seed: int, count: int) -> list[tuple[int, Script]]:
    draw = Draw(seed, "watermarks of several inputs")
    return [(inputs, drawn_script(draw, inputs)) for inputs in [draw.between(2, 4) for _ in range(count)]]


def flinks_answers(command: Sequence[str], of: str, scripts: list[tuple[int, Script]]) -> list[Steps]:
    """What Flink's own class emits at each step of each script."""
    asked = "".join(
        json.dumps({"of": of, "inputs": inputs, "script": script}) + "\n" for inputs, script in scripts
    )
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, timeout=240)
    answers: list[Steps] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(scripts)
    return answers


class Emitted:
    """Collects what is emitted in a step, as the oracle writes it. Mutable."""

    def __init__(self) -> None:
        self.now: list[What] = []

    def emit(self, element: Any) -> None:
        match element:
            case Watermark():
                self.now.append(element.timestamp)
            case WatermarkStatus():
                self.now.append("idle" if element.idle else "active")
            case _:
                raise AssertionError(f"neither watermark nor status: {element}")


def element_of(what: What) -> Watermark | WatermarkStatus:
    return Watermark(timestamp=what) if isinstance(what, int) else WatermarkStatus(idle=what == "idle")


def operators_steps(inputs: int, script: Script) -> Steps:
    emitted = Emitted()
    operator = SeveralInputs([lambda _: None] * inputs, pass_watermark=emitted.emit, emit=emitted.emit)
    steps: Steps = []
    for one, what in script:
        emitted.now = []
        operator.process(one, element_of(what))
        steps.append(emitted.now)
    return steps


class ValveOfTheRelease(StatusWatermarkValve):
    """With the rules of 2.3.0 for a change of status, which FLINK-40475 and FLINK-38454 replace."""

    def _falls_idle(self, channel: Any, output: Any) -> None:
        channel.aligned = False
        had_emitted_the_last = channel.watermark == self._last_output
        if not all(other.idle for other in self._channels):
            if had_emitted_the_last:
                self._emit_least_aligned(output)
            return
        if had_emitted_the_last:
            self._emit_above_last(max(other.watermark for other in self._channels), output)
        self._idle = True
        output.emit(WatermarkStatus(idle=True))

    def _wakes(self, channel: Any, output: Any) -> None:
        self._align_if_caught_up(channel)
        if self._idle:
            self._idle = False
            output.emit(WatermarkStatus(idle=False))


def valves_steps(make: Callable[[int], StatusWatermarkValve], inputs: int, script: Script) -> Steps:
    emitted = Emitted()
    valve = make(inputs)
    steps: Steps = []
    for one, what in script:
        emitted.now = []
        element = element_of(what)
        if isinstance(element, Watermark):
            valve.input_watermark(element, one, emitted)
        else:
            valve.input_watermark_status(element, one, emitted)
        steps.append(emitted.now)
    return steps


def reached(steps: Steps) -> list[int]:
    """The last watermark emitted, after each step."""
    reached: list[int] = []
    last = -(2**63)
    for step in steps:
        last = max([last, *(what for what in step if isinstance(what, int))])
        reached.append(last)
    return reached


def statuses(steps: Steps) -> list[list[str]]:
    return [[what for what in step if isinstance(what, str)] for step in steps]


@pytest.fixture(scope="module")
def command() -> list[str]:
    try:
        return find_oracle(WorldSettings.from_environment(), main=SEVERAL_INPUTS)
    except WorldError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def scripts() -> list[tuple[int, Script]]:
    return drawn_scripts(fresh_seed(), SCRIPTS)


def test_an_operator_of_several_inputs_emits_what_flinks_emits_d1(
    command: list[str], scripts: list[tuple[int, Script]]
) -> None:
    answers = flinks_answers(command, "operator", scripts)

    for (inputs, script), flinks in zip(scripts, answers, strict=True):
        assert operators_steps(inputs, script) == flinks, (inputs, script)
    flushed = [step for steps in answers for step in steps if len(step) == 2 and step[1] == "idle"]
    assert flushed, "no script let all inputs fall idle below the highest watermark, so nothing was shown"


def test_the_valve_with_the_rules_of_the_release_emits_what_flinks_emits_d1(
    command: list[str], scripts: list[tuple[int, Script]]
) -> None:
    answers = flinks_answers(command, "valve", scripts)

    for (inputs, script), flinks in zip(scripts, answers, strict=True):
        assert valves_steps(ValveOfTheRelease, inputs, script) == flinks, (inputs, script)


def test_the_valve_tells_the_same_statuses_as_flinks_and_is_never_behind_it_d1(
    command: list[str], scripts: list[tuple[int, Script]]
) -> None:
    answers = flinks_answers(command, "valve", scripts)

    ahead = 0
    for (inputs, script), flinks in zip(scripts, answers, strict=True):
        ours = valves_steps(StatusWatermarkValve, inputs, script)
        assert statuses(ours) == statuses(flinks), (inputs, script)
        assert all(mine >= its for mine, its in zip(reached(ours), reached(flinks), strict=True)), script
        ahead += ours != flinks
    assert ahead, "FLINK-40475 and FLINK-38454 made no difference, so nothing was shown of them"


def test_without_a_change_of_status_the_valve_emits_what_flinks_emits_d1(
    command: list[str], scripts: list[tuple[int, Script]]
) -> None:
    watermarks = [
        (inputs, [step for step in script if isinstance(step[1], int)]) for inputs, script in scripts
    ]
    answers = flinks_answers(command, "valve", watermarks)

    for (inputs, script), flinks in zip(watermarks, answers, strict=True):
        assert valves_steps(StatusWatermarkValve, inputs, script) == flinks, (inputs, script)


def main(count: int) -> None:
    """Print the number of differing scripts among `count`, for the operator and for the valve of the release."""
    seed = fresh_seed()
    scripts = drawn_scripts(seed, count)
    command = find_oracle(WorldSettings.from_environment(), main=SEVERAL_INPUTS)
    for of, steps_of in (
        ("operator", operators_steps),
        ("valve", lambda inputs, script: valves_steps(ValveOfTheRelease, inputs, script)),
    ):
        answers = flinks_answers(command, of, scripts)
        differing = sum(steps_of(*one) != flinks for one, flinks in zip(scripts, answers, strict=True))
        sys.stdout.write(f"{of}: {count} scripts of seed {seed}, {differing} differ\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
