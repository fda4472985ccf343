"""The registry: a system under test loads, or its author learns why before anything starts."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.sut.registry import REFERENCE, load_lookup
from harness.system.errors import Exit, FloodmarkError, SutError, UsageError
from reference_impl.mailbox.loops import real_loop

_numbers = count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An importable module of a user, with a name that no other test has."""
    name = f"their_lookups_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(
        "class Store:\n"
        "    @staticmethod\n"
        "    async def get(record, pool): return [record, pool]\n"
        "async def one(record): return record\n"
        "async def two(record, pool): return [record, pool]\n"
        "async def three(record, pool, more): return 3\n"
        "async def none(): return 0\n"
        "def plain(record, pool): return record\n"
        "number = 4\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return name


def answer(name: str) -> Any:
    with real_loop() as loop:
        return loop.run_until_complete(_asked(load_lookup(name)))


async def _asked(function: Any) -> Any:
    return await function("record", "pool")


def test_a_lookup_takes_the_record_or_the_record_and_the_pool(module: str) -> None:
    assert answer(f"{module}:one") == "record"
    assert answer(f"{module}:two") == ["record", "pool"]


def test_a_lookup_may_be_an_attribute_of_something(module: str) -> None:
    assert answer(f"{module}:Store.get") == ["record", "pool"]


def test_what_a_module_prints_as_it_is_imported_goes_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"their_prints_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text("print('a word')\nasync def one(record): return record\n")
    monkeypatch.syspath_prepend(tmp_path)

    load_lookup(f"{name}:one")

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "a word\n")


def test_the_reference_needs_no_module() -> None:
    assert load_lookup(REFERENCE).__module__ == "harness.sut.lookup"


@pytest.mark.parametrize(
    ("attribute", "says"),
    [
        ("plain", "async def"),
        ("number", "async def"),
        ("Store", "async def"),
        ("three", "3 arguments"),
        ("none", "0 arguments"),
        ("gone", "gone"),
        ("", ""),
    ],
)
def test_what_cannot_be_called_as_a_lookup_is_its_authors_error(
    module: str, attribute: str, says: str
) -> None:
    with pytest.raises(SutError) as refused:
        load_lookup(f"{module}:{attribute}")

    assert says in str(refused.value)
    assert refused.value.fix
    assert refused.value.exit_code is Exit.USAGE


@pytest.mark.parametrize(
    "name", ["no_such_module_of_theirs:lookup", ":lookup", "no such:lookup", "..x:lookup"]
)
def test_a_module_that_cannot_be_imported_is_named(name: str) -> None:
    with pytest.raises(SutError, match="--sut"):
        load_lookup(name)


@pytest.mark.parametrize(
    "source", ["def broken(:\n", "raise RuntimeError('their own trouble')\n", "import sys; sys.exit(7)\n"]
)
def test_a_module_that_breaks_while_it_is_imported_is_its_authors_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    name = f"their_broken_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SutError, match=name):
        load_lookup(f"{name}:lookup")


@pytest.mark.parametrize("source", ["def broken(:\n", "import no_such_module_of_theirs\n"])
def test_a_module_that_breaks_is_to_be_corrected_not_named_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    name = f"their_broken_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SutError) as refused:
        load_lookup(f"{name}:lookup")

    assert refused.value.fix == f"correct {name}: it cannot be imported"


@pytest.mark.parametrize(("attribute", "meant"), [("onne", "one"), ("Store.gett", "Store.get")])
def test_a_mistyped_function_is_answered_with_the_nearest_of_its_module(
    module: str, attribute: str, meant: str
) -> None:
    with pytest.raises(SutError, match=f"did you mean {module}:{meant}?"):
        load_lookup(f"{module}:{attribute}")


@pytest.mark.parametrize("path", ["enrich.py", "/home/me/enrich.py", "lookups/enrich"])
def test_a_path_in_place_of_a_module_is_answered_with_the_word_to_write(path: str) -> None:
    with pytest.raises(SutError, match="write enrich:lookup, in the folder of that file"):
        load_lookup(f"{path}:lookup")


def test_a_file_without_a_function_is_answered_with_the_word_to_write() -> None:
    with pytest.raises(UsageError, match="--sut enrich:FUNCTION"):
        load_lookup("enrich.py")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'reference'"):
        load_lookup("refrence")


def test_an_unknown_name_that_is_near_to_nothing_says_how_to_bring_ones_own() -> None:
    with pytest.raises(FloodmarkError, match="module:function"):
        load_lookup("xyzzy")
