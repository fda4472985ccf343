"""What the environment may say about worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.system.errors import UsageError, WorldError
from harness.world.settings import Places, WorldSettings
from tools.cases import each


def test_nothing_said_means_the_cache_in_the_home_folder_and_no_choice() -> None:
    settings = WorldSettings.from_environment({})

    assert settings.places.root == Path.home() / ".cache" / "floodmark"
    assert settings.mysql_image is None
    assert settings.ports is None


def test_what_is_said_is_taken() -> None:
    settings = WorldSettings.from_environment(
        {
            "FLOODMARK_CACHE": "/somewhere",
            "FLOODMARK_MYSQL_IMAGE": "mysql:9",
            "FLOODMARK_TOXIPROXY_IMAGE": "toxi:1",
            "FLOODMARK_MYSQLD": "/opt/mysqld",
            "FLOODMARK_PORTS": "21000-21001",
        }
    )

    assert settings.places.root == Path("/somewhere")
    assert (settings.mysql_image, settings.toxiproxy_image) == ("mysql:9", "toxi:1")
    assert settings.server == Path("/opt/mysqld")
    assert list(settings.ports or []) == [21000, 21001]


@each("text", ["21000", "a-b", "5-4", "0-10", "1-65536", "-"])
def test_a_range_of_ports_that_makes_no_sense_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="21000-21999"):
        WorldSettings.from_environment({"FLOODMARK_PORTS": text})


def test_places_that_cannot_be_made_name_the_folder_and_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(WorldError, match="set FLOODMARK_CACHE"):
        Places(root=tmp_path / "file" / "cache").make()
