"""`floodmark certify --sut X`: run a profile's scenarios, and write a certificate that anybody can check.

Invariant: every mistake in the arguments is reported before anything is started, and no certificate is overwritten.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import option, own_files_options, own_files_words, refuse_no_world, run_options
from harness.system.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.conform.certifying import PlannedRun
    from harness.conform.profiles import CertificationProfile, ChosenScenario
    from harness.scenario.certificate import SubjectOfCertificate
    from harness.scenario.outcome import RunOutcome


@click.command()
@option("--sut", required=True, metavar="NAME|MODULE:ATTR|JOB.toml",
        help="What is judged: your own lookup or operator, `reference`, or the file of a job.")  # fmt: skip
@option("--profile", type=click.Choice(["lookup", "operator", "pipeline"]), default=None,
        help="The list of scenarios and seeds.  [default: what fits --sut]")  # fmt: skip
@option("--level", type=click.Choice(["sim", "live"]), default=None,
        help="sim: virtual time; live: processes, a real server and a proxy.  "
             "[default: sim; of a pipeline: live]")  # fmt: skip
@option("--expected", default=None, metavar="MODULE:FUNCTION|none",
        help="What your function, or job, must give: `def expected(record, rows) -> list`; none: values are not "
             "judged.  [default: what it gives alone, without faults]")  # fmt: skip
@option("--mutant", default=None, metavar="NAME",
        help="A planted defect of the reference, to see a certificate that is not green.")  # fmt: skip
@option("--scenario", "more", multiple=True, metavar="FILE|NAME",
        help="A scenario besides those of the profile; repeatable.")  # fmt: skip
@option("--runs", type=click.IntRange(min=1), default=None,
        help="Runs of each scenario, with consecutive seeds.  [default: the profile's]")  # fmt: skip
@option("--jobs", type=click.IntRange(min=1), default=None,
        help="Processes that judge the histories.  [default: cores]")  # fmt: skip
@own_files_options
@run_options
def certify(**asked: Any) -> int:
    """Run the profile that fits --sut with stated seeds, and write a page, certificate.json and a badge.

    `floodmark verify certificate.json` judges again from the files beside it.

    Exit code: 0 green, 1 not conformant, 2 interrupted, 3 the two judges disagree, 4 bad usage, 10 not decided,
    11 the environment failed.
    """
    from harness.cli.certifying import carry_out_and_write
    from harness.conform.certifying import Certification
    from harness.conform.profiles import fitting_profile, profile_named
    from harness.sut.user_code import add_current_folder
    from reports.certificate_write import drawing

    add_current_folder()
    profile = profile_named(asked["profile"] or fitting_profile(asked["sut"]))
    wanted = _Asked(profile=profile, asked=asked)
    level = wanted.level()
    subject, planned = wanted.of_job(level) if profile.name == "pipeline" else wanted.of_python(level)
    certification = Certification(
        subject=subject,
        profile=profile.name,
        profile_about=profile.about,
        level=level,
        planned=planned,
        not_shown=list(_not_shown(profile, level, planned)),
        again=wanted.again(level),
        sentence_of=_sentence_of,
        drawing=drawing(),
        jobs=asked["jobs"] or os.cpu_count() or 1,
        budget_s=asked["budget"],
    )
    return carry_out_and_write(certification, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The profile, and the options of the command line by name."""

    profile: CertificationProfile
    asked: dict[str, Any]

    def level(self) -> str:
        from harness.levels.job.order import IN_REAL_TIME, IN_VIRTUAL_TIME
        from harness.system.errors import UsageError

        level: str = self.asked["level"] or self.profile.level
        if self.profile.name == "pipeline":
            level = IN_VIRTUAL_TIME if level == "sim" else IN_REAL_TIME
        if level not in self.profile.levels:
            message = f"profile {self.profile.name} does not run at level {level}"
            raise UsageError(
                message, fix=f"leave --level out: it runs at level {' or '.join(self.profile.levels)}"
            )
        refuse_no_world(level, self.asked["world"])
        if self.asked["keep"] == "database":
            message = "--keep database: a certificate keeps histories, verdicts and scenarios"
            raise UsageError(message, fix="run the scenario alone: floodmark run SCENARIO --keep database")
        return level

    def of_python(self, level: str) -> tuple[SubjectOfCertificate, list[PlannedRun]]:
        """A lookup, or an operator: a variant of the reference is a mutant to the engine."""
        from harness.cli.run import check_sut
        from harness.conform.certifying import PlannedRun
        from harness.conform.profiles import operator_subject, python_subject
        from harness.engine.level import refuse
        from harness.levels import level_named
        from harness.scenario.catalogue import catalogue, resolve
        from harness.scenario.file import apply_settings, load
        from harness.scenario.order import REFERENCE, Order
        from harness.scenario.settings import with_asked_files
        from harness.sut.defects import find_defect
        from harness.sut.registry import SUTS
        from harness.sut.user_code import import_path
        from harness.system.errors import UsageError
        from harness.testing.running import check_expected

        profile, asked = self.profile, self.asked
        sut, mutant = asked["sut"], asked["mutant"]
        if profile.name == "operator" and sut not in SUTS:
            if mutant is not None:
                raise UsageError(
                    "--mutant is a variant of the reference, and so is --sut", fix="leave one of them out"
                )
            if ":" in sut:
                find_defect(sut)
            sut, mutant = REFERENCE, sut
        check_sut(sut, mutant, level, "continuous")
        check_expected(asked["expected"], sut)
        own = {name: asked[f"own_{name}"] for name in ("schema", "data", "records")} | {"sql": asked["sql"]}
        planned = []
        for chosen in self._chosen():
            (file,) = resolve([chosen.scenario])
            scenario = apply_settings(with_asked_files(load(file), **own), chosen.settings)
            name = file.stem if catalogue().get(file.stem) == file else str(file)
            for seed in self._seeds():
                order = Order(
                    scenario=scenario,
                    level=level,
                    seed=seed,
                    sut=sut,
                    expected=asked["expected"],
                    mutant=mutant,
                    import_path=import_path(),
                    again=self._run_again(
                        ["floodmark", "run", name, "--level", level], seed, sut, mutant, chosen
                    ),
                    fails_on_pitfall=True,
                )
                refuse(order, level_named(level))
                planned.append(PlannedRun(name=chosen.name, order=order))
        if profile.name == "operator":
            return operator_subject(sut, mutant), planned
        files = [file for file in (own["schema"], *own["data"], own["records"]) if file is not None]
        return python_subject(sut, expected=asked["expected"], own_files=files), planned

    def of_job(self, at: str) -> tuple[SubjectOfCertificate, list[PlannedRun]]:
        from harness.conform.certifying import PlannedRun
        from harness.conform.profiles import job_subject
        from harness.levels import level_named
        from harness.levels.job.job_scenarios import apply_job_settings, load_jobs
        from harness.levels.job.order import IN_VIRTUAL_TIME, job_named, job_order
        from harness.levels.job.records import read_input
        from harness.levels.job.unmet import refuse_unmet
        from harness.levels.virtual.level import refuse_real_time
        from harness.sut.user_code import import_path
        from harness.system.errors import CannotHere

        asked = self.asked
        job, named = job_named(asked["sut"])
        if asked["expected"] is not None:
            job = job.model_copy(
                update={"claims": job.claims.model_copy(update={"expected": asked["expected"]})}
            )
        level, planned = level_named(at), []
        for chosen in self._chosen():
            ((_, scenario),) = load_jobs([chosen.scenario])
            try:
                if at == IN_VIRTUAL_TIME:
                    refuse_real_time(scenario)
                refuse_unmet(job, scenario, read_input(job, scenario, seed=self._seeds()[0]))
            except CannotHere as unmet:
                click.echo(f"floodmark: left out: {unmet.what}", err=True)
                continue
            for seed in self._seeds():
                order = job_order(
                    level=at,
                    scenario=apply_job_settings(scenario, chosen.settings),
                    source=chosen.scenario,
                    job=job,
                    named=named,
                    seed=seed,
                    data_seed=self._seeds()[0],
                    environment=dict(os.environ),
                    import_path=(str(job.folder), *import_path()),
                    world=(asked["world"], asked["proxy"]),
                    more=tuple(word for setting in chosen.settings for word in ("--set", setting)),
                    fails_on_pitfall=True,
                )
                level.refuse(order)
                planned.append(PlannedRun(name=chosen.name, order=order))
        return job_subject(job, named), planned

    def _chosen(self) -> Iterator[ChosenScenario]:
        from harness.conform.profiles import ChosenScenario

        yield from self.profile.scenarios
        for name in self.asked["more"]:
            yield ChosenScenario(scenario=name)

    def _seeds(self) -> tuple[int, ...]:
        """The seeds of the profile, or consecutive ones if `--seed` or `--runs` are given."""
        if self.asked["seed"] is None and self.asked["runs"] is None:
            return self.profile.seeds
        first = self.profile.seeds[0] if self.asked["seed"] is None else self.asked["seed"]
        return tuple(range(first, first + (self.asked["runs"] or len(self.profile.seeds))))

    def _run_again(
        self, words: list[str], seed: int, sut: str, mutant: str | None, chosen: ChosenScenario
    ) -> str:
        """The command that repeats one run."""
        words = [*words, "--seed", str(seed)]
        words += ["--sut", sut] if sut != "reference" else []
        words += ["--expected", self.asked["expected"]] if self.asked["expected"] else []
        words += ["--mutant", mutant] if mutant else []
        words += [word for setting in chosen.settings for word in ("--set", setting)]
        return shlex.join([*words, *own_files_words(self.asked), "--fail-on", "pitfall"])

    def again(self, level: str) -> str:
        """The command that makes the certificate again."""
        asked = self.asked
        words = ["floodmark", "certify", "--sut", asked["sut"], "--profile", self.profile.name]
        if not LEVELS[level].runs_jobs or asked["level"] is not None:
            words += ["--level", asked["level"] or level]
        words += [] if LEVELS[level].repeats else ["--world", asked["world"], "--proxy", asked["proxy"]]
        for name in ("expected", "mutant"):
            words += [f"--{name}", asked[name]] if asked[name] else []
        words += [word for name in asked["more"] for word in ("--scenario", name)]
        for name in ("seed", "runs"):
            words += [] if asked[name] is None else [f"--{name}", str(asked[name])]
        return shlex.join([*words, *own_files_words(asked)])


