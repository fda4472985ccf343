"""Lookups with a client of their own, of four drivers, under a fault of their connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.event import Failed
from harness.history.notes import LostConnection
from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.scenario.file import apply_settings, load, loads
from harness.scenario.model import Scenario
from harness.system.errors import SutError, UsageError
from harness.tests.real_world import real_world
from harness.tests.whole_run import told, whole_run

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(120)]

HERE = "harness.levels.live.tests.own_clients"


def cut(*, timeout: str = "20s") -> Scenario:
    return loads(f"""
scenario: own-client-cut
about: The connections of the lookup's own client are cut and refused for a while.
operator: {{mode: ordered, capacity: 30, timeout: {timeout}}}
workload: {{records: 150, subtasks: 2, rate: 300/s, service: 40ms, keys: 40, checkpoint_every: 30}}
faults:
  - {{id: cut, do: down, link: lookups, when: {{call: 60, subtask: 0}}, for: 250ms}}
decisive: [V1, V8, V9, V10]
expects: {{records: 300, checkpoints: 3}}
""")


@pytest.mark.parametrize("lookup", ["AsyncMySql", "AioMySql", "SqlAlchemy", "ThreadedPyMySql"])
def test_a_right_lookup_passes_and_the_proxy_shows_the_fault_u4(performed: Performed, lookup: str) -> None:
    outcome, lines = performed(cut(), sut=f"{HERE}:{lookup}")

    assert outcome.judgement.outcome is Outcome.PASS, outcome.error
    assert outcome.accounting["records"] == outcome.accounting["offered"] == 300
    (time,) = outcome.faults[0].times
    assert time.evidence["connections_lost"] >= 1
    assert list(time.evidence["codes"]) == ["proxy: shut"]
    assert time.witnesses == ("the proxy's log",)
    assert not [line for line in lines if isinstance(line, LostConnection)]


@pytest.mark.parametrize(
    "lookup", ["SharedAsyncMySql", "SharedAioMySql", "SharedSqlAlchemy", "SharedPyMySql"]
)
def test_one_connection_for_all_calls_never_passes_u4(performed: Performed, lookup: str) -> None:
    outcome, lines = performed(cut(timeout="2s"), sut=f"{HERE}:{lookup}")

    assert outcome.judgement.outcome is not Outcome.PASS, told(outcome)
    assert [line for line in lines if isinstance(line, Failed)]


def test_toxiproxy_keeps_no_log_so_the_run_is_vacuous_and_says_so_u4(tmp_path: Path) -> None:
    with real_world("local", proxy="toxiproxy") as world:
        outcome = whole_run(cut(), world=world, within=tmp_path, draws=1, sut=f"{HERE}:AsyncMySql")

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert any("--proxy own" in why for why in outcome.threats)


SCHEMA = """
-- charges; one row for each order
CREATE TABLE product (sku BIGINT PRIMARY KEY, name VARCHAR(50) NOT NULL);
CREATE TABLE audit (n BIGINT AUTO_INCREMENT PRIMARY KEY, order_id BIGINT NOT NULL, UNIQUE KEY (n));
"""


def shop(folder: Path) -> Scenario:
    (folder / "schema.sql").write_text(SCHEMA)
    (folder / "product.csv").write_text("sku,name\n" + "".join(f'{n},"nut, {n}"\n' for n in range(20)))
    orders = (f'{{"id": {5 * n + 1}, "key": {n % 20}, "amount": {n}}}\n' for n in range(200))
    (folder / "orders.jsonl").write_text("".join(orders))
    file = folder / "shop.yaml"
    file.write_text("""
scenario: own-tables
about: The lookup reads and writes tables of its own while its connections are cut.
levels: [live]
operator: {mode: ordered, capacity: 30, timeout: 20s}
workload: {subtasks: 2, rate: 200/s, service: 40ms, checkpoint_every: 30}
schema: schema.sql
data: product.csv
records: orders.jsonl
effects: {table: audit, id: order_id}
faults:
  - {id: cut, do: down, link: lookups, when: {call: 40, subtask: 0}, for: 250ms}
