"""The site that `make docs` makes: built without a warning, opened from disk and searched there, without a network."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.system.clock import Deadline, wait_until
from harness.tests.tidy import ROOT, our_files
from reports.tests.browser import chromium

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("sphinx") is None,
        reason="the site's generator is not installed; `make docs` installs it",
    ),
]

SEARCHED_S = 60
_LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; the build fails where it has a warning, as of a link that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    words = ["--quiet", "--fail-on-warning", "--keep-going", "-c", "docs", ".", str(folder)]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_of_the_documentation_is_on_the_site(site: Path) -> None:
    pages = [path for path, _ in our_files() if path.suffix == ".md" and path.parts[0] == "docs"]

    assert not [page for page in pages if not (site / page).with_suffix(".html").is_file()]


def test_no_page_of_the_site_loads_anything_from_a_network(site: Path) -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in site.rglob("*.html")}

    assert texts
    assert not [(file.name, found) for file, text in texts.items() for found in _LOADED.findall(text)]


def test_the_site_opens_from_disk_and_is_searched_there(site: Path, tmp_path: Path) -> None:
    with chromium(tmp_path) as browser:
        browser.open(site / "index.html")
        title = browser.evaluate("document.querySelector('h1').textContent")
        browser.evaluate("location.href = 'search.html?q=watermark'")
        assert wait_until(
            lambda: bool(browser.evaluate("document.querySelectorAll('#search-results li').length > 3")),
            deadline=Deadline(SEARCHED_S),
        )
        found = browser.evaluate("[...document.querySelectorAll('#search-results a')].map(a => a.href)")

    assert "Floodmark" in title
    assert [link for link in found if "order-watermarks-exactly-once.html" in link]
