"""Random scripts on the reference and one program: a case for each mode, with the first differences, shrunk and named.

The reference answers as the yardstick says, whatever profile the program is asked for. A difference is named by
experiment where one quirk of Flink explains it (`harness.conform.script_difference`). Invariant: seeds and numbers of
scripts are those of the settings; a mode that the program does not claim is a case that was not claimed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.conform.case import CaseOutcome, ConformCase, Spoken
from harness.conform.conversations_judged import reference_command, spoken_alone
from harness.conform.explained import systems_by_statement
from harness.conform.protocol.comparison import DifferingScript, MismatchKind, report, said
from harness.conform.protocol.conversation_file import HELLO
from harness.conform.protocol.coverage import SIGHTS
from harness.conform.protocol.differential import DifferentialResult, common_settings, compare_systems
from harness.conform.protocol.driver import Twins, command_line
from harness.conform.protocol.events import Event, Hello
from harness.conform.protocol.program import Limits
from harness.conform.protocol.script import MODES, script_json
from harness.conform.protocol.script_drawing import ScriptSettings, draw_script
from harness.conform.protocol.shrinking import shrink
from harness.conform.script_difference import explaining_quirks

RANDOM_SCRIPTS: Final = "random scripts"
"""The group of the cases."""
DIFFERENCES_MAX: Final = 3
"""So many differences of a mode are shrunk and told."""
SHRINKING_RUNS: Final = 300
SHRINKING_RUNS_OF_BREACHES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptsJudged:
    """The cases, and what the scripts that ran have covered."""

    cases: Sequence[ConformCase]
    coverage: Mapping[str, int]
    """How often each situation of `harness.conform.protocol.coverage` occurred, zeros included."""
    scripts: int
    commands: int
    digest: str
    """The digest of the scripts that were drawn."""


def judge_scripts(
    argv: Sequence[str],
    *,
    hello: Hello,
    asks: str,
    yardstick: str,
    seed: int,
    scripts: int,
    limits: Limits,
    heard: Callable[[ConformCase], None],
) -> ScriptsJudged:
    """Run `scripts` scripts of each mode; a script of seed N is the same everywhere."""
    reference = reference_command(asks=asks, yardstick=yardstick)
    counts: Counter[str] = Counter()
    digest = hashlib.sha256()
    cases: list[ConformCase] = []
    ran = commands = 0
    for mode in MODES:
        found = [_whole_mode(mode, CaseOutcome.NOT_CLAIMED, why=f"needs {mode}")]
        if mode in hello.abilities:
            with Twins(reference, argv, limits=limits) as twins:
                settings = common_settings(twins, mode=mode, profile=asks)
                compared = _compared(twins, settings, seed=seed, scripts=scripts)
            for number in range(compared.scripts):
                drawn = draw_script(seed, number, settings=settings)
                digest.update(json.dumps(script_json(drawn), sort_keys=True).encode())
            counts.update(compared.coverage.counts)
            ran, commands = ran + compared.scripts, commands + compared.commands
            differing = _cases(mode, compared.differences, argv, yardstick=yardstick, limits=limits)
            found = differing or [_whole_mode(mode, CaseOutcome.PASS)]
        cases.extend(found)
        for case in found:
            heard(case)
    return ScriptsJudged(
        cases=cases,
        coverage={sight: counts[sight] for sight in SIGHTS},
        scripts=ran,
        commands=commands,
        digest=digest.hexdigest(),
    )


def _compared(twins: Twins, settings: ScriptSettings, *, seed: int, scripts: int) -> DifferentialResult:
    """The scripts of one mode; each difference is shrunk for as long as its kind allows."""
    compared = compare_systems(
        twins,
        seed=seed,
        scripts=scripts,
        settings=settings,
        differences_max=DIFFERENCES_MAX,
        shrink_runs=0,
    )
    shrunk = [shrink(twins, one, runs_max=_shrinking_runs(one)) for one in compared.differences]
    return replace(compared, differences=tuple(shrunk))


def _whole_mode(mode: str, outcome: CaseOutcome, *, why: str = "") -> ConformCase:
    return ConformCase(name=f"{RANDOM_SCRIPTS}/{mode}", claim=_claim(mode), outcome=outcome, why=why)


def _claim(mode: str) -> str:
    return f"On random scripts of mode {mode} it answers as the reference does."


def _shrinking_runs(found: DifferingScript) -> int:
    """A breach costs two new processes a run, and a hang its whole limit."""
    if found.mismatch.kind is not MismatchKind.RIGHT_BREACH:
        return SHRINKING_RUNS
    return 0 if "gave no answer" in found.mismatch.detail else SHRINKING_RUNS_OF_BREACHES


def _cases(
    mode: str, differences: Sequence[DifferingScript], argv: Sequence[str], *, yardstick: str, limits: Limits
) -> list[ConformCase]:
    """One case for each difference; those that one quirk explains are told once."""
    unanswered = {MismatchKind.LEFT_BREACH, MismatchKind.RIGHT_BREACH, MismatchKind.ONCE}
    named = [one for one in differences if one.exchanges and one.mismatch.kind not in unanswered]
    quirks = explaining_quirks(
        [one.script for one in named], argv, limits=limits, systems=systems_by_statement(yardstick)
    )
    cases: list[ConformCase] = []
    for number, one in enumerate(differences, 1):
        known = next((quirk for of, quirk in zip(named, quirks, strict=True) if of is one), "")
        if known and any(case.known == known for case in cases):
            continue
        kind = one.mismatch.kind
        told = [command_line(exchange.right_command).decode().strip() for exchange in one.exchanges]
        lines = [HELLO, *told]
        last = one.exchanges[-1] if one.exchanges else None
        cases.append(
            ConformCase(
                name=f"{RANDOM_SCRIPTS}/{mode}" + (f" {number}" if len(differences) > 1 else ""),
                claim=_claim(mode),
                outcome=CaseOutcome.FAIL,
                why=f"{kind} ({one.script.name}): {one.mismatch.detail}",
                expected=_lines(last.left) if last else (),
                came=_lines(last.right) if last else (),
                spoken=spoken_alone(argv, lines, limits=limits) if last else [Spoken(told=report(one))],
                known=known,
            )
        )
    return cases


def _lines(events: Sequence[Event]) -> list[str]:
    return [said(event) for event in events]
