"""Whole runs of a plain job of a user's: in a real world, right and wrong, under a kill and without."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.database.endpoint import connect
from harness.engine.campaign import carry_out
from harness.engine.level import Observer, Opening, OutsideRecord, RunSite, Stop
from harness.engine.open_levels import OpenLevels, StagePlan, open_levels
from harness.engine.worlds import abilities_needed
from harness.history.verdict import Outcome
from harness.levels import level_named
from harness.levels.job.job_file import JobFile
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import load_jobs
from harness.levels.job.order import JobOrder
from harness.scenario.outcome import RunOutcome
from harness.system.errors import CannotHere, WorldError
from harness.tests.real_world import require_world
from harness.world.settings import WorldSettings
from harness.world.world import Credentials

pytestmark = pytest.mark.real

UNLOGGED = Path(__file__).parent / "jobs" / "unlogged_job.py"
PLAIN = Path(__file__).parent / "jobs" / "plain_job.py"
AFTER_SECOND = {"id": "kill", "do": "kill_driver", "when": {"sink": "commit", "nth": 2, "moment": "after"}}
BEFORE_SECOND = {"id": "kill", "do": "kill_driver", "when": {"sink": "commit", "nth": 2, "moment": "before"}}


def _order(
    *words: str,
    faults: Sequence[Mapping[str, Any]] = (AFTER_SECOND,),
    kind: str = "file",
    budget: str = "60s",
    calm_only: bool = False,
    **job: Any,
) -> JobOrder:
    file = JobFile.model_validate(
        {
            "job": {
                "command": [sys.executable, str(PLAIN), *words],
                "env": {"RECORDS": "40"},
                "stop": {"grace": "5s"},
                **job,
            },
            "source": {"kind": kind},
        }
    )
    scenario = JobScenario.model_validate(
        {
            "job_scenario": "killed",
            "about": "The job is killed between two transactions.",
            "faults": list(faults),
            "records": 40,
            "budget": budget,
        }
    )
    return JobOrder(scenario=scenario, job=file, seed=7, data_seed=7, calm_only=calm_only)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLevels]:
    require_world("local", "own", settings=WorldSettings.from_environment())
    plan = StagePlan(
        run_id="jobs",
        report=tmp_path_factory.mktemp("report"),
        levels=level_named,
        world="local",
        proxy="own",
        keep="always",
    )
    with open_levels(plan, observer=Observer(), stop=Stop()) as opened:
        yield opened


def _failed(outcome: RunOutcome) -> dict[str, set[str]]:
    return {
        one.invariant: {anomaly.kind for anomaly in one.anomalies}
        for one in outcome.judgement.invariants
        if one.outcome is Outcome.FAIL
    }


def _events(outcome: RunOutcome, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, outcome.history.read_text().splitlines())
    return [line for line in lines if line.get("k") == kind]


@pytest.mark.parametrize(
    ("kind", "words", "ends", "how"),
    [
        ("file", ["right"], "exit", "exit"),
        ("table", ["right"], "exit", "exit"),
        ("folder", ["says-done"], "file", "file"),
        ("file", ["stays", "slow=3"], "settles", "all-rows"),
        ("folder", ["no-state"], "exit", "exit"),
    ],
)
def test_a_right_job_passes_under_a_kill_however_it_ends(
    stage: OpenLevels, kind: str, words: list[str], ends: str, how: str
) -> None:
    """`slow=3` restarts slower than the sink's quiet time, and nothing is lost by that."""
    outcome = stage.run(_order(*words, kind=kind, ends=ends))
    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    assert [event["how"] for event in _events(outcome, "finished")] == [how]
    assert _events(outcome, "exit")[0] | {"n": 0, "t": 0} == {
        "k": "exit", "n": 0, "t": 0, "start": 1, "signal": 9, "by": "kill"
    }  # fmt: skip
    assert len(_events(outcome, "asked")) >= 40
    sessions = {row["start"]: row["session"] for row in _events(outcome, "row")}
    assert sorted(sessions) == [1, 2]
    assert sessions[1] < sessions[2]
    notes = outcome.extras["job"]["notes"]
    assert bool(notes) == ("no-state" in words)  # what keeps no state would do all again


