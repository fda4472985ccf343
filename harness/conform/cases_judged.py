"""Judges one program over the protocol: speaks every conversation of the catalogue with it, then runs random scripts.

A conversation fails at the first answer that is not what its file says (up to the protocol's freedom, `Transcript`), or
where the program breaks the protocol. A failed one is spoken once more to a fresh process, so that its lines can be
pasted. The second judge never reads what the file expects: the reference gets the same commands, and the answers are
compared by `harness.conform.protocol.comparison`, which shares no code with the first; where it cannot tell (a
conversation that broke off, a held failure that each side may report later), it is silent. On random scripts the
reference answers as the yardstick says, whatever profile the program is asked for; each mode is a case, with the first
differences shrunk, and named where one quirk of Flink explains them. Invariant: the run ends, however the program
behaves: after `BREACHES_MAX` breaches in a row the rest of the conversations is not run.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import Final

from harness.conform.conclusion import CaseOutcome, ConformCase, Spoken
from harness.conform.protocol import comparison
from harness.conform.protocol.comparison import DifferingScript, MismatchKind, Moment, compare, report, said
from harness.conform.protocol.conversation import ConversationPhase
from harness.conform.protocol.conversation_file import (
    HELLO,
    ConversationFile,
    ConversationScript,
    Exchange,
    Transcript,
    catalogue,
)
from harness.conform.protocol.coverage import SIGHTS
from harness.conform.protocol.differential import common_settings, compare_systems
from harness.conform.protocol.driver import ProgramDriver, Twins, command_in, command_line
from harness.conform.protocol.events import Event, Hello, ProtocolBreach, read_event
from harness.conform.protocol.program import Limits
from harness.conform.protocol.script import MODES, script_json
from harness.conform.protocol.script_drawing import draw_script
from harness.conform.protocol.shrinking import shrink
from harness.conform.script_difference import STRICT, explaining_quirks, serving_command, systems_by_statement
from harness.scenario.certificate import Agreement

BREACHES_MAX: Final = 3
"""After so many conversations in a row that broke off, the rest is not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is judged, and by what."""

    label: str
    argv: Sequence[str]
    asks: str = "strict"
    """The profile that the program is asked to serve."""
    yardstick: str = "strict"
    """The profile that it is judged by."""
    seed: int
    scripts: int
    limits: Limits
    beside: str | None = None
    """The name by which `--beside` knows it; None: the command line has its command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """How one conversation went."""

    outcome: CaseOutcome
    why: str = ""
    expected: Sequence[str] = ()
    came: Sequence[str] = ()
    spoken: Sequence[Spoken] = ()
    broke_off: bool = False
    only_after_others: bool = False
    """Whether it failed only in a process that had held other conversations before."""


class Speaker:
    """One program at a time, restarted where a conversation needs a fresh one. Mutable."""

    def __init__(self, argv: Sequence[str], *, limits: Limits) -> None:
        self._argv = argv
        self._limits = limits
        self._driver: ProgramDriver | None = None

    def end(self) -> None:
        if self._driver is not None:
            self._driver.program.kill()
            self._driver = None

    def fresh(self, *, greet: bool) -> ProgramDriver:
        """A process of its own; the one before is gone."""
        self.end()
        self._driver = ProgramDriver(self._argv, limits=self._limits)
        if greet:
            self._driver.greet()
        return self._driver

    def ready(self) -> ProgramDriver:
        """The running process before `open`, or a fresh one."""
        driver = self._driver
        if driver is None or driver.program.gone:
            return self.fresh(greet=True)
        if driver.conversation.accepts("close"):
            driver.tell({"cmd": "close"})
        return driver


