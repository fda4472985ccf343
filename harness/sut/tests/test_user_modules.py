"""Objects have the name under which another process finds them; a user's folder comes last, and hides nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.sut.registry import load_lookup, refuse_hidden
from harness.sut.user_code import add_current_folder, import_path, name_of, take_path, why_hidden
from harness.system.errors import SutError

SOURCE = """\
from functools import partial

async def lookup(record, pool): return []

class Service:
    async def find(self, record, pool): return []
    @classmethod
    async def of_class(cls, record, pool): return []
    async def __call__(self, record, pool): return []

service = Service()
bound = partial(lookup, pool=None)

def made(inner):
    async def wrapper(record, pool): return await inner(record, pool)
    return wrapper

wrapped = made(lookup)
renamed = lookup
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's in the current folder, imported as `service_of_theirs`."""
    (tmp_path / "service_of_theirs.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    add_current_folder()
    yield __import__("service_of_theirs")
    sys.modules.pop("service_of_theirs", None)


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        ("lookup", "lookup"),
        ("renamed", "lookup"),
        ("service", "service"),
        ("service.find", "service.find"),
        ("Service.of_class", "Service.of_class"),
        ("bound", "bound"),
        ("wrapped", "wrapped"),
    ],
)
def test_an_object_has_the_name_under_which_it_is_imported_u5(
    theirs: Any, expression: str, attribute: str
) -> None:
    found = theirs
    for part in expression.split("."):
        found = getattr(found, part)

    name = name_of(found)

    assert name == f"service_of_theirs:{attribute}"
    assert load_lookup(name) is not None


def test_what_is_in_no_variable_of_a_module_is_refused_with_the_line_to_write_u5(theirs: Any) -> None:
    async def inside(record: object, pool: object) -> list[object]:
        return []

    found: list[Any] = [inside, lambda record, pool: [], partial(theirs.lookup), theirs.Service().find]
    for nameless in found:
        with pytest.raises(SutError, match="no name of its own in a module") as refusal:
            name_of(nameless)
        assert "define it at the top of a module" in str(refusal.value)


def test_a_function_that_another_one_replaced_is_not_named_as_that_one_u5(theirs: Any) -> None:
    first = theirs.lookup
    theirs.lookup = theirs.wrapped

    assert name_of(first) == "service_of_theirs:renamed"


def test_a_text_is_a_name_already() -> None:
    assert name_of("enrich:lookup") == "enrich:lookup"


def test_the_current_folder_comes_last_on_the_import_path_u5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    add_current_folder()
    add_current_folder()

    assert import_path()[-1] == str(tmp_path)
    assert import_path().count(str(tmp_path)) == 1


def test_a_worker_imports_in_the_order_of_the_process_that_ordered_the_run_u5(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["/own", "/lib", "/site"])

    take_path(["/lib", "/site", "/project"])

    assert sys.path == ["/lib", "/site", "/project", "/own"]


def test_a_module_that_another_one_of_its_name_hides_is_refused_u5(theirs: Any) -> None:
    Path("json.py").write_text("async def lookup(record, pool): return []\n")

    with pytest.raises(SutError, match=r"Python finds `json` in .*, which hides json.py of this folder"):
        refuse_hidden("json:lookup")
    assert json.__name__ == "json"


def test_a_package_with_the_name_of_one_of_ours_is_told_so_u5(theirs: Any) -> None:
    Path("reports").mkdir()

    with pytest.raises(
        SutError, match=r"`reports` is a package of Floodmark, which hides reports of this folder"
    ):
        load_lookup("reports.enrich:lookup")


def test_a_module_of_the_folder_itself_is_hidden_by_nothing_u5(theirs: Any) -> None:
    assert why_hidden("service_of_theirs") is None


def test_a_plain_folder_gives_way_to_a_package_as_for_python_itself(
    theirs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("somewhere").mkdir()
    module = ModuleType("somewhere")
    module.__file__ = "/site/somewhere/__init__.py"
    monkeypatch.setitem(sys.modules, "somewhere", module)

    assert why_hidden("somewhere") is None