def test_an_older_start_that_holds_the_jobs_lock_is_waited_for_when_newer_ones_have_exited(
    stage: OpenLevels,
) -> None:
    frozen = {"id": "frozen", "do": "frozen_start", "for": "500ms"}
    when = {"sink": "commit", "nth": 2, "moment": "after"}

    outcome = stage.run(_order("right", "alone", "pace=0.7", faults=[{**frozen, "when": when}]))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    [finished] = _events(outcome, "finished")
    before = [(one["start"], one["code"]) for one in _events(outcome, "exit") if one["n"] < finished["n"]]
    assert before[0] == (2, 0)
    assert (1, 0) in before
    assert all(code == 0 for _, code in before)


def test_each_write_beside_a_start_that_woke_is_known_to_be_of_its_start_however_short_its_session(
    stage: OpenLevels,
) -> None:
    """A socket that is looked for when the session is seen is often closed by then."""
    outcome = stage.run(_order("right", "briefly", "pace=0.2", faults=_faults_of("frozen-start")))

    assert _failed(outcome)["V13"] == {"zombie-effect"}
    assert {row.get("start") for row in _events(outcome, "row")} >= {1, 2}
    assert all("start" in row for row in _events(outcome, "row"))


def test_a_job_that_is_not_deterministic_is_told_with_both_values_before_a_fault_is_blamed(
    stage: OpenLevels,
) -> None:
    outcome = stage.run(_order("right", "nonsense"))

    assert _failed(outcome) == {"V8": {"wrong-value"}}
    (verdict,) = outcome.judgement.convicted()
    values = set()
    for anomaly in verdict.anomalies:
        told = re.match(
            r'the job is not deterministic: without any fault record (\d+) had name = "(\d+)".*'
            r' in one run and name = "(\d+)".* in another; ',
            anomaly.say,
        )
        assert told is not None, anomaly.say
        assert told[1] == str(anomaly.id)
        values |= {told[2], told[3]}
    assert len(values) == 2 * len(verdict.anomalies)
    named = _named(outcome)["not-deterministic"]
    assert named.startswith("The job is not deterministic: without any fault record")


@pytest.mark.parametrize(
    ("word", "why", "failed"),
    [
        ("open", "by the foreign key ", {}),
        ("all", "by the foreign key ", {"V8": {"lost", "changed-again"}}),
        ("swap", 'by the statement "RENAME TABLE enriched', {}),
        ("swap-on", 'by the statement "RENAME TABLE enriched', {"V8": {"lost", "changed-again"}}),
    ],
)
def test_a_table_that_changes_below_the_log_is_judged_from_itself_alone_and_that_is_said(
    stage: OpenLevels, word: str, why: str, failed: dict[str, set[str]]
) -> None:
    when = {"sink": "write", "nth": 25, "moment": "after"}
    order = _order(word, kind="folder", faults=[{"id": "kill", "do": "kill_driver", "when": when}])
    job = order.job.job.model_copy(update={"command": (sys.executable, str(UNLOGGED), word)})
    sink = order.job.sink.model_copy(update={"write": "replace"})

    outcome = stage.run(replace(order, job=order.job.model_copy(update={"job": job, "sink": sink})))

    assert set(_failed(outcome)) == set(failed), outcome.judgement
    assert _failed(outcome).get("V8", set()) <= failed.get("V8", set())
    assert outcome.judgement.outcome is (Outcome.FAIL if failed else Outcome.PASS)
    said = [threat for threat in outcome.threats if threat.startswith("Judged from the table alone")]
    assert len(said) == 1
    assert why in said[0]
    assert _events(outcome, "row") == []


@pytest.mark.parametrize(("word", "failed"), [("forgets", {"V8": {"lost", "changed-again"}}), ("again", {})])
def test_writes_that_a_start_leaves_without_a_commit_are_named_as_the_cause(
    stage: OpenLevels, word: str, failed: dict[str, set[str]]
) -> None:
    when = {"sink": "write", "nth": 2, "moment": "before"}
    reset = {"id": "reset", "do": "reset_now", "link": "sink", "when": when}

    outcome = stage.run(_order("right", word, faults=[reset]))

    assert _failed(outcome) == failed
    named = [pitfall for pitfall in outcome.pitfalls if pitfall.name == "left-uncommitted"]
    assert bool(named) is bool(failed)
    for pitfall in named:
        assert "INSERT enriched" in pitfall.says
        assert "before start 1 exited with code 0" in pitfall.says


