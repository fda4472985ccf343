"""Makes failures at a real level with planted defects, carries them down to level sim, and prints what became of them.

`python -m tools.trials.carry_trial --level live NAME...`. Invariant: both commands are those that a user has: `run` at
the level, then `shrink` on the folder of its report, each in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from harness.sut.defects import find_defect
from harness.system.clock import monotonic_us
from harness.system.errors import Exit
from reports.run_document import load_document
from tools.defects import STRANGERS, mutant_named

_LIMIT_S: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What became of one failure."""

    defect: str
    failed: bool
    """Whether the run at the real level showed a violation at all."""
    shown: bool
    """Whether level sim showed one of the same class."""
    says: str
    took_s: float
    """Of carrying down and shrinking."""

    def __str__(self) -> str:
        word = "carried" if self.shown else "NOT SHOWN" if self.failed else "no failure"
        return f"{self.defect:<36} {word:<10} {self.took_s:6.1f} s  {self.says}"


def carry(name: str, *, level: str, folder: Path) -> Carried:
    """Run the scenario of the defect at `level`, then shrink its report."""
    scenario = find_defect(mutant_named(name)).scenario
    assert scenario is not None, f"{name} has no scenario of its own"
    settings = STRANGERS[name].settings if name in STRANGERS else ()
    told = [word for setting in settings for word in ("--set", setting)]
    report = folder / name
    ran = _command(
        "run",
        scenario,
        "--level",
        level,
        "--mutant",
        mutant_named(name),
        "--seed",
        "1",
        "--report",
        str(report),
        *told,
        "-q",
    )
    if not (report / "run.json").exists() or load_document(report / "run.json").runs[0].verdict != "fail":
        return Carried(defect=name, failed=False, shown=False, says=f"exit {ran.returncode}", took_s=0.0)
    began_us = monotonic_us()
    shrunk = _command("shrink", str(report), "--found", str(folder / "found"), "-q")
    lines = [
        line
        for line in shrunk.stdout.splitlines()
        if line.startswith(("left", "carried", "shrunk", "not shown"))
    ]
    return Carried(
        defect=name,
        failed=True,
        shown=shrunk.returncode == Exit.VIOLATION,
        says=" | ".join(lines) or shrunk.stderr.strip(),
        took_s=(monotonic_us() - began_us) / 1e6,
    )


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *words],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="DEFECT...")
@click.option("--level", type=click.Choice(["live", "spark"]), default="live", show_default=True)
def main(names: Sequence[str], *, level: str) -> None:
    """Carry a failure of each planted DEFECT down from LEVEL."""
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for name in names:
            results.append(carry(name, level=level, folder=Path(folder)))
            click.echo(str(results[-1]))
    failed = [one for one in results if one.failed]
    shown = sum(one.shown for one in failed)
    click.echo(f"level {level}: {shown} of {len(failed)} failures show the same class at level sim, shrunk")


if __name__ == "__main__":
    main()
