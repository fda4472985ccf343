"""`not-its-row`: answers that are not the rows of their key, where nearly all others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.judge.pitfalls.not_its_row import find_not_its_row
from harness.scenario.workloads.shape import Key
from harness.system.json_types import Json

ROWS: dict[Key, list[Json]] = {
    key: [
        {
            "n": key + 1,
            "k": key,
            "part": None,
            "name": f"name {key}",
            "city": "Oslo",
            "tier": key % 5,
            "ver": 0,
        }
    ]
    for key in range(20)
}
WHOLE = [row for rows in ROWS.values() for row in rows]


def as_dict(row: dict[str, Any]) -> Any:
    return {"name": row["name"], "tier": row["tier"], "asked at": 7}


def as_list(row: dict[str, Any]) -> Any:
    return [row["name"], row["city"]]


def as_value(row: dict[str, Any]) -> Any:
    return row["name"]


def answers(form: Callable[[dict[str, Any]], Any], **other: list[Any]) -> list[tuple[Any, list[Any]]]:
    """The rows of all keys but for those of `other`, which are named `key7`."""
    return [(key, other.get(f"key{key}", [form(row) for row in rows])) for key, rows in ROWS.items()]


@pytest.mark.parametrize("form", [as_dict, as_list, as_value])
def test_the_row_of_another_key_is_named_in_whatever_form_u1(form: Callable[[dict[str, Any]], Any]) -> None:
    [pitfall] = find_not_its_row(answers(form, key7=[form(ROWS[8][0])]), rows=ROWS, whole=WHOLE)

    assert pitfall.name == "not-its-row"
    assert "19 of 20 keys; but for key 7 it returns the row of key 8." in pitfall.says


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([as_dict(ROWS[7][0])] * 2, "for key 7 it returns two results for one row"),
        ([], "for key 7 it returns nothing, though the key has one row"),
        ([{"name": "nobody"}], 'for key 7 it returns {"name": "nobody"}, which is no row of the table'),
    ],
)
def test_each_answer_that_is_no_row_is_named_u1(results: list[Any], said: str) -> None:
    [pitfall] = find_not_its_row(answers(as_dict, key7=results), rows=ROWS, whole=WHOLE)

    assert said in pitfall.says


def test_rows_in_another_order_are_the_rows_u1() -> None:
    rows: dict[Key, list[Json]] = {0: [ROWS[1][0], ROWS[2][0]], **{key: ROWS[key] for key in range(3, 20)}}
    told = [(key, [as_dict(row) for row in reversed(found)]) for key, found in rows.items()]

    assert find_not_its_row(told, rows=rows, whole=WHOLE) == ()


def test_a_function_that_computes_its_results_is_not_accused_u1() -> None:
    """Three of twenty answers are no rows: the function means something else than rows."""
    told = answers(as_dict, key3=[], key6=[], key9=[])

    assert find_not_its_row(told, rows=ROWS, whole=WHOLE) == ()


def test_one_answer_for_all_keys_is_named_u1() -> None:
    told = [(key, [{"ok": True}]) for key in ROWS]

    [pitfall] = find_not_its_row(told, rows=ROWS, whole=WHOLE)

    assert 'the function returns [{"ok": true}] for each of 20 keys, whose rows differ' in pitfall.says


def test_one_answer_for_all_keys_is_named_in_own_tables_too_r4() -> None:
    rows: dict[Key, list[Json]] = {key: [{"sku": key, "name": f"nut {key}"}] for key in range(20)}

    [pitfall] = find_not_its_row([(key, [{"name": "nut"}]) for key in rows], rows=rows)

    assert 'the function returns [{"name": "nut"}] for each of 20 keys, whose rows differ' in pitfall.says


def test_one_answer_for_all_keys_may_be_that_of_rows_that_differ_in_their_key_alone_r4() -> None:
    rows: dict[Key, list[Json]] = {key: [{"sku": key, "name": "nut"}] for key in range(20)}

    assert find_not_its_row([(key, [{"found": 1}]) for key in rows], rows=rows) == ()


def test_no_answers_show_nothing_u1() -> None:
    assert find_not_its_row([], rows=ROWS, whole=WHOLE) == ()