def _named(outcome: RunOutcome) -> dict[str, str]:
    return {pitfall.name: pitfall.says for pitfall in outcome.pitfalls}


FIFTH_WRITE = {"sink": "write", "nth": 15, "moment": "before"}
"""Of the second batch; with `singly` each of its rows is a statement."""
LOST_CONNECTION = {"id": "reset", "do": "reset_now", "link": "sink", "when": FIFTH_WRITE}
DEADLOCK = {"id": "victim", "do": "sql_error", "link": "sink", "code": 1213, "times": 1, "when": FIFTH_WRITE}


@pytest.mark.parametrize(
    ("fault", "name", "says"),
    [
        (LOST_CONNECTION, "lost-with-its-connection", "with 4 statements answered with OK and not committed"),
        (DEADLOCK, "rolled-back-by-deadlock", "which rolled back 5 statements before it"),
    ],
)
@pytest.mark.parametrize("word", ["goes-on", "again"])
def test_a_job_that_does_not_begin_its_transaction_again_loses_what_went_before_and_that_is_named(
    stage: OpenLevels, fault: Mapping[str, Any], name: str, says: str, word: str
) -> None:
    outcome = stage.run(_order("right", "singly", word, faults=[fault]))

    is_wrong = word == "goes-on"
    assert outcome.judgement.outcome is (Outcome.FAIL if is_wrong else Outcome.PASS), outcome.judgement
    assert _failed(outcome).get("V8", {"lost"}) == {"lost"}
    assert _named(outcome).keys() == ({name} if is_wrong else set())
    assert says in _named(outcome).get(name, says)
    assert "INSERT INTO enriched VALUES (1" in _named(outcome).get(name, "INSERT INTO enriched VALUES (1")


@pytest.mark.parametrize("word", ["defines", "temporary"])
def test_a_table_that_is_made_in_a_transaction_commits_it_unless_it_is_a_temporary_one(
    stage: OpenLevels, word: str
) -> None:
    outcome = stage.run(_order("right", word, faults=[BEFORE_SECOND]))

    is_wrong = word == "defines"
    assert _failed(outcome) == ({"V8": {"duplicate"}} if is_wrong else {})
    assert _named(outcome).keys() == ({"committed-by-ddl"} if is_wrong else set())
    for says in _named(outcome).values():
        assert says.startswith('"create table if not exists scratch (n int)" at ')


@pytest.mark.parametrize(("word", "failed"), [("right", {"V8": {"duplicate"}}), ("no-state", {})])
def test_a_table_without_transactions_is_named_and_no_fencing_is_claimed(
    stage: OpenLevels, word: str, failed: dict[str, set[str]]
) -> None:
    outcome = stage.run(_order(word, "engine=MyISAM", faults=[BEFORE_SECOND]))

    assert _failed(outcome) == failed
    assert "is of the engine MyISAM, which has no transactions" in _named(outcome)["no-transactions"]
    (fencing,) = [one for one in outcome.judgement.invariants if one.invariant == "V13"]
    assert fencing.outcome is Outcome.NOT_CLAIMED


@pytest.mark.parametrize("calm_only", [True, False])
def test_a_value_that_the_server_cut_is_wrong_though_the_calm_twin_has_it_too(
    stage: OpenLevels, *, calm_only: bool
) -> None:
    wrong = stage.run(_order("right", "ignore", "singly", "narrow", calm_only=calm_only))
    right = stage.run(_order("right", "ignore", "singly", calm_only=calm_only))

    assert _failed(wrong) == {"V8": {"wrong-value"}}
    assert _named(wrong).keys() == {"value-cut"}
    (verdict,) = wrong.judgement.convicted()
    assert all(re.search(r'name = ".{4}" where ".{5,}" is right', one.say) for one in verdict.anomalies)
    assert _failed(right) == {}
    assert _named(right).keys() == set()
    expected = [[(offer["id"], offer["expect"]) for offer in _events(run, "offer")] for run in (wrong, right)]
    assert expected[0] == expected[1]