def judge_conversations(
    asked: Asked, *, hello: Hello, heard: Callable[[ConformCase], None]
) -> list[ConformCase]:
    """All cases of a profile of the catalogue, the yardstick."""
    asks, yardstick = asked.asks, asked.yardstick
    speaker = Speaker(asked.argv, limits=asked.limits)
    quirks = _Quirks(yardstick=yardstick, limits=asked.limits)
    second = Speaker(reference_command(asks=asks, yardstick=yardstick), limits=Limits())
    cases: list[ConformCase] = []
    in_a_row = 0
    try:
        for file in catalogue():
            if yardstick not in file.profiles:
                continue
            case = _not_for_it(file, hello=hello, asks=asks)
            if case is None and in_a_row >= BREACHES_MAX:
                why = f"given up after {BREACHES_MAX} conversations in a row that broke off"
                case = ConformCase(name=file.name, claim=file.claim, outcome=CaseOutcome.NOT_RUN, why=why)
            if case is None:
                judged = _judged(speaker, file, asks=asks)
                in_a_row = in_a_row + 1 if judged.broke_off else 0
                case = ConformCase(
                    name=file.name,
                    claim=file.claim,
                    outcome=judged.outcome,
                    why=judged.why,
                    expected=judged.expected,
                    came=judged.came,
                    spoken=judged.spoken,
                    second=_agreement(second, file, judged, asks=asks),
                    known=quirks.explaining(file, judged),
                )
            heard(case)
            cases.append(case)
    finally:
        speaker.end()
        second.end()
        quirks.end()
    return cases


def reference_command(*, asks: str, yardstick: str) -> list[str]:
    """The command line that serves the reference, which answers as the yardstick says to a request for `asks`."""
    return serving_command("reference" if yardstick == asks else STRICT)


def spoken_alone(argv: Sequence[str], told: Sequence[str], *, limits: Limits) -> list[Spoken]:
    """What a fresh process answers to these lines, up to the first that it does not answer."""
    spoken: list[Spoken] = []
    driver = ProgramDriver(argv, limits=limits)
    try:
        for line in told:
            spoken.append(Spoken(told=line))
            spoken[-1] = Spoken(told=line, answer=driver.tell_line(line))
    except ProtocolBreach:
        return spoken
    finally:
        driver.program.kill()
    return spoken


def _not_for_it(file: ConversationFile, *, hello: Hello, asks: str) -> ConformCase | None:
    """The case, if this program need not answer so."""
    lacking = [ability for ability in file.needs(asks) if ability not in hello.abilities]
    if lacking:
        why = f"needs {', '.join(lacking)}"
        return ConformCase(name=file.name, claim=file.claim, outcome=CaseOutcome.NOT_CLAIMED, why=why)
    if hello.name in file.not_for:
        why = file.not_for[hello.name]
        return ConformCase(name=file.name, claim=file.claim, outcome=CaseOutcome.EXEMPT, why=why)
    return None


def _judged(speaker: Speaker, file: ConversationFile, *, asks: str) -> _Judged:
    try:
        if file.greeted:
            return _spoken(speaker.fresh(greet=False), file.exchanges, asks=asks, greeted=True)
        judged = _spoken(speaker.ready(), file.exchanges, asks=asks)
        if judged.outcome is CaseOutcome.PASS:
            return judged
        alone = _spoken(speaker.fresh(greet=True), file.exchanges, asks=asks)
    except ProtocolBreach as breach:  # not in the conversation: it cannot be started or closed any more
        return _Judged(outcome=CaseOutcome.FAIL, why=_first_line(breach), broke_off=True)
    finally:
        if file.greeted:
            speaker.end()
    if alone.outcome is CaseOutcome.PASS:
        why = f"{judged.why} (only after other conversations in the same process; alone it passes)"
        return replace(judged, why=why, only_after_others=True)
    return alone


