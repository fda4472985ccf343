"""`floodmark list`: lists scenarios, faults, invariants, SUTs, mutants or coverage, with one sentence each.

Answers to Sonobuoy's and Maelstrom's listings. Invariant: each listing reads the registry that the program itself uses,
so every listed name works.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from harness.cli.completion import fault_names, tag_names
from harness.cli.options import option
from harness.system.errors import NothingRan, UsageError
from harness.system.levels import OPERATOR_LEVELS

Row = Mapping[str, Any]
"""`name` and `about`, then the other columns of that kind."""


@click.command(name="list")
@click.argument(
    "kind", type=click.Choice(["scenarios", "faults", "invariants", "suts", "mutants", "coverage"])
)
@click.option("--tag", "of_tags", multiple=True, metavar="TAG", shell_complete=tag_names,
              help="With scenarios: those with this tag; repeatable: with all these tags.")  # fmt: skip
@click.option("--level", "of_level", type=click.Choice(OPERATOR_LEVELS), default=None,
              help="With scenarios, faults or mutants: those that can be at this level.")  # fmt: skip
@click.option("--fault", "of_fault", default=None, metavar="FAULT", shell_complete=fault_names,
              help="With scenarios: those that inject this fault.")  # fmt: skip
@click.option("--jobs", is_flag=True, help="With scenarios: those for `floodmark job`, for a job of yours.")
@option("--format", "form", type=click.Choice(["pretty", "json", "markdown", "github"]), default="pretty",
        show_default=True, help="Format of standard output.")  # fmt: skip
def list_(
    kind: str,
    *,
    of_tags: tuple[str, ...],
    of_level: str | None,
    of_fault: str | None,
    jobs: bool,
    form: str,
) -> None:
    """List everything of one KIND, with one sentence each."""
    if jobs and kind != "scenarios":
        raise click.UsageError(f"--jobs goes with `floodmark list scenarios`, not with {kind}")
    rows = _job_scenarios() if jobs else _LISTINGS[kind]()
    rows = _chosen(rows, kind, tags=of_tags, level=of_level, fault=of_fault)
    match form:
        case "json":
            click.echo(json.dumps({kind: rows}, ensure_ascii=False, indent=2))
        case "markdown" | "github":
            heads = list(rows[0])
            lines = [heads, ["---"] * len(heads), *([_cell(row[head]) for head in heads] for row in rows)]
            click.echo("\n".join(f"| {' | '.join(line)} |" for line in lines))
        case _:
            width = max(len(row["name"]) for row in rows)
            for row in rows:  # a scenario also has its levels, and its expected seconds at level live
                when = f"{' '.join(row['levels']):<14}  {row['seconds']:>3} s  " if "seconds" in row else ""
                click.echo(f"{row['name']:<{width}}  {when}{_first_upper(row['about'])}")


def _chosen(
    rows: Sequence[Row], kind: str, *, tags: Sequence[str], level: str | None, fault: str | None
) -> Sequence[Row]:
    """The rows with all `tags`, `level` and `fault`.

    Raises UsageError for a filter that is none of this kind or a name that no row has, NothingRan if no row is left.
    """
    wanted = [("tag", "tags", tag) for tag in tags]
    wanted += [("level", "levels", level)] if level is not None else []
    wanted += [("fault", "faults", fault)] if fault is not None else []
    for name, column, value in wanted:
        known = sorted({name for row in rows for name in row.get(column, ())})
        if not known:
            raise UsageError(f"--{name} does not go with `floodmark list {kind}`", fix=f"leave --{name} out")
        if value not in known:
            close = get_close_matches(value, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"choose from: {', '.join(known)}"
            raise UsageError(f"none of the {kind} has {name} {value!r}", fix=hint)
    left = [row for row in rows if all(value in row[column] for _, column, value in wanted)]
    if not left:
        asked = " and ".join(f"{name} {value}" for name, _, value in wanted)
        raise NothingRan(f"none of the {kind} has {asked}", fix="leave one of them out")
    return left


def _scenarios() -> Sequence[Row]:
    from harness.scenario.catalogue import expected_s, folders
    from harness.scenario.file import load_many

    folder_of = folders()
    return [
        {
            "name": scenario.scenario,
            "about": scenario.about,
            "folder": folder_of[scenario.scenario],
            "levels": list(scenario.levels),
            "seconds": round(expected_s(scenario)),
            "faults": list(dict.fromkeys(fault.do for fault in scenario.faults)),
            "decisive": list(scenario.decisive),
            "tags": list(scenario.tags),
        }
        for scenario in load_many(["all"])
    ]


def _job_scenarios() -> Sequence[Row]:
    from harness.levels.job.job_scenarios import load_jobs

    return [
        {
            "name": scenario.scenario,
            "about": scenario.about,
            "engines": list(scenario.engines),
            "faults": list(dict.fromkeys(fault.do for fault in scenario.faults)),
            "tags": list(scenario.tags),
        }
        for _, scenario in load_jobs(["all"])
    ]


def _faults() -> Sequence[Row]:
    from harness.faults.registry import FAULTS

    return [
        {
            "name": name,
            "about": kind.about,
            "evidence": kind.must_show,
            "needs": list(kind.needs()),
            "takes": list(kind.takes()),
            "begins_by": list(kind.triggers),
            "abilities": list(kind.abilities),
            "levels": list(kind.levels),
        }
        for name, kind in FAULTS.items()
    ]


def _invariants() -> Sequence[Row]:
    from harness.history.invariants import INVARIANTS

    return [{"name": name, "about": about} for name, about in INVARIANTS.items()]


def _suts() -> Sequence[Row]:
    from harness.sut.registry import SUTS

    return [{"name": name, "about": about} for name, about in SUTS.items()]


def _mutants() -> Sequence[Row]:
    from harness.sut.defects import DEFECTS

    return [
        {
            "name": defect.name,
            "about": defect.about,
            "number": defect.label,
            "convicted_by": list(defect.convicted_by),
            "scenario": defect.scenario,
            "levels": list(defect.levels),
        }
        for defect in DEFECTS.values()
    ]


def _coverage() -> Sequence[Row]:
    """Each fault with the phases at which it was effective, and what no counted run reached."""
    from harness.explore.features import holes, sources
    from harness.faults.registry import FAULTS

    counted = sources()
    missing = {(hole.kind, hole.phase): hole.why for hole in holes(counted)}
    rows: list[Row] = []
    for kind in FAULTS:
        of = {source.title: source.pairs.get(kind, {}) for source in counted}
        open_at = [phase for of_kind, phase in missing if of_kind == kind and phase]
        total = ", ".join(f"{title}: {sum(pairs.values())}" for title, pairs in of.items())
        if (kind, "") in missing:
            total += f"; never effective: {missing[kind, ''] or 'no reason is known'}"
        elif open_at:
            total += f"; never at {', '.join(open_at)}"
        rows.append(
            {"name": kind, "about": total, "phases": {title: dict(pairs) for title, pairs in of.items()}}
        )
    return rows


_LISTINGS: Mapping[str, Callable[[], Sequence[Row]]] = {
    "scenarios": _scenarios,
    "faults": _faults,
    "invariants": _invariants,
    "suts": _suts,
    "mutants": _mutants,
    "coverage": _coverage,
}


def _cell(value: Any) -> str:
    match value:
        case None | "":
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case dict():
            counts = {name: [f"{of} {count}" for of, count in inner.items()] for name, inner in value.items()}
            return "; ".join(f"{name}: {', '.join(told) or '-'}" for name, told in counts.items())
        case str():
            return _first_upper(value).replace("|", "\\|") if " " in value else f"`{value}`"
        case _:
            return ", ".join(f"`{item}`" for item in value)


def _first_upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
