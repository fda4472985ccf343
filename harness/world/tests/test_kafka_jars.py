"""Kafka's jars: where they are missing, or not those that were pinned, one sentence says what to do."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.system.errors import WorldError
from harness.world.kafka import broker as jars
from harness.world.settings import Places, WorldSettings


@pytest.fixture
def settings(tmp_path: Path) -> WorldSettings:
    return WorldSettings(places=Places(root=tmp_path))


def test_without_the_jars_the_error_names_the_command_that_installs_them(settings: WorldSettings) -> None:
    with pytest.raises(WorldError, match="needs Kafka's jars") as lacking:
        jars.find_kafka(settings)

    assert "floodmark setup --kafka" in str(lacking.value)


def test_the_broker_and_spark_get_the_jars_that_are_theirs(settings: WorldSettings) -> None:
    jars.kafka_folder(settings.places).mkdir(parents=True)

    found = jars.find_kafka(settings)

    spark = {jar.name.removeprefix("org.apache.") for jar in found.spark}
    assert any(jar.name == "org.apache.kafka-kafka_2.13-3.9.1.jar" for jar in found.broker)
    assert spark == {
        "commons-commons-pool2-2.12.1.jar",
        "kafka-kafka-clients-3.9.1.jar",
        "spark-spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-spark-token-provider-kafka-0-10_2.13-4.2.0.jar",
    }


def test_a_jar_of_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = jars.PinnedJar(use="both", group="g", artifact="a", version="1", sha256=_digest(b"ours"))
    monkeypatch.setattr(jars, "_pinned", lambda: (listed,))
    (tmp_path / listed.name).write_bytes(b"ours")
    jars._check(tmp_path)
    (tmp_path / listed.name).write_bytes(b"theirs")

    with pytest.raises(WorldError, match="its SHA-256 differs"):
        jars._check(tmp_path)


def test_a_jar_that_was_not_downloaded_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="was not downloaded"):
        jars._check(tmp_path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
