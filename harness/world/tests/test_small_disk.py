"""A small disk and its ballast: full to the last byte, and empty again."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.world.ledger import Ledger
from harness.world.mysql_server import Ballast, mount_small_disk, no_small_disk

SIZE_BYTES = 1 << 20


@pytest.fixture
def disk(ledger: Ledger) -> Path:
    """A disk of one megabyte."""
    if no_small_disk():
        pytest.skip(no_small_disk())
    folder = ledger.folder / "disk"
    mount_small_disk(folder, size_bytes=SIZE_BYTES, ledger=ledger)
    return folder


def test_it_is_a_disk_of_its_own_of_that_size_and_private(disk: Path) -> None:
    assert disk.is_mount()
    assert disk.stat().st_mode & 0o077 == 0
    with pytest.raises(OSError, match="No space left on device"):
        (disk / "large").write_bytes(bytes(SIZE_BYTES + 1))


def test_a_ballast_takes_all_that_is_free_beside_what_is_there(disk: Path) -> None:
    (disk / "data").write_bytes(bytes(100_000))

    taken = Ballast(path=disk / "ballast").fill()

    assert 800_000 < taken < SIZE_BYTES
    with pytest.raises(OSError, match="No space left on device"):
        (disk / "more").write_bytes(b"x")


def test_a_ballast_may_be_filled_and_removed_again_and_again(disk: Path) -> None:
    ballast = Ballast(path=disk / "ballast")

    first = ballast.fill()
    assert ballast.fill() == 0
    ballast.remove()
    ballast.remove()

    assert ballast.fill() == first
