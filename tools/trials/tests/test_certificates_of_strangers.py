"""The certificate of each wrong lookup of a stranger is not green, and its cause names the mistake first (R4, U6).

The profile is cut down to the scenario that shows the mistake; that the whole profile has it is a quick test.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from harness.cli.main import main
from harness.conform import profiles
from harness.conform.profiles import CertificationProfile, ChosenScenario, profile_named
from harness.scenario.certificate import load_certificate
from harness.system.errors import Exit
from tools.trials.lookups_trial import STRANGERS, Stranger

WRONG: Final = [stranger for stranger in STRANGERS if stranger.told and "sim" in stranger.levels]
_NOTHING: Final = r"The lookup returned nothing for record \d+, of which results are expected\."
_OTHER: Final = r"Output 0 of record \d+ \(position \d+\) is .* is expected\."
_SWALLOWED: Final = (
    rf"{_NOTHING} Pitfall swallowed-error: .* ConnectionLost: .*, caught at .*wrong_under_faults\.py:\d+"
)
_OF_MOST_KEYS: Final = "Pitfall not-its-row: Without any fault, .* for 95 of 100 keys; but for key "
CAUSES: Final = {
    ("swallows_into_nothing", False): _SWALLOWED,
    ("swallows_into_none", False): _SWALLOWED,
    ("cursor_shared", False): _NOTHING,
    ("attribute_shared", False): _OTHER,
    ("answer_of_the_call_before", False): _OTHER,
    ("exits", False): r"Lookup raised .*SystemExit\(0\).* at record 77, wrong_under_faults\.py:\d+",
    (
        "cancels_itself",
        False,
    ): r"Lookup raised CallCancelled: .*\(CancelledError\).* at record 77, wrong_under_faults\.py:\d+",
    ("cancels_for_all", False): r".*CallCancelled: ",
    ("holds_and_asks", False): r".*Pitfall nested-acquire: ",
    (
        "cache_for_ever",
        False,
    ): r"Record \d+ of key \d+ was answered from version 0, but the change to version 1 had ended",
    ("falls_back", False): _OTHER,
    ("wrong_key", True): _OTHER,
    ("doubles", True): r"Output 1 of record \d+ \(position \d+\) is visible, but only 1 output is expected",
    ("drops", True): _NOTHING,
    ("constant", True): _OTHER,
    ("wrong_key", False): rf"{_OF_MOST_KEYS}\d+ it returns the row of key \d+",
    ("doubles", False): rf"{_OF_MOST_KEYS}\d+ it returns two results for one row",
    ("drops", False): rf"{_OF_MOST_KEYS}\d+ it returns nothing, though the key has one row",
    (
        "constant",
        False,
    ): r"Pitfall not-its-row: Without any fault the function returns .* for each of 100 keys",
    ("blocks", False): r"Pitfall blocking-call: The function held the task's thread .* in blocks \(",
    ("never_gives_back", False): (
        r".*Pitfall never-given-back: \d+ calls took a connection at .*pitfalls\.py:\d+ and ended without giving it"
    ),
    ("retries_for_ever", False): r"Pitfall no-pause: \d+ calls asked again and again without a pause",
}
"""What the cause begins with, by the function, and whether the results to expect are stated."""


def _key(stranger: Stranger) -> tuple[str, bool]:
    return stranger.lookup.partition(":")[2], stranger.expected is not None


def test_the_profile_has_each_scenario_in_which_a_wrong_lookup_is_told() -> None:
    tried = {chosen.scenario for chosen in profile_named("lookup").scenarios}

    assert {stranger.scenario for stranger in WRONG} <= tried


def test_each_wrong_lookup_has_a_cause_that_its_certificate_must_name() -> None:
    assert {_key(stranger) for stranger in WRONG} == set(CAUSES)


@pytest.mark.sweep
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "stranger", WRONG, ids=lambda one: f"{one.lookup}-{'expected' if one.expected else 'twin'}"
)
def test_the_certificate_of_a_wrong_lookup_is_not_green_and_names_the_mistake_first_r4(
    stranger: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrow(name: str) -> CertificationProfile:
        return replace(profile_named(name), scenarios=(ChosenScenario(scenario=stranger.scenario),))

    monkeypatch.setattr(profiles, "profile_named", narrow)
    words = ["certify", "--sut", stranger.order("sim", 1).sut, "--report", str(tmp_path / "c"), "-q"]
    words += ["--expected", stranger.expected] if stranger.expected else []

    assert main(words) == Exit.VIOLATION
    certificate = load_certificate(tmp_path / "c" / "certificate.json")
    assert (certificate.tone, certificate.second.agreed) == ("bad", 1)
    assert re.match(CAUSES[_key(stranger)], certificate.cause), certificate.cause
