"""`docs/how-to/install.md`: its messages, folders and extras are those of the code."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from harness.conform.oracle.program import oracle_folder
from harness.tests.tidy import ROOT, our_files
from harness.world.kafka.broker import kafka_folder
from harness.world.settings import Places

pytestmark = pytest.mark.arch

PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")


def listed(mark: str) -> list[str]:
    """The code in the first column of the table behind `<!-- mark -->`."""
    found = re.search(rf"^<!-- {mark} -->\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert found is not None
    return [name for row in found[1].splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def is_of_the_harness(path: PurePosixPath) -> bool:
    return path.suffix == ".py" and path.parts[0] == "harness" and "tests" not in path.parts


def texts(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_messages_of_the_page_are_those_of_the_code() -> None:
    """`...` on the page stands for a value that is filled in."""
    modules = [text for path, text in our_files() if is_of_the_harness(path)]
    of_code = "\n".join(" ".join(text.split()) for module in modules for text in texts(module))

    assert [message for message in listed("messages") if message not in of_code] == []


def test_the_folders_of_the_cache_are_those_of_the_code(tmp_path: Path) -> None:
    places = Places(root=tmp_path)
    of_code = {name for name, kind in vars(Places).items() if isinstance(kind, property)}
    folders = {getattr(places, name).name for name in of_code}
    folders |= {oracle_folder(places).name, kafka_folder(places).parent.name}

    assert set(listed("folders of the cache")) == {f"{name}/" for name in folders}


def test_the_extras_that_the_page_names_are_those_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {name for extras in re.findall(r"floodmark\[([\w,]+)\]", PAGE) for name in extras.split(",")}

    assert named == set(project["optional-dependencies"]) - {"dev", "docs"}
