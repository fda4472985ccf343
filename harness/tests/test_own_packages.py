"""Our top-level packages are ours, or one sentence says whose they are."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.system.errors import UsageError
from harness.system.own_packages import hidden_packages, import_ours


def test_a_package_of_a_user_that_was_imported_before_ours_is_told_u5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = ModuleType("reports")
    theirs.__file__ = "/project/reports/__init__.py"
    monkeypatch.setitem(sys.modules, "reports", theirs)

    with pytest.raises(
        UsageError, match=r"`reports` is imported from /project/reports/__init__.py"
    ) as refusal:
        import_ours()

    assert "rename yours, or import harness.testing before it" in str(refusal.value)


def test_ours_are_found_although_a_folder_of_a_user_comes_first_u5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "reports", raising=False)

    import_ours()

    assert Path(sys.modules["reports"].__file__ or "").parent != tmp_path / "reports"
    assert tmp_path / "reports" in hidden_packages()
    assert sys.path[0] == str(tmp_path)


def test_where_no_package_has_our_names_nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = str(Path(sys.modules["harness"].__file__ or "").parents[1])
    monkeypatch.setattr(sys, "path", [ours])

    assert hidden_packages() == []
