"""Files of a user's own tables: how SQL is split, what CSV and JSON lines give, and what is told with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.database.own_tables import read_own_tables
from harness.system.errors import UsageError
from tools.cases import each


def parts(folder: Path, name: str, text: str) -> Any:
    (folder / "none.sql").write_text("")
    (folder / name).write_text(text, encoding="utf-8")
    return read_own_tables(str(folder / "none.sql"), [str(folder / name)]).parts


def test_statements_end_at_semicolons_outside_of_texts_and_comments_u4(tmp_path: Path) -> None:
    text = """-- first; not yet
CREATE TABLE a (n INT -- in cents; yes
);
INSERT INTO a VALUES ('x;y', "it''s \\"; too", 'it\\'s;'); # rest; of a line
/* nothing; at all */
/*!40101 SET NAMES utf8mb4 */;

SELECT `a;b` FROM a"""
    found = parts(tmp_path, "more.sql", text)

    assert [(part.at.rpartition(":")[2], part.sql.split("\n")[0]) for part in found] == [
        ("2", "CREATE TABLE a (n INT -- in cents; yes"),
        ("4", """INSERT INTO a VALUES ('x;y', "it''s \\"; too", 'it\\'s;')"""),
        ("6", "/*!40101 SET NAMES utf8mb4 */"),
        ("8", "SELECT `a;b` FROM a"),
    ]


def test_a_delimiter_of_its_own_holds_a_trigger_together_u4(tmp_path: Path) -> None:
    trigger = "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @x = 1; END"
    text = f"DELIMITER //\n{trigger}//\nDELIMITER ;\nSELECT 1;"

    assert [part.sql for part in parts(tmp_path, "more.sql", text)] == [
        trigger,
        "SELECT 1",
    ]


def test_csv_and_json_lines_give_the_rows_of_the_table_they_are_named_after_u4(tmp_path: Path) -> None:
    (of_csv,) = parts(tmp_path, "product.csv", 'sku,name\n1,"a, ""b"""\n\n2,\n')
    (of_json,) = parts(tmp_path, "product.jsonl", '{"sku": 1, "tags": ["x"]}\n\n{"sku": 2}\n')

    assert of_csv.table == of_json.table == "product"
    assert [row for _, row in of_csv.rows] == [{"sku": "1", "name": 'a, "b"'}, {"sku": "2", "name": None}]
    assert [row for _, row in of_json.rows] == [{"sku": 1, "tags": '["x"]'}, {"sku": 2}]
    assert [at.rpartition(":")[2] for at, _ in (*of_csv.rows, *of_json.rows)] == ["2", "4", "1", "3"]


@each(
    ("name", "text", "says"),
    [
        ("a.csv", "x,y\n1,2\n3\n", "a.csv:3: this line has 1 fields, and the first one names 2 columns"),
        ("a.csv", "", "a.csv: it is empty"),
        ("a.csv", 'x\n"1', "a.csv:2: this is no CSV"),
        ("a.jsonl", '{"x": 1}\n{', "a.jsonl:2: this is no JSON ("),
        ("a.jsonl", "{}", "a.jsonl:1: this is no JSON object with columns"),
        ("a.txt", "x", "a.txt: this is neither .sql, .csv nor .jsonl"),
    ],
)
def test_a_mistake_is_told_with_its_line_u4(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parts(tmp_path, name, text)

    assert says in refused.value.what
    assert refused.value.fix


def test_a_file_that_is_not_there_or_not_text_is_a_usage_error_u4(tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes(b"SELECT 1;\nSELECT '\xe9';")

    with pytest.raises(UsageError, match="no.sql cannot be read: No such file"):
        read_own_tables(str(tmp_path / "no.sql"), [])
    with pytest.raises(UsageError, match=r"latin.sql:2: this is not UTF-8 text"):
        read_own_tables(str(tmp_path / "latin.sql"), [])