def _spoken(
    driver: ProgramDriver, exchanges: Sequence[Exchange], *, asks: str, greeted: bool = False
) -> _Judged:
    """Speak one conversation; `greeted`: it says `hello` itself."""
    script = ConversationScript(exchanges, profile=asks)
    written, heard = Transcript(), Transcript()
    spoken: list[Spoken] = []
    for index, exchange in enumerate(exchanges):
        told = script.line(index)
        spoken.append(Spoken(told=told))
        if told == HELLO and not greeted:
            continue  # the process has been greeted
        try:
            answer = driver.tell_line(told)
        except ProtocolBreach as breach:
            why = f"{breach.kind}: {_first_line(breach)}"
            return _Judged(
                outcome=CaseOutcome.FAIL, why=why, expected=exchange.answer, spoken=spoken, broke_off=True
            )
        script.learn(answer)
        spoken[-1] = Spoken(told=told, answer=answer)
        want, got = written.take(exchange.told, exchange.answer), heard.take(told, answer)
        if want != got:
            why = f"command {index + 1}, `{told[:80]}`, is answered otherwise"
            return _Judged(
                outcome=CaseOutcome.FAIL, why=why, expected=exchange.answer, came=answer, spoken=spoken
            )
    return _Judged(outcome=CaseOutcome.PASS, spoken=spoken)


class _Quirks:
    """The reference with one quirk of Flink each, to name what a failed conversation shows. Mutable: started late."""

    def __init__(self, *, yardstick: str, limits: Limits) -> None:
        self._systems = systems_by_statement(yardstick)
        self._limits = limits
        self._speakers: dict[str, Speaker] = {}

    def explaining(self, file: ConversationFile, judged: _Judged) -> str:
        """The statement of the quirk with which the reference answers as this program did; "" if none."""
        if judged.outcome is not CaseOutcome.FAIL or judged.broke_off or file.greeted:
            return ""
        until = len(judged.spoken)
        if not any('"retry":{' in one.told for one in judged.spoken):
            return ""  # all quirks are of retries
        as_it_came = [
            *file.exchanges[: until - 1],
            replace(file.exchanges[until - 1], answer=judged.came),
        ]
        for statement, system in self._systems.items():
            if statement not in self._speakers:
                self._speakers[statement] = Speaker(serving_command(system), limits=self._limits)
            spoken = _spoken(self._speakers[statement].ready(), as_it_came, asks="flink")
            if spoken.outcome is CaseOutcome.PASS:
                return statement
        return ""

    def end(self) -> None:
        for speaker in self._speakers.values():
            speaker.end()


def _agreement(second: Speaker, file: ConversationFile, judged: _Judged, *, asks: str) -> Agreement:
    if judged.broke_off or judged.only_after_others:
        return "silent"
    driver = second.fresh(greet=False) if file.greeted else second.ready()
    try:
        return agreement_of(driver, file, judged.spoken, asks=asks, first=judged.outcome)
    finally:
        if file.greeted:
            second.end()


def _first_line(breach: ProtocolBreach) -> str:
    return str(breach).partition("\n")[0]


JUDGE: Final = "harness/conform/protocol/comparison.py, which compares with the reference's answers"


def judge_digest() -> str:
    """The SHA-256 of the second judge's file."""
    assert comparison.__file__ is not None, "it is a file of ours"
    with Path(comparison.__file__).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def agreement_of(
    reference: ProgramDriver,
    file: ConversationFile,
    spoken: Sequence[Spoken],
    *,
    asks: str,
    first: CaseOutcome,
) -> Agreement:
    """Whether the second judge agrees with the first; `spoken`: what the program was told, and its answers."""
    script = ConversationScript(file.exchanges, profile=asks)
    moment = Moment()
    for index, theirs in enumerate(spoken):
        if theirs.told == HELLO and not file.greeted:
            continue
        told = script.line(index)
        answer = reference.tell_line(told)
        script.learn(answer)
        command = command_in(told)
        if command.get("cmd") == "open":
            config = command.get("config")
            mode = str(config.get("mode", "")) if isinstance(config, dict) else ""
            moment = Moment(mode=mode, reissued=mode != "ordered" and command.get("restore") is not None)
        left, right = _events(answer), _events(theirs.answer)
        mismatch = compare(command, left, right, moment=moment)
        if mismatch is not None:
            if mismatch.kind is MismatchKind.FAILURE and command.get("hold") is True:
                return "silent"
            return "agrees" if first is CaseOutcome.FAIL else "differs"
        talk = reference.conversation
        moment = Moment(
            blocked=talk.blocked,
            failed=talk.phase is ConversationPhase.FAILED,
            mode=moment.mode,
            reissued=moment.reissued,
        )
    return "agrees" if first is CaseOutcome.PASS else "differs"