def test_a_job_that_commits_rows_before_its_position_doubles(stage: OpenLevels) -> None:
    outcome = stage.run(_order("append"))
    assert _failed(outcome) == {"V8": {"duplicate"}}


def test_a_job_in_autocommit_is_killed_behind_its_own_commits_too(stage: OpenLevels) -> None:
    """It sends no COMMIT: of its writes, those to its table count, and not those that save its position."""
    outcome = stage.run(_order("autocommit"))
    assert _failed(outcome) == {"V8": {"duplicate"}}
    assert outcome.faults[0].evidence["held"] == "after INSERT enriched 2 of enriched"


@pytest.mark.parametrize(
    ("words", "ends", "how"), [(["ahead"], "exit", "exit"), (["ahead", "stays"], "settles", "settled")]
)
def test_a_job_that_commits_its_position_before_its_rows_loses_whether_it_exits_or_waits(
    stage: OpenLevels, words: list[str], ends: str, how: str
) -> None:
    outcome = stage.run(_order(*words, ends=ends, faults=[BEFORE_SECOND]))
    assert [event["how"] for event in _events(outcome, "finished")] == [how]
    assert _failed(outcome) == {"V8": {"lost"}}


def _kill_at(when: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"id": "kill", "do": "kill_driver", "when": when}


BEFORE_LAST = _kill_at({"sink": "commit", "nth": 4, "moment": "before"})
AFTER_LAST = _kill_at({"sink": "commit", "nth": 4, "moment": "after"})
BUFFERED = _kill_at({"sink": "message", "nth": 12, "moment": "after"})
"""Behind the first batch, whose position is saved and whose rows wait for more; with `right` nothing is saved."""


@pytest.mark.parametrize("kind", ["file", "folder", "table"])
def test_the_last_rows_of_a_job_that_waits_for_ever_are_lost_when_further_records_come_through(
    stage: OpenLevels, kind: str
) -> None:
    outcome = stage.run(_order("ahead", "stays", ends="settles", kind=kind, faults=[BEFORE_LAST]))

    assert [event["how"] for event in _events(outcome, "finished")] == ["settled"]
    assert _failed(outcome) == {"V8": {"lost"}}
    assert {one.outcome for one in outcome.judgement.invariants if one.invariant == "V23"} == {Outcome.PASS}
    assert outcome.accounting["sentinels"] == 3


@pytest.mark.parametrize(("word", "failed"), [("ahead", {"V8": {"lost"}}), ("right", {})])
def test_further_records_push_out_what_waits_in_a_buffer_and_what_it_lost_is_lost(
    stage: OpenLevels, word: str, failed: dict[str, set[str]]
) -> None:
    outcome = stage.run(_order(word, "stays", "buffer=20", ends="settles", faults=[BUFFERED]))

    assert _failed(outcome) == failed
    assert outcome.judgement.outcome is (Outcome.FAIL if failed else Outcome.PASS), outcome.judgement


@pytest.mark.parametrize(("words", "how"), [(["behind"], "exit"), (["behind", "unaware"], "all-rows")])
def test_a_start_whose_position_is_behind_the_end_of_the_table_learns_it_or_is_not_stuck(
    stage: OpenLevels, words: list[str], how: str
) -> None:
    outcome = stage.run(_order("right", *words, kind="table", faults=[AFTER_LAST]))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    assert [event["how"] for event in _events(outcome, "finished")] == [how]
    assert any("had nothing left to read" in note for note in outcome.threats) is ("unaware" in words)


@pytest.mark.parametrize(("nth", "is_told"), [(1, True), (3, False)])
def test_a_kill_before_the_job_had_saved_anything_is_told(
    stage: OpenLevels, nth: int, *, is_told: bool
) -> None:
    when = {"sink": "write", "nth": nth, "moment": "before"}

    outcome = stage.run(_order("right", "in-file", faults=[_kill_at(when)]))

    told = [
        one for one in outcome.threats if one.startswith("The job was killed before it had saved anything")
    ]
    assert bool(told) is is_told


