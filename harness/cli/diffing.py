"""Carries out `floodmark diff`: finds what to compare, compares it, and words the document that says how.

Invariant: every form of output (terminal, JSON, page) is made from the one document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from harness.cli.serving import flink_command
from harness.conform.script_difference import SERVED, script_difference
from harness.explore.difference import ComparedRun, measured, parting_in, parting_of, verdicts_of
from harness.history.read import read_outside, read_whole
from harness.history.strict_json import integers_of_any_length
from harness.history.text import event_json
from harness.judge.checkers.judge import Malformed
from harness.judge.checkers.outside.judge import judge_history
from harness.judge.explanation.explain import explained_file
from harness.scenario.file import apply_settings
from harness.scenario.model import Scenario
from harness.sut.defects import DEFECTS, Defect, find_defect
from harness.sut.defects.mail_programs import MailStep, answers_of, drawn_program, smallest_program
from harness.sut.registry import REFERENCE, REFERENCE_EMITTER, SUTS, load_attribute
from harness.sut.user_code import add_current_folder
from harness.sut.variant import HONEST, Variant
from harness.system.errors import HistoryError, NothingRan, SutError, UsageError
from harness.system.json_types import Json
from harness.system.levels import LEVELS
from harness.testing.running import checked_sut, history_of, load, order_of, refuse_blind_judge, run_of

Document = Mapping[str, Any]
_FLINK: Final = "flink"
_SCRIPTS, _PROGRAMS = 100, 500
_MUTANTS_PAGE: Final = "docs/reference/mutants.md"
_FLINK_PAGE: Final = "docs/reference/flink-map.md, Deviations"
_SYSTEMS_PAGE: Final = "docs/reference/comparing.md"
_OF_THE_EMITTER: Final = "reference-emitter: a thread of its own emits (A38)"
_TWO: Final = 2
_WIDTH: Final = 92


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """What the command line asks for."""

    names: tuple[str, ...]
    left: str
    right: str | None
    level: str
    runs: int | None
    seed: int
    seed_given: bool = False
    """Whether the command line names the seed; else a saved find's own counts."""
    settings: tuple[str, ...] = ()


def difference(wanted: DiffRequest) -> Document:
    """The document of the difference. Raises a FloodmarkError for what cannot be compared."""
    if len(wanted.names) > _TWO:
        raise UsageError(
            "more than two things to compare", fix="name two histories or folders, or one scenario"
        )
    if len(wanted.names) == _TWO:
        if wanted.right is not None or wanted.settings:
            raise UsageError(
                "two runs are compared as they are", fix="leave --against, --mutant and --set out"
            )
        return _of_files(Path(wanted.names[0]), Path(wanted.names[1]))
    if wanted.right is None:
        raise UsageError(
            "nothing to compare with", fix="add --against NAME, or name two histories or folders"
        )
    sides = (wanted.left, wanted.right)
    add_current_folder()
    for side in sides:
        known = [*SUTS, _FLINK, *DEFECTS]
        if ":" in side:
            if _planted(side) is None:
                checked_sut(side)
        elif side not in known:
            close = get_close_matches(side, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "floodmark list suts; floodmark list mutants"
            raise UsageError(f"there is no system and no planted defect called {side!r}", fix=hint)
    scenario = apply_settings(load(wanted.names[0]), wanted.settings) if wanted.names else None
    if scenario is not None and scenario.choices is not None and not wanted.seed_given:
        wanted = replace(wanted, seed=scenario.choices.seed)
    if _FLINK in sides or (REFERENCE_EMITTER in sides and wanted.level == "sim"):
        return _of_scripts(sides, scenario, wanted)
    if scenario is None:
        return _of_mail(sides, wanted)
    seeds = range(wanted.seed, wanted.seed + (wanted.runs or 1))
    left, right = ([_ran(side, scenario, seed, wanted) for seed in seeds] for side in sides)
    how = f"scenario {scenario.scenario} at level {wanted.level}"
    return _document(sides, left, right, how=how, seeds=list(seeds))


def _planted(name: str) -> Defect | None:
    """The planted defect `name`, or a user's own `Defect` or `Variant`; None: a system under test."""
    if name in DEFECTS:
        return DEFECTS[name]
    with suppress(SutError):
        if ":" in name and isinstance(load_attribute(name, option="", kind="ATTR"), Defect | Variant):
            return find_defect(name)
    return None


# ------------------------------------------------------------------------------------------ two recorded runs


def _of_files(left: Path, right: Path) -> Document:
    pair = (_histories(left), _histories(right))
    if len(pair[0]) != len(pair[1]):
        message = f"{left} holds {len(pair[0])} histories, and {right} holds {len(pair[1])}"
        raise UsageError(message, fix="name the histories to compare one by one")
    with integers_of_any_length():
        one = [_read(file, name=str(left)) for file in pair[0]]
        other = [_read(file, name=str(right)) for file in pair[1]]
    return _document((str(left), str(right)), one, other, how="recorded runs")


def _histories(path: Path) -> list[Path]:
    """The history itself, or those of a folder of reports, in the order of their names."""
    if path.is_file():
        return [path]
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}", fix="name a history, or a folder of a report")
    forms = ("jsonl", "jsonl.gz", "jsonl.zst", "parquet", "arrow")
    found = sorted(one for form in forms for one in path.rglob(f"*.{form}"))
    # Beside the history of a job's run stands what the job read.
    found = [one for one in found if one.name.startswith("history.")] or found
    if not found:
        raise NothingRan(f"{path} holds no history", fix="name a history, or a folder of a report")
    return found


