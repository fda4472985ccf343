"""A small certificate, made by real runs of level sim of a scenario with a dozen records."""

from __future__ import annotations

from pathlib import Path

from harness.conform.certifying import Certification, PlannedRun, certified
from harness.conform.profiles import operator_subject
from harness.engine.level import Observer, Stop
from harness.engine.open_levels import StagePlan
from harness.levels import level_named
from harness.scenario.certificate import Certificate
from harness.scenario.file import loads
from harness.scenario.order import Order

SMALL = """
scenario: small
about: Twelve records and one cut connection, for a small certificate.
levels: [sim]
operator: {mode: ordered, capacity: 4, timeout: 5s}
workload: {subtasks: 1, records: 12, keys: 6, rate: 200/s, checkpoint_every: 5}
faults:
  - {id: cut, do: cut, link: lookups, when: {call: 4}}
decisive: [V1, V8]
"""


def small_certification(*, seeds: tuple[int, ...] = (1, 2), mutant: str | None = None) -> Certification:
    """What to certify: the reference, or a planted defect of it."""
    scenario = loads(SMALL, file="small.yaml")
    return Certification(
        subject=operator_subject("reference", mutant),
        profile="operator",
        profile_about="a small one, for tests",
        level="sim",
        planned=[
            PlannedRun(
                name="small",
                order=Order(scenario=scenario, level="sim", seed=seed, mutant=mutant, again=f"--seed {seed}"),
            )
            for seed in seeds
        ],
        not_shown=["Anything large."],
        again="floodmark certify --sut reference",
        sentence_of=lambda outcome: f"it is {outcome.judgement.outcome}",
    )


def make_certificate(folder: Path, wanted: Certification, *, stop: Stop | None = None) -> Certificate:
    """The certificate of `wanted`, with its files in `folder`."""
    plan = StagePlan(run_id="small", report=folder, levels=level_named, keep="never")
    certificate, failed = certified(wanted, plan, observer=Observer(), stop=stop or Stop())
    assert failed is None
    return certificate
