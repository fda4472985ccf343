"""The files beside a certificate: of each run its history, its verdict by both judges, and its scenario.

Invariant: what `both_judge` says depends on the history's file alone, so that `floodmark verify` can ask it again.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from harness.history.strict_json import integers_of_any_length
from harness.history.values import without_credentials
from harness.history.verdict import Judgement, Outcome, worst
from harness.judge import second_judge
from harness.judge.checkers.outside.judge import judge_history
from harness.judge.checkers.second_opinion import second_opinion
from harness.scenario.certificate import Agreement
from harness.scenario.outcome import RunOutcome
from harness.system.errors import FloodmarkError, HistoryError, WorldError
from harness.system.json_types import Json
from harness.system.pool import open_processes
from harness.system.whole_file import whole_file, write_whole

SECOND_JUDGE: Final = "harness/judge/second_judge.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceJudged:
    """What both judges say of one history."""

    judgement: dict[str, Any]
    """The first judge's, as `floodmark check --format json` prints it, unexplained."""
    second: Agreement
    second_verdict: str
    differs: tuple[str, ...]


def both_judge(path: Path) -> TwiceJudged:
    """Asks both judges. Raises HistoryError if the file is no history."""
    with integers_of_any_length():
        judged = judge_history(path)
        if not isinstance(judged, Judgement):
            first = judged.breaches[0]
            raise HistoryError(f"{path.name} is no well-formed history: line {first.line}: {first.say}")
        second = second_opinion(path, judged)
    return TwiceJudged(
        judgement=judged.as_json(),
        second="agrees" if second.agrees else "differs",
        second_verdict=second.verdict,
        differs=second.differs,
    )


def both_judge_all(
    paths: Sequence[Path], *, jobs: int, goes_on: Callable[[], bool] = lambda: True
) -> Iterator[TwiceJudged | FloodmarkError]:
    """Both judges on each file, in order, in `jobs` processes; an error for a file that is no history.

    Ends early when `goes_on` is no longer true. Raises WorldError if a process was killed.
    """
    died, fix = "a worker process was killed while it judged a history", "use --jobs 1 if memory was short"
    with open_processes(min(jobs, len(paths)) or 1, is_fresh=True, died=died, fix=fix) as pool:
        yield from pool.map(_judged_or_error, paths, most=1, goes_on=goes_on)


def _judged_or_error(paths: Sequence[Path]) -> TwiceJudged | FloodmarkError:
    (path,) = paths
    try:
        return both_judge(path)
    except WorldError:
        raise
    except FloodmarkError as error:
        return HistoryError(error.what)


def second_judge_digest() -> str:
    """The digest of the second judge's own file."""
    return sha256(Path(second_judge.__file__).read_bytes()).hexdigest()


def stem_of(name: str, seed: int) -> str:
    """A name for the files of a run."""
    return f"{re.sub(r'[^A-Za-z0-9_.=-]+', '-', name).strip('-')}-{seed}"


def write_history(source: Path, target: Path) -> None:
    """The history, compressed; equal histories give equal files. Its source is removed."""
    with (
        whole_file(target) as raw,
        source.open("rb") as read,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
    ):
        shutil.copyfileobj(read, packed, 1 << 20)
    source.unlink()


def write_scenario(plan: object, target: Path) -> None:
    """The scenario as it ran, settings applied: JSON, which is YAML, so that `floodmark run` takes it."""
    write_whole(target, json.dumps(plan, indent=2, ensure_ascii=True) + "\n")


def verdict_document(outcome: RunOutcome, judged: TwiceJudged) -> Json:
    """All that is known of one run but its history: the verdict, the evidence of its faults, its threats."""
    overall = worst([outcome.judgement.outcome, Outcome(judged.judgement["verdict"])])
    return {
        "verdict_version": 1,
        "scenario": outcome.scenario,
        "level": outcome.level,
        "seed": outcome.seed,
        "started_at": outcome.started_at,
        "duration_s": outcome.duration_s,
        "outcome": str(overall),
        "error": outcome.error,
        "faults": [
            {"id": fault.id, "kind": fault.kind, "bites": fault.bites, "evidence": _free(fault.evidence)}
            for fault in outcome.faults
        ],
        "pitfalls": [
            {"name": found.name, "says": found.says, "advice": found.advice} for found in outcome.pitfalls
        ],
        "threats": list(outcome.threats),
        "accounting": dict(outcome.accounting),
        "judgement": judged.judgement,
        "second": {"word": judged.second, "verdict": judged.second_verdict, "differs": list(judged.differs)},
    }


def _free(value: object) -> Json:
    return dict(without_credentials(value))
