"""The page, the badge and the Markdown of a certificate: the cause first, nothing from outside, nothing unescaped."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.scenario.certificate import schema_of_certificates
from harness.system.errors import WorldError
from reports.certificate_write import (
    certificate_badge,
    certificate_markdown,
    certificate_page,
    write_certificate,
)
from reports.tests.certificate_sample import HOSTILE, certificate
from reports.tests.test_run_document import breaches


def text_of(page: str) -> str:
    return re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])


def test_the_cause_stands_before_everything_else_on_a_page_that_is_not_green() -> None:
    text = text_of(certificate_page(certificate(bad=True)))

    places = [
        text.index(part) for part in ("not conformant", "Record 285 was accepted", "40 of 40 runs made")
    ]

    assert places == sorted(places)
    assert places[-1] < text.index("What was judged")


def test_the_page_says_what_is_not_shown_and_how_to_repeat_it() -> None:
    text = text_of(certificate_page(certificate()))

    for part in (
        "V20 is not shown at all",
        "floodmark verify certificate.json",
        "floodmark certify --sut shop:lookup",
    ):
        assert part in text


def test_the_page_loads_nothing_and_runs_no_script() -> None:
    page = certificate_page(certificate(bad=True, text=HOSTILE))

    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(https?:|//|data:)", page)
    assert "\x1b" not in page


def test_nothing_of_a_subject_can_break_the_markdown() -> None:
    text = certificate_markdown(certificate(bad=True, text=HOSTILE))

    assert "<script>" not in text
    assert "\x1b" not in text
    assert "`" not in text


@pytest.mark.parametrize("bad", [False, True])
def test_the_badge_is_an_svg_that_says_profile_word_and_counts(*, bad: bool) -> None:
    badge = certificate_badge(certificate(bad=bad))

    said = [node.text for node in ET.fromstring(badge).iter() if node.tag.endswith("text")]  # noqa: S314 - ours

    assert said == ["floodmark lookup", "not conformant 39/40" if bad else "conformant 40/40"]
    assert "http" not in badge.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_the_file_follows_the_schema(tmp_path: Path) -> None:
    write_certificate(certificate(bad=True, text=HOSTILE), tmp_path)
    schema = json.loads(schema_of_certificates())
    value = json.loads((tmp_path / "certificate.json").read_text(encoding="ascii"))

    found = breaches(value, schema["$defs"]["Certificate"], schema)

    assert found == []


def test_a_full_disk_is_told_and_leaves_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(WorldError, match="No space left on device") as raised:
        write_certificate(certificate(), tmp_path)

    assert raised.value.exit_code == 11
    assert list(tmp_path.iterdir()) == []
