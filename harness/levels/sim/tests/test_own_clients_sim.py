"""Lookups with a client of their own at level sim: judged, repeated to the byte, made small, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.engine.level import Opening, RunSite, refuse
from harness.engine.perform import perform
from harness.explore.find import Find, load_find
from harness.explore.shrink import open_runs, shrink
from harness.history.verdict import Outcome
from harness.levels.live.tests.test_own_clients_live import shop
from harness.levels.sim.level import SimulatedLevel
from harness.levels.sim.real_tables import RealTables, real_tables
from harness.scenario.file import apply_settings, load, load_many, loads
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.system.errors import Exit, SutError, UsageError
from harness.tests.tidy import ROOT
from harness.tests.whole_run import told

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

CLIENTS = "harness.levels.live.tests.own_clients"
BUGS = "wrong_clients"
"""Not under its whole name, for a user's modules are none of our packages."""
Performed = Callable[..., RunOutcome]


@pytest.fixture(scope="module")
def opened() -> Iterator[RealTables]:
    with real_tables(Opening(world="local")) as found:
        yield found


@pytest.fixture(autouse=True)
def _beside_the_users_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture
def performed(opened: RealTables, tmp_path: Path) -> Performed:
    def run(scenario: Scenario, sut: str, *, seed: int = 1, expected: str | None = None) -> RunOutcome:
        order = Order(scenario=scenario, level="sim", seed=seed, sut=sut, expected=expected)
        level = SimulatedLevel()
        refuse(order, level)
        site = RunSite(run_id=f"run-{seed}", folder=tmp_path / f"run-{seed}")
        return perform(order, play=lambda order, site: level.play(order, site, server=opened), site=site)

    return run


def kinds(outcome: RunOutcome) -> set[tuple[str, str]]:
    return {(str(invariant), kind) for invariant, kind in outcome.judgement.violations}


CUT = loads("""
scenario: own-client-cut
about: The connections of the lookup's own client are cut and refused for a while.
levels: [sim, live]
operator: {mode: ordered, capacity: 30, timeout: 20s}
workload: {records: 150, subtasks: 2, rate: 300/s, service: 40ms, keys: 40, checkpoint_every: 30}
faults:
  - {id: cut, do: down, link: lookups, when: {call: 60, subtask: 0}, for: 250ms}
decisive: [V1, V8, V9, V10]
expects: {records: 300, checkpoints: 3}
""")


@pytest.mark.parametrize("lookup", ["AsyncMySql", "AioMySql", "SqlAlchemy"])
def test_a_right_lookup_passes_with_evidence_on_its_own_connections_d5(
    performed: Performed, lookup: str
) -> None:
    outcome = performed(CUT, f"{CLIENTS}:{lookup}")

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.accounting["records"] == outcome.accounting["offered"] == 300
    (time,) = outcome.faults[0].times
    assert time.evidence["connections_lost"] >= 1
    assert outcome.world.is_half_real


@pytest.mark.parametrize("lookup", ["SharedAsyncMySql", "SharedAioMySql", "SharedSqlAlchemy"])
def test_one_connection_for_all_calls_never_passes_at_sim_u4(performed: Performed, lookup: str) -> None:
    outcome = performed(apply_settings(CUT, ["operator.timeout=2s"]), f"{CLIENTS}:{lookup}")

    assert outcome.judgement.outcome is not Outcome.PASS, told(outcome)


@pytest.mark.parametrize(
    "name",
    ["rows-change", "rows-come-and-go", "slow-queries", "lock-wait", "kill-connection", "half-open-down"],
)
def test_faults_of_the_server_and_of_links_act_on_a_real_client_d5(performed: Performed, name: str) -> None:
    (scenario,) = load_many([name])

    outcome = performed(scenario, f"{CLIENTS}:AsyncMySql")

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


