"""`docs/how-to/own-driver.md` and `own-tables.md`: their shop, with its scenario and its tables, does what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.scenario.file import load
from harness.tests.whole_run import told

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(120)]

HOW_TO = Path(__file__).parents[4] / "docs" / "how-to"
PAGE = "".join(
    (HOW_TO / f"{name}.md").read_text(encoding="utf-8") for name in ("your-own", "own-driver", "own-tables")
)


def block(language: str, what: str) -> str:
    """The block of the page in which `what` stands."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if what in text]
    return str(found)


def test_the_shop_of_the_page_charges_each_order_once_u4(
    performed: Performed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_of_the_page.py").write_text(block("python", "class Shop:"))
    (tmp_path / "shop.yaml").write_text(block("yaml", "scenario: shop"))
    (tmp_path / "schema.sql").write_text(block("sql", "CREATE TABLE charge"))
    (tmp_path / "product.csv").write_text(
        "sku,name,price\n" + "".join(f"{n},nut {n},{n}\n" for n in range(20))
    )
    orders = (f'{{"id": {n + 17}, "key": {n % 20}, "amount": 2}}\n' for n in range(200))
    (tmp_path / "orders.jsonl").write_text("".join(orders))

    outcome, _ = performed(
        load(tmp_path / "shop.yaml"), sut="shop_of_the_page:Shop", import_path=(str(tmp_path),)
    )

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (effects,) = [verdict for verdict in outcome.judgement.invariants if str(verdict.invariant) == "V9"]
    assert effects.observed == 200
