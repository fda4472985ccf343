"""The pages tell the truth: the targets, commands, links and files that they name exist."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping, Sequence

import click
import pytest

from harness.cli.main import floodmark
from harness.tests.tidy import ROOT, our_files
from tools.cases import each

pytestmark = pytest.mark.arch

LINES_MAX = {"README.md": 110, "docs/tour.md": 110, "docs/explanation/first-release.md": 120}
DECISION_LINES_MAX = 40

PAGES: Mapping[str, str] = {str(path): text for path, text in our_files() if path.suffix == ".md"}
WALKED: Sequence[str] = [
    page
    for page in PAGES
    if page == "README.md"
    or (page.startswith("docs/") and not page.startswith("docs/decisions/"))
    or (page.endswith("README.md") and page.startswith(("harness/", "reference_impl/", "reports/", "tools/")))
]
"""The pages that say where things are; a decision may name what was there when it was taken."""
INDEX = "docs/README.md"
GLOSSARY = "docs/reference/glossary.md"


def code(page: str) -> Iterator[str]:
    """What `page` shows as code: each line of a fenced block, each span between backticks."""
    fenced = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    for block in fenced.findall(page):
        yield from block.splitlines()[1:-1]
    yield from re.findall(r"`([^`\n]+)`", fenced.sub("", page))


def named(pattern: str, page: str) -> set[str]:
    """The first group of `pattern` wherever it stands at the start of a piece of code."""
    return {found[1] for line in code(page) if (found := re.match(pattern, line.strip()))}


def anchors(page: str) -> set[str]:
    """The headings of `page`, as a link names them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each("page", PAGES)
def test_the_make_targets_that_a_page_names_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))

    assert named(r"(?:\$ )?make ([a-z]+)\b", PAGES[page]) <= targets


@each("page", PAGES)
def test_the_tox_environments_that_a_page_names_exist(page: str) -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    environments = {name.removeprefix("testenv:") for name in tox.sections()}

    assert named(r"(?:\$ )?(?:\.venv/bin/)?tox -e ([a-z]+)\b", PAGES[page]) <= environments


@each("page", PAGES)
def test_the_commands_that_a_page_names_exist(page: str) -> None:
    commands = set(floodmark.list_commands(click.Context(floodmark)))

    assert named(r"(?:\$ )?(?:\.venv/bin/)?floodmark ([a-z]+)\b", PAGES[page]) <= commands


@each("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", PAGES[page])
    inside = [link for link in links if not re.match(r"[a-z]+:", link)]

    assert not [link for link in inside if not ((ROOT / page).parent / link).is_file()]


@each("page", PAGES)
def test_the_headings_that_a_page_links_to_exist(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", PAGES[page])
    wanted = {((ROOT / page).parent / link if link else ROOT / page, anchor) for link, anchor in links}

    assert not [str(target) for target, anchor in wanted if anchor not in anchors(target.read_text())]


def test_the_index_leads_to_every_page() -> None:
    pages = {
        page.removeprefix("docs/")
        for page in PAGES
        if page.startswith("docs/") and not page.startswith("docs/decisions/") and page != INDEX
    }

    assert not pages - set(re.findall(r"\]\(([^)#\s]+)\)", PAGES[INDEX]))


def test_every_page_that_is_cited_exists() -> None:
    cited = {found for _, text in our_files() for found in re.findall(r"\bdocs/[\w/-]+\.md\b", text)}

    assert not [page for page in sorted(cited) if page not in PAGES]


@each("page", WALKED)
def test_the_files_and_folders_that_a_page_names_exist(page: str) -> None:
    shown = {found for line in code(PAGES[page]) for found in re.findall(r"[^\s`]+", line)}
    paths = {
        found
        for found in shown
        if re.fullmatch(r"(?:harness|reference_impl|reports(?!/out)|tools|docs|scenarios)/[\w./-]+", found)
    }

    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]


@each("page", [page for page in WALKED if page.endswith("README.md")])
def test_the_modules_that_a_folders_page_names_are_in_the_folder(page: str) -> None:
    folder = (ROOT / page).parent

    names = named(r"((?:\w+/)?\w+\.py)$", PAGES[page])

    assert not [name for name in sorted(names) if not list(folder.rglob(name))]


@pytest.mark.parametrize("page", LINES_MAX)
def test_a_page_for_newcomers_stays_short(page: str) -> None:
    assert len(PAGES[page].splitlines()) <= LINES_MAX[page]


@each("page", [page for page in PAGES if page.startswith("docs/decisions/")])
def test_a_decision_fits_a_screen(page: str) -> None:
    assert len(PAGES[page].splitlines()) <= DECISION_LINES_MAX


def test_each_word_of_the_glossary_leads_to_a_page_that_says_more() -> None:
    entries = re.split(r"^- ", PAGES[GLOSSARY], flags=re.MULTILINE)[1:]
    words = [entry.split("**")[1] for entry in entries]

    assert not [word for word, entry in zip(words, entries, strict=True) if "](" not in entry]
    assert words == sorted(words, key=str.lower)


def test_the_words_of_the_tour_are_in_the_glossary() -> None:
    table = PAGES["docs/tour.md"].partition("## Words")[2].partition("##")[0]
    words = {
        word for row in re.findall(r"^\| ([a-z ,]+) \|", table, re.MULTILINE) for word in row.split(", ")
    }
    told = PAGES[GLOSSARY].lower()

    assert [word for word in sorted(words - {"word"}) if f"**{word}**" not in told] == []


def test_code_is_found_in_spans_and_in_blocks_but_not_in_prose() -> None:
    page = "make hay, or `make demo`:\n\n```\n$ make test\n```\n"

    assert named(r"(?:\$ )?make ([a-z]+)\b", page) == {"demo", "test"}