def _read(path: Path, *, name: str) -> ComparedRun:
    refuse_blind_judge()
    judged = judge_history(path)
    if isinstance(judged, Malformed):
        breaches = "\n".join(f"  line {breach.line}: {breach.say}" for breach in judged.breaches)
        raise HistoryError(f"{path} breaks the format of histories\n{breaches}")
    header, events = read_outside(path) if judged.view else read_whole(path)
    about = header.run if isinstance(header.run, Mapping) else {}
    level = LEVELS.get(about.get("level", ""))
    return ComparedRun(
        name=name,
        events=[event_json(event) for event in events],
        judgement=explained_file(judged, path),
        in_one_order=level is not None and level.repeats,
        seed=about.get("seed"),
    )


# ------------------------------------------------------------------------------ one scenario, two systems


def _ran(side: str, scenario: Scenario, seed: int, wanted: DiffRequest) -> ComparedRun:
    planted = _planted(side)
    order = order_of(
        scenario,
        source=scenario,
        sut=side if planted is None else REFERENCE,
        level=wanted.level,
        seed=seed,
        expected=None,
        world=("auto", "auto"),
    )
    finished = run_of(replace(order, mutant=None if planted is None else side))
    return replace(_read(history_of(finished), name=side), in_one_order=wanted.level == "sim", seed=seed)


# -------------------------------------------------------------------- scripts of the protocol, programs of mail


def _of_scripts(sides: Sequence[str], scenario: Scenario | None, wanted: DiffRequest) -> Document:
    if strange := [side for side in sides if side not in SERVED]:
        message = f"{strange[0]} cannot be compared over the operator protocol"
        raise UsageError(message, fix=f"over the protocol: {', '.join(SERVED)}; or add --level live")
    if _FLINK in sides:
        flink_command()  # says what to set up, before anything is started
    mode = "both" if scenario is None else str(scenario.operator.mode)
    found = script_difference(
        sides[0], sides[1], seed=wanted.seed, scripts=wanted.runs or _SCRIPTS, mode=mode
    )
    notes = [f"{found.scripts} scripts compared, mode {' and '.join(found.modes)}"]
    if scenario is not None:
        notes.append(
            f"of {scenario.scenario} only the mode counts here: these systems follow scripts, not scenarios"
        )
    first = None
    if found.found is not None:
        named = f"{found.quirk}: " if found.quirk else ""
        first = {
            "name": f"{named}{found.found.mismatch.kind}",
            "say": found.found.mismatch.detail,
            "text": found.text,
        }
        first["documented"] = (
            f"{_FLINK_PAGE}: {found.quirk}; with this quirk alone the reference does as Flink does on this script"
            if found.quirk
            else "not documented: no single quirk of profile `flink` explains it"
        )
    elif found.only_left or found.only_right:
        first = {
            "name": "hello: abilities",
            "say": f"only left: {_listed(found.only_left)}; only right: {_listed(found.only_right)}",
            "text": "",
            "documented": f"{_SYSTEMS_PAGE}: what the systems can do",
        }
        notes.append("on what both can do, no script differs")
    return _bare(sides, first, how="the operator protocol", notes=notes, seeds=[wanted.seed])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


def _of_mail(sides: Sequence[str], wanted: DiffRequest) -> Document:
    mailboxes = []
    for side in sides:
        planted = _planted(side)
        mailboxes.append((HONEST if planted is None else planted.variant).build_mailbox)
        if side != REFERENCE and mailboxes[-1] is HONEST.build_mailbox:
            message = f"{side} needs a scenario to run"
            raise UsageError(
                message, fix="name one; without it only mailboxes and served systems are compared"
            )

    def answers(program: Sequence[MailStep]) -> list[list[Json]]:
        return [answers_of(mailbox, program) for mailbox in mailboxes]

    def differs(program: Sequence[MailStep]) -> bool:
        one, other = answers(program)
        return one != other

    count = wanted.runs or _PROGRAMS
    seeds = range(wanted.seed, wanted.seed + count)
    seed = next((seed for seed in seeds if differs(drawn_program(seed))), None)
    if seed is None:
        return _bare(
            sides, None, how="programs of mail", notes=[f"{count} programs compared"], seeds=[wanted.seed]
        )
    one, other = answers(smallest_program(drawn_program(seed), differs=differs))
    parting = parting_in(one, other, f"program {seed}, shrunk")
    assert parting is not None, "the programs differ"
    first = {**parting.as_json(), "documented": _defects_told(sides)}
    notes = [f"{seed - wanted.seed + 1} programs compared, the last one shrunk to {len(one)} steps"]
    return _bare(sides, first, how="programs of mail", notes=notes, seeds=[seed])