def _not_shown(profile: CertificationProfile, level: str, planned: list[PlannedRun]) -> Iterator[str]:
    """What no run of the profile can show."""
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(run.order.seed for run in planned))
    yield f"Seeds other than {seeds}, and other schedules: a pass is about the histories that were recorded."
    if level == "sim":
        yield (
            "A real database, network and process: at level sim they are models in virtual time. "
            "--level live runs the same profile with a real server."
        )
    if level == "live":
        yield "Spark: at level live a subtask is a process of its own, without Spark's scheduling and retries."
    if LEVELS[level].runs_jobs:
        yield LEVELS[level].not_shown
    yield from profile.not_shown
    yield "Performance."


def _sentence_of(outcome: RunOutcome) -> str:
    """What broke, for which record and why; then the pitfalls, which often are the reason; else the headline."""
    from harness.history.verdict import Outcome
    from reports.banner import what_broke
    from reports.history_view import read_view
    from reports.reading import read_run

    # A variant under certification is no planted defect that is meant to be convicted.
    plain = replace(outcome, mutant=None, convicts=())
    broke = what_broke(plain, read_view(plain.history, judgement=plain.judgement))
    told = [broke] if broke else []
    unjudged = any(v.invariant == "V8" and v.outcome is Outcome.VACUOUS for v in plain.judgement.invariants)
    if plain.values and unjudged and plain.judgement.outcome is Outcome.VACUOUS:
        told.insert(0, plain.values)  # why no record has an expected value
    told += [f"pitfall {found.name}: {found.says}" for found in plain.pitfalls]
    if not told:
        return read_run(plain).sentence
    return " ".join(f"{part[0].upper()}{part[1:]}" + ("" if part[-1] in ".…" else ".") for part in told)
