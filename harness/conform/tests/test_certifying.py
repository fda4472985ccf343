"""A certificate says what was found: green only if every run of the profile was made and holds by both judges."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.conform.certifying import word_of_second_judge
from harness.conform.conclusion import concluded, rows_of, silences
from harness.conform.profiles import (
    PROFILES,
    families_of,
    fitting_profile,
    job_subject,
    profile_named,
    python_subject,
)
from harness.conform.tests.small import make_certificate, small_certification
from harness.engine.level import Stop
from harness.levels.job.job_scenarios import apply_job_settings, job_catalogue, load_jobs
from harness.levels.job.order import job_named
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.catalogue import catalogue
from harness.scenario.certificate import CertifiedRun, SecondWord, schema_of_certificates
from harness.scenario.order import Order
from harness.system.errors import CannotHere, UsageError

ROOT = Path(harness.__file__).parents[1]
ABOUT = {"V1": "one", "V8": "eight"}


def run(
    verdict: str = "pass", *, seed: int = 1, families: tuple[str, ...] = (), **more: object
) -> CertifiedRun:
    plain: dict[str, object] = {
        "name": "cut",
        "seed": seed,
        "families": list(families),
        "verdict": verdict,
        "holds": verdict == "pass",
        "sentence": f"seed {seed} is {verdict}",
        "checks": {"V1": verdict},
        "second": "agrees",
    }
    return CertifiedRun(**{**plain, **more})  # type: ignore[arg-type]


def second(*runs: CertifiedRun, differs: tuple[str, ...] = ()) -> SecondWord:
    return word_of_second_judge(runs, differs)


def word(*runs: CertifiedRun, asked: int | None = None) -> str:
    return concluded(runs, asked=len(runs) if asked is None else asked, second=second(*runs)).word


def test_a_certificate_is_green_only_if_all_runs_hold() -> None:
    assert word(run(), run(seed=2)) == "conformant"
    assert word(run(), run("fail")) == "not conformant"
    assert word(run(), run("vacuous")) == "not decided"
    assert word(run(), run("unknown")) == "not decided"
    assert word(run(), asked=2) == "not decided"
    assert word(asked=0) == "not decided"


def test_a_pitfall_alone_makes_it_not_green() -> None:
    assert word(run(holds=False, pitfalls=["blocking-call"])) == "not conformant"


def test_judges_that_disagree_come_before_everything() -> None:
    runs = [run("fail"), run(second="differs")]

    head = concluded(runs, asked=2, second=second(*runs, differs=("cut, seed 1: V8: they differ",)))

    assert (head.tone, head.word, head.cause) == (
        "bad",
        "the judges disagree",
        "cut, seed 1: V8: they differ",
    )


def test_the_cause_is_the_first_violation_not_the_first_doubt() -> None:
    runs = [run("vacuous"), run("fail", seed=2), run("fail", seed=3)]

    head = concluded(runs, asked=3, second=second(*runs))

    assert head.cause == "seed 2 is fail (first in cut, seed 2)"


def test_a_run_is_counted_under_each_family_of_its_faults() -> None:
    runs = [run(families=("network", "process")), run("fail", families=("network",)), run("vacuous")]

    rows = {row.family: (row.runs, row.passed, row.violations, row.vacuous) for row in rows_of(runs, ABOUT)}

    assert rows == {"network": (2, 1, 1, 0), "process": (1, 1, 0, 0), "no fault": (1, 0, 0, 1)}


def test_what_no_run_tried_is_said_in_words() -> None:
    runs = [run(families=("network",)), run("vacuous", checks={"V1": "vacuous", "V8": "vacuous"})]

    told = list(silences(runs, rows_of(runs, ABOUT), second=second(*runs)))

    assert told == [
        "V1 is not shown under: no fault.",
        "V8 is not shown at all: no run tried it. (eight)",
        "Nothing is shown by the undecided runs: cut (seed 1).",
    ]


def test_the_shipped_schema_is_that_of_the_value() -> None:
    shipped = ROOT / "reports" / "schemas" / "certificate.v1.json"

    assert shipped.read_text(encoding="utf-8") == schema_of_certificates()


@pytest.mark.sweep
def test_a_planted_defect_is_not_green_and_its_cause_comes_first(tmp_path: Path) -> None:
    wanted = small_certification(seeds=(1,), mutant="tools.defects:crossed_replies")

    certificate = make_certificate(tmp_path, wanted)

    assert certificate.word == "not conformant"
    assert certificate.cause == "it is fail (first in small, seed 1)"
    assert certificate.second.agreed == 1


def test_an_interrupted_certificate_says_how_many_of_how_many_ran(tmp_path: Path) -> None:
    stop = Stop()
    wanted = small_certification(seeds=(1, 2, 3))

    def stopping(outcome: object) -> str:
        stop.set()
        return "it holds"

    certificate = make_certificate(tmp_path, replace(wanted, sentence_of=stopping), stop=stop)

    assert (certificate.word, len(certificate.runs), certificate.asked) == ("not decided", 1, 3)
    assert "It was interrupted after 1 of 3 runs." in certificate.not_shown


def test_runs_that_were_made_before_an_interruption_are_judged_and_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop()

    def refuse(level: SimulatedLevel, order: Order) -> None:
        del level
        if order.seed == 2:
            stop.set()
            raise CannotHere("seed 2 cannot run here", fix="leave it out")

    monkeypatch.setattr(SimulatedLevel, "refuse", refuse)

    certificate = make_certificate(tmp_path, small_certification(seeds=(1, 2, 3)), stop=stop)

    assert (certificate.word, [run.seed for run in certificate.runs]) == ("not decided", [1])
    assert "It was interrupted after 1 of 3 runs." in certificate.not_shown


def test_a_budget_is_said_to_be_over_only_if_it_kept_a_run_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(level: SimulatedLevel, order: Order) -> None:
        del level
        if order.seed == 2:
            raise CannotHere("seed 2 cannot run here", fix="leave it out")

    monkeypatch.setattr(SimulatedLevel, "refuse", refuse)
    wanted = replace(small_certification(seeds=(1, 2)), budget_s=600.0)

    certificate = make_certificate(tmp_path, wanted)

    assert (certificate.word, len(certificate.runs), certificate.asked) == ("not decided", 1, 2)
    assert "small could not run here: seed 2 cannot run here" in certificate.not_shown
    assert not any("budget" in sentence for sentence in certificate.not_shown)


def test_an_interruption_before_the_first_run_leaves_no_certificate(tmp_path: Path) -> None:
    stop = Stop()
    stop.set()

    with pytest.raises(KeyboardInterrupt):
        make_certificate(tmp_path, small_certification(), stop=stop)


@pytest.mark.parametrize("name", PROFILES)
def test_every_scenario_of_a_profile_exists_once_and_runs_at_its_levels(name: str) -> None:
    profile = profile_named(name)
    names = [chosen.name for chosen in profile.scenarios]
    files = job_catalogue() if name == "pipeline" else catalogue()

    texts = {chosen.name: files[chosen.scenario].read_text(encoding="utf-8") for chosen in profile.scenarios}

    assert len(set(names)) == len(names)
    if name != "pipeline":
        levels = {
            one: re.findall(r"\w+", re.findall(r"^levels: \[(.*?)\]", text, re.MULTILINE)[0])
            for one, text in texts.items()
        }
        needed = profile.levels if name == "lookup" else (profile.level,)
        assert {one: told for one, told in levels.items() if not set(needed) <= set(told)} == {}


def test_the_settings_of_the_pipeline_profile_fit_their_scenarios() -> None:
    chosen = next(one for one in profile_named("pipeline").scenarios if one.settings)
    ((_, scenario),) = load_jobs([chosen.scenario])

    applied = apply_job_settings(scenario, chosen.settings)

    assert chosen.name == "killed-after-commit (faults.kill.when.nth=4)"
    assert applied.faults != scenario.faults
    assert families_of(applied) == ["job's processes"]


def test_a_profile_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean lookup"):
        profile_named("lookups")


@pytest.mark.parametrize(
    ("sut", "profile"),
    [
        ("reference", "operator"),
        ("tools.trials.lookups.right:plain", "lookup"),
        ("reference_impl.operator.build:build_operator", "operator"),
        ("examples/asyncio_consumer/job.toml", "pipeline"),
        ("python job.py", "pipeline"),
    ],
)
def test_the_profile_follows_from_what_is_judged(sut: str, profile: str) -> None:
    assert fitting_profile(sut) == profile


def test_the_digest_of_a_lookup_is_that_of_its_file() -> None:
    fitting_profile("tools.trials.lookups.right:plain")

    subject = python_subject("tools.trials.lookups.right:plain", expected=None)

    assert any(file.file.endswith("right.py") for file in subject.files)


def test_a_job_is_told_by_the_digests_of_its_files_and_by_its_claims() -> None:
    job, named = job_named(ROOT / "examples" / "asyncio_consumer" / "job.toml")

    subject = job_subject(job, named)

    assert {"job.toml", "job.py", "sink.sql"} <= {file.file for file in subject.files}
    assert subject.facts["claims"].startswith("exactly-once")