decisive: [V1, V8, V9, V10]
expects: {records: 200, checkpoints: 2}
""")
    return load(file)


def test_a_lookup_that_writes_each_effect_under_a_key_passes_u4(performed: Performed, tmp_path: Path) -> None:
    outcome, _ = performed(shop(tmp_path), sut=f"{HERE}:Charges")

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (effects,) = [verdict for verdict in outcome.judgement.invariants if str(verdict.invariant) == "V9"]
    assert effects.observed == 200


def test_what_the_calm_twin_writes_is_no_effect_of_the_run_u4(performed: Performed, tmp_path: Path) -> None:
    calm = apply_settings(shop(tmp_path), ["faults=[]"])

    outcome, _ = performed(calm, sut=f"{HERE}:ChargesAgain")

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


def reads_only(folder: Path) -> Scenario:
    """The shop with a lookup that writes nothing."""
    text = shop(folder).model_copy(update={"effects": None})
    return apply_settings(text, ["faults=[]"])


def test_rows_of_own_tables_are_what_expected_gets_u1(performed: Performed, tmp_path: Path) -> None:
    right, _ = performed(reads_only(tmp_path), sut=f"{HERE}:Names", expected=f"{HERE}:names")

    assert right.judgement.outcome is Outcome.PASS, told(right)


def test_a_wrong_row_of_an_own_table_is_convicted_with_expected_u1(
    performed: Performed, tmp_path: Path
) -> None:
    wrong, _ = performed(reads_only(tmp_path), sut=f"{HERE}:NamesOfAnother", expected=f"{HERE}:names")

    assert "V8" in {verdict.invariant for verdict in wrong.judgement.convicted()}, told(wrong)


def test_a_wrong_row_of_an_own_table_is_named_by_the_twin_u1(performed: Performed, tmp_path: Path) -> None:
    wrong, _ = performed(reads_only(tmp_path), sut=f"{HERE}:NamesOfAnother")

    [pitfall] = wrong.pitfalls
    assert pitfall.name == "not-its-row"
    assert 'for key 7 it returns {"name": "nut, 8"}, which is no row of the key' in pitfall.says


def test_one_row_of_an_own_table_for_all_keys_is_named_by_the_twin_r4(
    performed: Performed, tmp_path: Path
) -> None:
    wrong, _ = performed(reads_only(tmp_path), sut=f"{HERE}:OneNameForAll")

    [pitfall] = wrong.pitfalls
    assert pitfall.name == "not-its-row"
    assert 'returns [{"name": "nut, 7"}] for each of 20 keys, whose rows differ' in pitfall.says


def test_a_thread_that_a_lookup_leaves_behind_holds_up_no_attempt_u4(performed: Performed) -> None:
    calm = apply_settings(cut(), ["faults=[]", "budget=30s"])

    outcome, _ = performed(calm, sut=f"{HERE}:LeavesAThread", expected="none")

    assert outcome.error is None


def test_a_lookup_that_cannot_be_opened_is_told_before_any_attempt_u4(performed: Performed) -> None:
    with pytest.raises(
        SutError, match=r"fails without any fault: .* open\(\) raised ValueError: no \(.*own_clients.py:"
    ):
        performed(cut(), sut=f"{HERE}:FailsToOpen")


@pytest.mark.parametrize(
    ("lookup", "kind"), [("ChargesAgain", "row-doubled"), ("ChargesNotAll", "row-missing")]
)
def test_a_lookup_that_writes_twice_or_not_at_all_is_convicted_by_its_rows_u4(
    performed: Performed, tmp_path: Path, lookup: str, kind: str
) -> None:
    outcome, _ = performed(shop(tmp_path), sut=f"{HERE}:{lookup}")

    (effects,) = [verdict for verdict in outcome.judgement.invariants if str(verdict.invariant) == "V9"]
    assert {anomaly.kind for anomaly in effects.anomalies} == {kind}


def test_what_the_server_refuses_of_a_file_is_told_with_its_line_u4(
    performed: Performed, tmp_path: Path
) -> None:
    scenario = shop(tmp_path)
    (tmp_path / "product.csv").write_text("sku,name\n1,nut\n2,bolt\n1,again\n")

    with pytest.raises(UsageError) as refused:
        performed(scenario, sut=f"{HERE}:Charges")

    assert refused.value.what.startswith(
        f"{tmp_path / 'product.csv'}:4: the server refuses this: Duplicate entry"
    )


@pytest.mark.parametrize(
    ("lookup", "says"),
    [("FailsToOpen", "open() raised ValueError: no"), ("FailsToClose", "close() raised ValueError: no")],
)
def test_an_error_of_open_or_close_fails_the_attempt_with_its_line_u4(
    performed: Performed, lookup: str, says: str
) -> None:
    calm = apply_settings(cut(), ["faults=[]"])
    outcome, lines = performed(calm, sut=f"{HERE}:{lookup}", expected="none")

    assert outcome.judgement.outcome is not Outcome.PASS
    errors = [line.error for line in lines if isinstance(line, Failed)]
    assert len(errors) >= 4
    assert all(says in error and "own_clients.py:" in error for error in errors)
