"""`floodmark clean` removes what dead runs left, ours only, and lists it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.clean import clean
from harness.conform.oracle.program import oracle_folder
from harness.world import containers
from harness.world.kafka.broker import kafka_folder
from harness.world.ledger import Ledger
from harness.world.settings import Places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """The places that the command will clean; no engine."""
    monkeypatch.setattr(containers, "USUAL_SOCKET", tmp_path / "no-engine")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("FLOODMARK_CACHE", str(tmp_path))
    return Places(root=tmp_path)


def dead_run(places: Places) -> Ledger:
    """A run whose owner is gone."""
    ledger = Ledger(places).begin()
    first, *others = ledger.path.read_text().splitlines()
    entry = json.loads(first)
    entry["owner"]["process"]["started"] -= 1
    ledger.path.write_text("\n".join([json.dumps(entry), *others, ""]))
    return ledger


def test_a_dead_runs_folder_is_removed_and_told(places: Places) -> None:
    dead = dead_run(places)

    result = CliRunner().invoke(clean, standalone_mode=False)

    assert result.stdout == f"removed folder {dead.folder} of run {dead.run_id}\n"
    assert not dead.folder.exists()


def test_a_living_run_stays_and_the_command_says_that_there_was_nothing(places: Places) -> None:
    living = Ledger(places).begin()

    result = CliRunner().invoke(clean, standalone_mode=False)

    assert result.stdout == "no killed run left anything behind\n"
    assert living.folder.exists()
    living.close(lambda _run: [])


def test_a_machine_that_never_ran_anything_is_clean(places: Places) -> None:
    result = CliRunner().invoke(clean, standalone_mode=False)

    assert result.exception is None
    assert "no killed run left anything" in result.stdout
    assert places.root.exists()


def test_nothing_that_setup_got_is_left_once_the_cache_was_removed(places: Places) -> None:
    got = (
        places.servers,
        places.bin,
        places.datadirs,
        places.clock,
        oracle_folder(places),
        kafka_folder(places),
    )
    for folder in got:
        folder.mkdir(parents=True)

    CliRunner().invoke(clean, ["--cache"], standalone_mode=False)

    assert {path.name for path in places.root.iterdir()} <= {places.runs.name, places.ports.name}


def test_the_cache_goes_only_when_asked_and_living_runs_stay_even_then(places: Places) -> None:
    living = Ledger(places).begin()
    (places.servers / "mariadb-1").mkdir()

    CliRunner().invoke(clean, standalone_mode=False)
    assert (places.servers / "mariadb-1").exists()

    CliRunner().invoke(clean, ["--cache"], standalone_mode=False)
    assert not places.servers.exists()
    assert living.folder.exists()
    living.close(lambda _run: [])
