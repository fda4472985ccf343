"""The recipes of the proxy's page are what the proxy takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.proxy.toxic_kinds import TOXIC_KINDS
from tools.cases import each

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "proxy.md"
RECIPES = re.findall(r"^\| .* \| `(\{.*\})` \|$", PAGE.read_text(), re.MULTILINE)


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 16


@each("recipe", RECIPES)
def test_each_recipe_is_taken(recipe: str) -> None:
    body = json.loads(recipe)
    kind = TOXIC_KINDS[body["type"]]
    given = body.get("attributes", {})

    assert body.keys() <= {"type", "stream", "attributes"}
    assert given.keys() <= kind.attributes.keys()
    assert kind.refuse({**kind.attributes, **given}) == ""