def test_a_finished_job_that_drops_its_state_is_not_started_once_more(stage: OpenLevels) -> None:
    outcome = stage.run(_order("right", "drops-state", faults=[]))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    assert len(_events(outcome, "start")) == 1
    [note] = outcome.extras["job"]["notes"]
    assert "its own end emptied its state folder" in note
    assert "settles" in note


def test_a_further_start_that_does_not_exit_is_told_and_has_time_for_two_first_rows(
    stage: OpenLevels,
) -> None:
    outcome = stage.run(_order("right", "behind", "unaware", kind="table", faults=[]))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    assert any("the finished job did not exit" in note for note in outcome.threats)
    [_, again] = _events(outcome, "start")
    [_, ended] = _events(outcome, "exit")
    calm = outcome.extras["job"]["calm"]
    assert ended["t"] - again["t"] >= 2_000 * calm["first_row_ms"]


@pytest.mark.parametrize(
    ("words", "failed"),
    [([], {"V8": {"lost"}}), (["in-order"], {}), (["locks"], {}), (["in-order", "stays"], {})],
    ids=["by position", "in order", "with locks", "waits for ever"],
)
def test_a_job_that_asks_for_what_is_behind_its_position_loses_rows_that_are_committed_late(
    stage: OpenLevels, words: list[str], failed: dict[str, set[str]]
) -> None:
    ends = "settles" if "stays" in words else "exit"
    order = _order("right", "behind", *words, kind="table", faults=[], ends=ends)
    gaps = order.job.source.model_copy(update={"gaps": True})

    outcome = stage.run(replace(order, job=order.job.model_copy(update={"source": gaps})))

    assert _failed(outcome) == failed
    assert outcome.judgement.outcome is (Outcome.FAIL if failed else Outcome.PASS), outcome.judgement
    [_, filled] = _events(outcome, "fault")
    assert filled["evidence"]["read_while_open"] >= 1


def test_a_table_source_whose_server_is_down_goes_on_when_it_serves_again(stage: OpenLevels) -> None:
    killed = _faults_of("server-killed")
    order = _order("right", "behind", "pace=0.05", kind="table", faults=killed)
    spread = order.scenario.model_copy(update={"offer": 2_000})

    outcome = stage.run(replace(order, scenario=spread))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement


def _faults_of(scenario: str) -> list[dict[str, Any]]:
    [(_, shipped)] = load_jobs([scenario])
    dumped: list[dict[str, Any]] = shipped.model_dump(mode="json", by_alias=True)["faults"]
    return dumped


DOUBLES, LOSES = {"V8": {"duplicate"}}, {"V8": {"lost"}}


@pytest.mark.long
@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize(
    ("cycle", "failed"),
    [
        ("rows/place", DOUBLES),
        ("place/rows", LOSES),
        ("audit/rows/place", DOUBLES),
        ("rows/audit/place", DOUBLES),
        ("rows/place/audit", DOUBLES),
        ("audit/place/rows", LOSES),
        ("place/audit/rows", LOSES),
        ("place/rows/audit", LOSES),
    ],
)
def test_whatever_else_a_job_commits_the_kills_around_the_commit_of_its_rows_convict_it(
    stage: OpenLevels, cycle: str, failed: dict[str, set[str]], *, autocommit: bool
) -> None:
    words = [f"cycle={cycle}", *(["autocommit"] if autocommit else [])]

    assert _failed(stage.run(_order(*words, faults=_faults_of("killed-after-commit")))) == failed