def _defects_told(sides: Sequence[str]) -> str:
    """What is known of the planted defects and mailboxes among the sides; empty if none is."""
    known = [f"{side}: {planted.about}" for side in sides if (planted := _planted(side)) is not None]
    if known:
        return f"{_MUTANTS_PAGE}: {'; '.join(known)}"
    return f"{_SYSTEMS_PAGE}: {_OF_THE_EMITTER}" if REFERENCE_EMITTER in sides else ""


# ------------------------------------------------------------------------------------------------ documents


def _bare(
    sides: Sequence[str], first: Mapping[str, object] | None, *, how: str, notes: list[str], seeds: list[int]
) -> Document:
    return {
        "left": sides[0],
        "right": sides[1],
        "how": how,
        "seeds": seeds,
        "same": first is None,
        "first": first,
        "measures": [],
        "verdicts": [],
        "notes": notes,
    }


def _document(
    names: tuple[str, str],
    left: Sequence[ComparedRun],
    right: Sequence[ComparedRun],
    *,
    how: str,
    seeds: list[int] | None = None,
) -> Document:
    partings = [parting_of(one, other) for one, other in zip(left, right, strict=True)]
    differing = [(place, parting) for place, parting in enumerate(partings) if parting is not None]
    verdicts = (verdicts_of(left), verdicts_of(right))
    measures = (measured(left), measured(right))
    names_of = sorted({*measures[0], *measures[1]})
    first = None
    if differing:
        place, parting = differing[0]
        first = {**parting.as_json(), "seed": left[place].seed, "documented": _defects_told(names)}
    document = dict(_bare(names, first, how=how, notes=[], seeds=seeds or []))
    document["notes"] = [f"{len(differing)} of {len(partings)} pairs of runs differ"]
    document["measures"] = [
        {"name": name, "left": measures[0].get(name), "right": measures[1].get(name)} for name in names_of
    ]
    document["verdicts"] = [
        {"invariant": name, "left": verdicts[0].get(name), "right": verdicts[1].get(name)}
        for name in {**verdicts[0], **verdicts[1]}
        if verdicts[0].get(name) != verdicts[1].get(name)
    ]
    document["same"] = not differing and not document["verdicts"]
    return document


def told(document: Document, form: str) -> str:
    """The document as JSON or as lines for a terminal."""
    if form == "json":
        return json.dumps(document, separators=(",", ":"))
    return "\n".join(_lines(document))


def _lines(document: Document) -> Iterator[str]:
    yield f"{'SAME' if document['same'] else 'DIFFERENT'}  {document['left']} | {document['right']}"
    seeds = document["seeds"]
    yield f"  {document['how']}" + (f", seed {seeds[0]}" if len(seeds) == 1 else "")
    if len(seeds) > 1:
        yield f"  seeds {seeds[0]} to {seeds[-1]}"
    yield from (f"  {note}" for note in document["notes"])
    first = document["first"]
    if first is not None:
        yield f"  first difference: {first['name']}" + (f" ({first['stream']})" if "stream" in first else "")
        yield f"    {first['say']}"
        yield from [f"    known: {first['documented']}"] if first["documented"] else []
        yield from (f"    {line}" for line in first.get("text", "").splitlines())
        for row in first.get("rows", ()):
            mark = " " if row["same"] else "!"
            yield f"  {mark} {row['left'][:_WIDTH]:{_WIDTH}} | {row['right'][:_WIDTH]}".rstrip()
    for verdict in document["verdicts"]:
        yield f"  {verdict['invariant']:<8} {_counted(verdict['left'])} | {_counted(verdict['right'])}"
    differing = [one for one in document["measures"] if one["left"] != one["right"]]
    for one in differing:
        yield f"  {one['name']:<34} {_spread(one['left']):>26} | {_spread(one['right'])}"


def _counted(outcomes: Mapping[str, int] | None) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in (outcomes or {}).items()) or "not judged"


def _spread(values: Sequence[float] | None) -> str:
    """The median, and from where to where."""
    if values is None:
        return "none"
    least, middle, most = values
    return f"{middle:g}" if least == most else f"{middle:g} ({least:g} to {most:g})"