def _events(answer: Sequence[str]) -> list[Event]:
    """Without `hello`, in which each program names itself."""
    events = [read_event(line.encode()) for line in answer]
    return [event for event in events if type(event) is not Hello]


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


def judge_scripts(asked: Asked, *, hello: Hello, heard: Callable[[ConformCase], None]) -> ScriptsJudged:
    """Run the scripts of each mode; a script of seed N is the same everywhere."""
    reference = reference_command(asks=asked.asks, yardstick=asked.yardstick)
    counts: Counter[str] = Counter()
    digest = hashlib.sha256()
    cases: list[ConformCase] = []
    ran = commands = 0
    for mode in MODES:
        found = [_whole_mode(mode, CaseOutcome.NOT_CLAIMED, why=f"needs {mode}")]
        if mode in hello.abilities:
            with Twins(reference, asked.argv, limits=asked.limits) as twins:
                settings = common_settings(twins, mode=mode, profile=asked.asks)
                compared = compare_systems(
                    twins,
                    seed=asked.seed,
                    scripts=asked.scripts,
                    settings=settings,
                    differences_max=DIFFERENCES_MAX,
                    shrink_runs=0,
                )
                differences = [
                    shrink(twins, one, runs_max=_shrinking_runs(one)) for one in compared.differences
                ]
            for number in range(compared.scripts):
                drawn = draw_script(asked.seed, number, settings=settings)
                digest.update(json.dumps(script_json(drawn), sort_keys=True).encode())
            counts.update(compared.coverage.counts)
            ran, commands = ran + compared.scripts, commands + compared.commands
            found = _cases(mode, differences, asked) or [_whole_mode(mode, CaseOutcome.PASS)]
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


def _whole_mode(mode: str, outcome: CaseOutcome, *, why: str = "") -> ConformCase:
    return ConformCase(name=f"{RANDOM_SCRIPTS}/{mode}", claim=_claim(mode), outcome=outcome, why=why)


def _claim(mode: str) -> str:
    return f"On random scripts of mode {mode} it answers as the reference does."


def _shrinking_runs(found: DifferingScript) -> int:
    """A breach costs two new processes a run, and a hang its whole limit."""
    if found.mismatch.kind is not MismatchKind.RIGHT_BREACH:
        return SHRINKING_RUNS
    return 0 if "gave no answer" in found.mismatch.detail else SHRINKING_RUNS_OF_BREACHES


def _cases(mode: str, differences: Sequence[DifferingScript], asked: Asked) -> list[ConformCase]:
    """One case for each difference; those that one quirk explains are told once."""
    unanswered = {MismatchKind.LEFT_BREACH, MismatchKind.RIGHT_BREACH, MismatchKind.ONCE}
    named = [one for one in differences if one.exchanges and one.mismatch.kind not in unanswered]
    scripts, systems = [one.script for one in named], systems_by_statement(asked.yardstick)
    quirks = explaining_quirks(scripts, asked.argv, limits=asked.limits, systems=systems)
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
                spoken=spoken_alone(asked.argv, lines, limits=asked.limits)
                if last
                else [Spoken(told=report(one))],
                known=known,
            )
        )
    return cases


def _lines(events: Sequence[Event]) -> list[str]:
    return [said(event) for event in events]