@pytest.mark.long
@pytest.mark.parametrize("cycle", ["rows+place", "place+rows", "audit/rows+place", "rows+place/audit"])
def test_one_transaction_for_rows_and_position_passes_whatever_else_is_committed(
    stage: OpenLevels, cycle: str
) -> None:
    outcome = stage.run(_order(f"cycle={cycle}", faults=_faults_of("killed-after-commit")))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "rows_first", "place_first"),
    [
        ("killed-before-commit", {}, LOSES),
        ("owner-killed-after-commit", DOUBLES, {}),
        ("owner-killed-before-write", {}, LOSES),
        ("killed-while-insert-waits", {}, LOSES),
        ("commit-reply-lost", DOUBLES, {}),
        ("commit-swallowed", {}, LOSES),
    ],
)
def test_each_other_moment_shows_the_order_whose_window_it_is_in(
    stage: OpenLevels, scenario: str, rows_first: dict[str, set[str]], place_first: dict[str, set[str]]
) -> None:
    faults = _faults_of(scenario)

    for cycle in ("rows/place", "audit/rows/place"):
        assert _failed(stage.run(_order(f"cycle={cycle}", faults=faults))) == rows_first, cycle
    for cycle in ("place/rows", "place/audit/rows"):
        assert _failed(stage.run(_order(f"cycle={cycle}", faults=faults))) == place_first, cycle


@pytest.mark.long
@pytest.mark.parametrize("how", ["in-one", "prepared"])
@pytest.mark.parametrize(
    ("cycle", "failed"), [("rows/place", DOUBLES), ("place/audit/rows", LOSES), ("rows+place", {})]
)
def test_each_of_several_statements_in_a_query_and_a_prepared_one_counts_as_one_that_is_sent_alone(
    stage: OpenLevels, how: str, cycle: str, failed: dict[str, set[str]]
) -> None:
    outcome = stage.run(_order(f"cycle={cycle}", how, faults=_faults_of("killed-after-commit")))

    assert _failed(outcome) == failed
    assert outcome.judgement.outcome is (Outcome.FAIL if failed else Outcome.PASS), outcome.judgement
    assert [fault.evidence["held"].endswith(" of enriched") for fault in outcome.faults] == [True, True]


OUTLASTS = {
    "id": "denied", "do": "sql_error", "link": "lookups", "code": 1205, "statement": "SELECT name", "times": 2,
    "for": "60s", "when": {"sink": "commit", "nth": 1, "moment": "after"},
}  # fmt: skip
"""Acts on two lookups of the second batch, whose first waits for the commit, and is on for longer than the input."""


@pytest.mark.parametrize("ends", ["exit", "settles"])
@pytest.mark.parametrize(("word", "failed"), [("skips", {"V8": {"lost"}}), ("right", {})])
def test_a_fault_that_outlasts_the_input_heals_before_the_job_counts_as_finished(
    stage: OpenLevels, ends: str, word: str, failed: dict[str, set[str]]
) -> None:
    words = [word, "stays"] if ends == "settles" else [word]
    starts = 1 if word == "skips" else 6  # the right one ends at each denied lookup
    outcome = stage.run(_order(*words, ends=ends, starts=starts, faults=[OUTLASTS]))

    assert _failed(outcome) == failed
    assert outcome.judgement.outcome is (Outcome.FAIL if failed else Outcome.PASS), outcome.judgement
    [_, healed] = _events(outcome, "fault")
    [finished] = _events(outcome, "finished")
    header = json.loads(outcome.history.read_text().splitlines()[0])
    assert finished["t"] - healed["t"] >= 1000 * header["bounds"]["quiet"]


def test_a_link_that_is_down_when_no_connection_is_open_is_shown_by_the_start_that_it_ends(
    stage: OpenLevels,
) -> None:
    down = {"id": "cut", "do": "down", "link": "lookups", "for": "300ms", "when": {"sink": "write", "nth": 3}}
    outcome = stage.run(_order("right", "connects", faults=[down]))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    [[time]] = [fault.times for fault in outcome.faults]
    assert time.evidence.keys() == {"starts_failed"}
    assert time.witnesses == ("the harness, which reaps processes",)


def test_a_lookup_that_is_held_while_its_link_goes_down_is_lost(stage: OpenLevels) -> None:
    """However the job shares its time between lookups and writes: a link that is idle then would show nothing."""
    outcome = stage.run(_order("right", faults=_faults_of("lookups-cut")))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    [[time]] = [fault.times for fault in outcome.faults]
    assert time.evidence["connections_lost"] >= 1