def test_one_seed_gives_one_history_in_another_process_d2(performed: Performed, tmp_path: Path) -> None:
    program = f"""
from harness.levels.sim.tests.test_own_clients_sim import *
with SimulatedLevel().open(Opening(has_server=True, world="local")) as play:
    order = Order(scenario=CUT, level="sim", seed=5, sut="{CLIENTS}:AioMySql")
    print(perform(order, play=play, site=RunSite(run_id="other", folder=Path("{tmp_path}/other"))).history)
"""
    command = [sys.executable, "-c", program]
    other = subprocess.run(
        command,
        env={"PYTHONHASHSEED": "77", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    here = performed(CUT, f"{CLIENTS}:AioMySql", seed=5)

    assert Path(other.stdout.strip()).read_bytes() == here.history.read_bytes()


def shop_at_sim(folder: Path) -> Scenario:
    """Own tables and records, as at level live."""
    shop(folder)
    file = folder / "shop.yaml"
    file.write_text(file.read_text().replace("levels: [live]", "levels: [sim, live]"))
    return load(file)


@pytest.mark.parametrize(
    ("lookup", "found"),
    [
        ("Charges", set()),
        ("ChargesAgain", {("V9", "row-doubled")}),
        ("ChargesNotAll", {("V9", "row-missing")}),
    ],
)
def test_a_lookup_that_writes_is_judged_by_its_rows_at_sim_u4(
    performed: Performed, tmp_path: Path, lookup: str, found: set[tuple[str, str]]
) -> None:
    outcome = performed(shop_at_sim(tmp_path), f"{CLIENTS}:{lookup}")

    assert kinds(outcome) == found, told(outcome)


LATE = loads("""
scenario: late-and-nobody-asks-again
about: The database is slow for a while, and the calls have no timeout.
levels: [sim]
operator: {mode: ordered, capacity: 20, timeout: 0s}
workload: {records: 24, subtasks: 1, rate: 1000/s, service: 10ms, keys: 40, checkpoint_every: 30}
faults:
  - {id: late, do: slow_query, delay: 150ms, when: {call: 3, subtask: 0}, for: 2s}
decisive: [V16]
expects: {records: 10}
""")


def test_a_pool_that_wakes_nobody_is_stuck_and_the_waiting_line_is_named_d4(performed: Performed) -> None:
    outcome = performed(LATE, f"{BUGS}:LimitsTheQueryOnly", expected="none")

    assert kinds(outcome) == {("V16", "stuck")}, told(outcome)
    assert outcome.error is not None
    assert "17 tasks wait at harness/levels/sim/tests/wrong_clients.py:" in outcome.error
    assert ", in aiomysql/pool.py:" in outcome.error


STORM = loads("""
scenario: short-cancel-storm
about: Late answers let many calls time out.
levels: [sim]
operator: {mode: ordered, capacity: 20, timeout: 150ms, on_timeout: [no answer]}
workload: {records: 60, subtasks: 1, rate: 300/s, service: 5ms, keys: 20, checkpoint_every: 20}
faults:
  - {id: late, do: latency, link: lookups, delay: 120ms, jitter: 100ms, when: {call: 10}, for: 500ms}
decisive: [V8]
expects: {records: 60}
""")


def test_a_shield_around_a_shared_connection_is_convicted_and_made_small_d4(tmp_path: Path) -> None:
    sut = f"{BUGS}:ShieldsTheQuery"
    find = Find(scenario=STORM, seed=0, invariant="V8", kind="wrong-value", sut=sut)

    with open_runs() as run:
        small = shrink(find, run=run, on_step=lambda step: None, goes_on=lambda: True)
    again = load_find(small.save(tmp_path))
    with open_runs() as run:
        first, second = run(again), run(again)

    assert first is not None
    assert second is not None
    assert ("V8", "wrong-value") in first.judgement.violations
    assert first.record.events == second.record.events
    assert small.scenario.workload.records is not None
    assert small.scenario.workload.records <= 8, "of 60"


def test_what_leaves_the_simulation_is_refused_with_its_line_d10(performed: Performed) -> None:
    with pytest.raises(SutError, match=r"connects to 127.0.0.1:6379, and level sim .*wrong_clients.py:\d+"):
        performed(CUT, f"{BUGS}:AsksAnotherServer")


def test_a_lookup_on_threads_is_refused_u4(performed: Performed) -> None:
    with pytest.raises(UsageError, match="blocks, so its calls run on threads, and level sim has one"):
        performed(CUT, f"{CLIENTS}:ThreadedPyMySql")


def test_what_is_not_virtual_is_told_with_the_verdict_d11(performed: Performed) -> None:
    outcome = performed(apply_settings(CUT, ["faults=[]"]), f"{BUGS}:AsksForUuids")

    assert any(
        "not virtual, so another run of this seed may differ: uuid (" in why for why in outcome.threats
    )


OLD_ASYNCMY = "0.2.9"
"""It leaves a connection in its pool whose query was cancelled."""


@pytest.fixture(scope="module")
def old_asyncmy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that version, which was asyncmy's newest for a year."""
    folder = tmp_path_factory.mktemp("asyncmy")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    made = subprocess.run(
        [*install, "--target", str(folder), f"asyncmy=={OLD_ASYNCMY}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"asyncmy {OLD_ASYNCMY} cannot be installed here: {made.stderr.strip()[-200:]}")
    return folder


def test_each_operation_of_an_old_asyncmy_is_answered_as_by_the_server_itself_d1(old_asyncmy: Path) -> None:
    program = (
        f"import sys; sys.path[:0] = {[str(old_asyncmy), str(ROOT)]}\n"
        "from harness.levels.sim.tests.asyncmy_operations import main\nmain()"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    told = json.loads(ran.stdout)
    assert told["version"] == OLD_ASYNCMY
    assert [operation for operation, _ in told["virtual"]] == ["ask", "error", "stream", "cancel", "pool"]
    assert dict(told["virtual"])["cancel"] == [["late", 0]], "the answer of the query before"
    assert told["virtual"] == told["direct"]


def test_an_old_asyncmy_is_convicted_of_a_cancelled_querys_answer_d4(
    old_asyncmy: Path, tmp_path: Path
) -> None:
    words = [
        "run", "cancel-storm", "--level", "sim", "--world", "local", "--seed", "0", "--quiet",
        "--sut", f"{CLIENTS}:AsyncMySql", "--report", str(tmp_path / "report"),
    ]  # fmt: skip
    program = (
        f"import sys; sys.path[:0] = {[str(old_asyncmy), str(ROOT)]}\n"
        f"from harness.cli.main import main\nsys.exit(main({words}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ran.returncode == Exit.VIOLATION, ran.stdout + ran.stderr
    assert "violates V8" in ran.stdout
