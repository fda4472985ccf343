"""Hidden characters are shown, credentials and known secrets are withheld."""

from __future__ import annotations

import pytest

from harness.history.values import WITHHELD, brief, visible, without_credentials, without_secrets
from tools.cases import each

HOSTILE = "<script>alert(1)</script>]]>\x00\x1b[2J\u202e\u200f\ud800'\"&<!-- https://evil.example/`|@all"
"""What a payload may hold: markup, CDATA's end, control bytes, bidi marks, a lone surrogate."""


@each(
    ("hidden", "shown"),
    [
        ("\x00", r"\x00"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\r", r"\r"),
        ("\u202e", r"\u202e"),
        ("\u200f", r"\u200f"),
        ("\u2066", r"\u2066"),
        ("\ud800", r"\ud800"),
        ("\uffff", r"\uffff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_a_hidden_character_is_spelt_out(hidden: str, shown: str) -> None:
    assert visible(f"a{hidden}b") == f"a{shown}b"


def test_plain_text_in_any_script_is_left_alone() -> None:
    text = "naïve, дом, 水, שלום\tand a second\nline 🙂"

    assert visible(text) == text


def test_showing_twice_changes_nothing() -> None:
    assert visible(visible(HOSTILE)) == visible(HOSTILE)


def test_a_value_in_brief_stays_on_one_line_and_within_its_limit() -> None:
    told = brief({"text": "one\ntwo" * 50}, limit=30)

    assert "\n" not in told
    assert len(told) == 30


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2"},
        {"deep": [{"DB_PASSWD": "hunter2"}]},
        {"url": "mysql://floodmark:hunter2@127.0.0.1:3306/x"},
        "connect(user='a', password='hunter2')",
        "password=hunter2 host=a",
    ],
)
def test_what_is_named_like_a_password_is_withheld(value: object) -> None:
    told = str(without_credentials(value))

    assert "hunter2" not in told
    assert WITHHELD in told


def test_a_value_that_json_cannot_say_is_told_as_text() -> None:
    assert without_credentials({"p": float("nan"), "where": {1}}) == {"p": "nan", "where": "{1}"}


def test_an_ordinary_value_passes_unchanged() -> None:
    value = {"token": 3, "at": "300ms", "list": [1, None, True, 0.5]}

    assert without_credentials(value) == value


SPELLINGS = ["p\"<&'w", "p&#34;&lt;&amp;&#39;w", "p&quot;&lt;&amp;'w", "p\\\"<&'w", "p\"\\<\\&'w"]
"""As it is, and as HTML, XML, JSON and Markdown write it."""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_known_secret_is_withheld_in_every_spelling(spelling: str) -> None:
    assert without_secrets(f"<{spelling}>", ["p\"<&'w", ""]) == f"<{WITHHELD}>"