def test_a_fault_does_not_begin_before_the_job_has_connected(stage: OpenLevels) -> None:
    """A JVM takes seconds to start, in which all records are offered, and the fault would be over."""
    kill = {"id": "kill", "do": "kill_driver", "when": {"record": 10}}
    outcome = stage.run(_order("right", "late=1.5", faults=[kill]))

    assert outcome.judgement.outcome is Outcome.PASS, outcome.judgement
    assert _events(outcome, "fault")[0]["t"] - _events(outcome, "start")[0]["t"] >= 1_500_000


def test_a_job_that_gives_up_for_good_is_stuck(stage: OpenLevels) -> None:
    outcome = stage.run(_order("crashes-late", starts=3))
    assert "V16" in _failed(outcome)
    assert len(_events(outcome, "start")) == 3
    assert any(one.startswith("start 3 exited with code 3; ") for one in outcome.threats)


def test_a_job_that_the_commands_budget_cuts_off_is_not_said_to_have_stood_still(stage: OpenLevels) -> None:
    words = ("right", "slow=60")  # its second start reads nothing for a minute
    with pytest.raises(CannotHere, match="the budget of the command is over.*calm twin"):
        stage.run(_order(*words), limit_s=0.1)
    stage.run(_order(*words, calm_only=True))

    outcome = stage.run(_order(*words), limit_s=3)

    assert outcome.judgement.outcome is Outcome.UNKNOWN, outcome.judgement
    assert outcome.error == "the budget of the command is over, 3 s after the run began"
    assert not outcome.interrupted
    assert not _events(outcome, "giveup")


@pytest.mark.parametrize(
    ("words", "ends", "says"),
    [
        (["crashes"], "exit", "exited with code 3"),
        (
            ["elsewhere"],
            "exit",
            r"it wrote to place \(1 rows\), other \(40 rows\): should \[sink\] name that table",
        ),
        (["hangs"], "exit", "a row is missing.*it printed nothing"),
    ],
)
def test_a_job_that_does_not_work_undisturbed_is_told_as_one(
    tmp_path: Path, words: list[str], ends: str, says: str
) -> None:
    plan = StagePlan(run_id="calm", report=tmp_path, levels=level_named, world="local", proxy="own")
    order = _order(*words, ends=ends, budget="1s" if words == ["hangs"] else "60s")
    with pytest.raises(WorldError, match=f"(?s)does not work undisturbed: .*{says}"):
        carry_out([order], plan, observer=Observer(), stop=Stop())


def test_a_calm_run_alone_shows_the_pace_of_the_job(stage: OpenLevels) -> None:
    outcome = stage.run(_order("right", faults=(), calm_only=True))
    assert outcome.judgement.outcome is Outcome.PASS
    calm = outcome.extras["job"]["calm"]
    assert calm["messages"] > calm["commits"] >= 4
    assert 0 < calm["first_row_ms"] <= calm["took_s"] * 1000


def test_a_table_on_which_no_trigger_may_be_made_is_judged_by_the_log_alone(
    stage: OpenLevels, tmp_path: Path
) -> None:
    """The log of MariaDB tells no session; of one start after the other that is known all the same, and said."""
    order = _order("append")
    with stage.worlds().lent(abilities_needed(order)) as world:
        grants = "GRANT ALL PRIVILEGES ON *.* TO no_trigger@'%' IDENTIFIED BY 'no' WITH GRANT OPTION"
        with connect(world.root.at(world.direct, "")) as connection, connection.cursor() as cursor:
            for statement in (grants, "REVOKE TRIGGER ON *.* FROM no_trigger@'%'"):
                cursor.execute(statement)
        less = replace(world, root=Credentials(user="no_trigger", password="no"))
        site = RunSite(run_id="no-trigger", folder=tmp_path, world=less)
        with level_named("job").open(Opening(folder=tmp_path / "level")) as play:
            record = play(order, site)
    assert isinstance(record, OutsideRecord)
    judgement = record.judge(record.header, record.events)
    assert {one.invariant for one in judgement.convicted()} == {"V8"}
    said = " ".join(record.threats)
    assert "TRIGGER command denied" in said
    assert "the log of changes is read without it" in said
