"""What a block keeps in a temporary folder is gone after it, whatever ends the block."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.system.whole_file import temporary_folder


def test_the_folder_is_there_for_the_block_and_gone_after_it(tmp_path: Path) -> None:
    with temporary_folder("kept-", parent=tmp_path) as folder:
        (folder / "file").touch()

        assert folder.parent == tmp_path
        assert folder.name.startswith("kept-")
        assert folder.stat().st_mode & 0o077 == 0

    assert not folder.exists()


def test_a_ctrl_c_at_the_moment_when_it_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def make_and_interrupt(folder: Path, mode: int) -> None:
        make(folder, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", make_and_interrupt)

    with pytest.raises(KeyboardInterrupt), temporary_folder("kept-", parent=tmp_path):
        pytest.fail("the block began")

    assert not list(tmp_path.iterdir())
