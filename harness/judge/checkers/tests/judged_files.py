"""Small histories with a verdict: one form, and one function that compares a file with what all judges say of it.

Each is a file that `floodmark check` judges too; its name is its claim. `run` of its header holds what must be found:
the overall `verdict`, exactly which invariants convict with exactly which classes (`convicts`), `outcomes` worth naming
(every `unknown` among them); where it matters the `anomalies` of an invariant (`duplicate:1`: class, then id, j, tx and
start); `near`: the classes that an acquitted one comes close to; `canary`: see `harness.judge.canaries`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from harness.history.read import read_whole
from harness.history.verdict import Judgement
from harness.judge import canaries, checkers
from harness.judge.checkers.judge import judge
from harness.judge.checkers.outside.judge import judge_history
from harness.judge.checkers.outside.tests.test_two_outside_judges import differences as outside_differences
from harness.judge.checkers.second_opinion import compared
from harness.judge.second_judge import opinions

CATALOGUE = Path(checkers.__file__).parent / "tests" / "catalogue"
FILES = sorted(CATALOGUE.rglob("*.jsonl"))
FOLDERS = sorted(
    [
        *CATALOGUE.iterdir(),
        Path(checkers.__file__).parent / "outside" / "tests" / "catalogue",
        *(Path(canaries.__file__).parent / "histories").iterdir(),
    ]
)


def claimed(path: Path) -> dict[str, Any]:
    """`run` of its header."""
    claim: dict[str, Any] = json.loads(path.read_text().splitlines()[0])["run"]
    return claim


@cache
def judged(path: Path) -> Judgement:
    judgement = judge_history(path)
    assert isinstance(judgement, Judgement), judgement
    return judgement


def differences(path: Path) -> list[str]:
    """How a judge differs from the file's claim or from another judge."""
    claim, judgement = claimed(path), judged(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    anomalies = {
        v.invariant: sorted(_named(one.as_json()) for one in v.anomalies) for v in judgement.convicted()
    }
    outcomes = {v.invariant: str(v.outcome) for v in judgement.invariants}
    named = {
        "verdict": str(judgement.outcome),
        "convicts": {v.invariant: sorted({one.kind for one in v.anomalies}) for v in judgement.convicted()},
        "outcomes": {name: outcomes[name] for name in claim.get("outcomes", ())},
        "anomalies": {name: anomalies.get(name) for name in claim.get("anomalies", ())},
        "near": claim.get("near", []),
        "canary": claim.get("canary"),
    }
    wanted = {"outcomes": {}, "anomalies": {}, "near": [], "canary": None, **claim}
    told = [
        f"{what}: {named.get(what)}, not {wanted[what]}" for what in wanted if named.get(what) != wanted[what]
    ]
    if "unknown" in set(outcomes.values()) - set(wanted["outcomes"].values()):
        told.append(f"unknown, unsaid: {outcomes}")
    numbers = {line["n"] for line in lines[1:]}
    told += [
        f"names no events, others than there are, or no reason: {one}"
        for v in judgement.invariants
        for one in v.anomalies
        if not (one.events and numbers.issuperset(one.events) and one.say)
    ]
    if "view" in lines[0]:
        told += outside_differences([lines])[1]
    else:
        header, events = read_whole(path)
        if judge(header, events) != judgement:
            told.append("judged otherwise with the screen")
        told += compared(judgement, lines, opinions(lines)).differs
    return [f"{path.parent.name}/{path.stem}: {one}" for one in told]


def _named(anomaly: dict[str, Any]) -> str:
    names = [
        json.dumps(anomaly[name], separators=(",", ":"))
        for name in ("id", "j", "tx", "start")
        if name in anomaly
    ]
    return f"{anomaly['class']}:{'/'.join(names)}"
