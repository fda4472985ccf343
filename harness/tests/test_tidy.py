"""Style is tests: every rule of `tidy.py` holds for the whole repository, and convicts a bad example."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from harness.tests.tidy import FUNCTION_LINES_MAX, RULES, breaches
from tools.cases import each

BAD: list[tuple[str, str, str]] = [
    ("a function fits a screen", "harness/tall.py", "def tall():\n" + "    x = 1\n" * FUNCTION_LINES_MAX),
    ("a module says what it is", "harness/mute.py", "x = 1\n"),
    ("a module says what it is", "harness/blank.py", '"""   """\n'),
    ("a program starts last", "harness/x.py", 'if __name__ == "__main__":\n    main()\nx = 1\n'),
    ("a file is named for a noun", "harness/utils.py", ""),
    ("a file is named for a noun", "harness/world/port_helpers.py", ""),
    ("a file is named for a noun", "harness/common/ports.py", ""),
    ("a class is named for a noun", "harness/x.py", "class AbstractFault: ...\n"),
    ("a class is named for a noun", "harness/x.py", "class IFault: ...\n"),
    ("a class is named for a noun", "harness/x.py", "class FaultManager: ...\n"),
    ("lines end plainly", "README.md", "one\r\ntwo\n"),
    ("lines end plainly", "README.md", "no end"),
    ("lines end plainly", "harness/x.py", "if x:\n\ty()\n"),
    ("lines end plainly", "README.md", "trailing \n"),
    ("tests do not wait", "harness/tests/test_x.py", "time.sleep(1)\n"),
    ("tests do not wait", "harness/tests/test_x.py", "pause(1)\n"),
    ("tests live with the tested", "harness/test_x.py", ""),
    ("tests live with the tested", "scenarios/calm.py", ""),
    ("values are frozen", "harness/x.py", "@dataclass\nclass Loose: ...\n"),
    ("values are frozen", "harness/x.py", "@dataclass(frozen=True)\nclass Positional: ...\n"),
]

LEGAL: list[tuple[str, str, str]] = [
    ("a function fits a screen", "harness/x.py", "def tall():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)),
    ("a file is named for a noun", "reference_impl/database.py", ""),
    ("a class is named for a noun", "harness/x.py", "class IOError: ...\nclass Implied: ...\n"),
    ("lines end plainly", "Makefile", "all:\n\ttrue\n"),
    ("tests do not wait", "harness/levels/live/worker.py", "pause(1)\n"),
    ("tests do not wait", "harness/levels/job/tests/jobs/poller.py", "time.sleep(1)\n"),
    (
        "values are frozen",
        "harness/x.py",
        '@dataclass(slots=True, kw_only=True)\nclass Entry:\n    """Mutable: its reply fills it."""\n',
    ),
]


@pytest.mark.arch
@pytest.mark.parametrize("name", RULES)
def test_the_repository_keeps_the_rule(name: str) -> None:
    found = breaches(RULES[name])

    assert not found, "\n".join(found)


@each(("name", "path", "text"), BAD)
def test_the_rule_convicts_a_bad_example(name: str, path: str, text: str) -> None:
    assert list(RULES[name](PurePosixPath(path), text))


@each(("name", "path", "text"), LEGAL)
def test_the_rule_acquits_an_odd_but_legal_example(name: str, path: str, text: str) -> None:
    assert not list(RULES[name](PurePosixPath(path), text))


def test_every_rule_has_a_bad_example() -> None:
    assert {name for name, _, _ in BAD} == set(RULES)
