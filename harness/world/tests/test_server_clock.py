"""What shifts a server's clock: a file that is never torn, and a library that is taken only if it loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.world import server_program
from harness.world.server_program import LIBRARY, ShiftedClock, find_clock_library
from harness.world.settings import Places, WorldSettings


@pytest.mark.parametrize(
    ("shift_ms", "says"),
    [(0, "+0.000"), (3_600_000, "+3600.000"), (-86_400_500, "-86400.500"), (1, "+0.001")],
)
def test_the_file_says_the_shift_in_seconds(tmp_path: Path, shift_ms: int, says: str) -> None:
    clock = ShiftedClock(library=tmp_path / LIBRARY, file=tmp_path / "server.clock")

    clock.shift(shift_ms)

    assert clock.file.read_text() == f"{says}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["server.clock"]


def test_the_file_is_replaced_never_written_over(tmp_path: Path) -> None:
    clock = ShiftedClock(library=tmp_path / LIBRARY, file=tmp_path / "server.clock")
    clock.shift(0)

    with clock.file.open() as reader:
        clock.shift(5000)
        assert reader.read() == "+0.000\n"


def test_only_the_calendar_is_shifted(tmp_path: Path) -> None:
    environment = ShiftedClock(library=tmp_path / LIBRARY, file=tmp_path / "server.clock").environment()

    assert environment["FAKETIME_DONT_FAKE_MONOTONIC"] == "1"
    assert environment["LD_PRELOAD"] == str(tmp_path / LIBRARY)


def test_a_library_that_does_not_load_is_not_taken(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_program, "LIBRARY_FOLDERS", ())
    settings = replace(WorldSettings.from_environment({}), places=places)
    folder = places.clock / "usr" / "lib" / "some-machine" / "faketime"
    folder.mkdir(parents=True)
    assert find_clock_library(settings) is None

    (folder / LIBRARY).write_text("no library")

    assert find_clock_library(settings) is None
