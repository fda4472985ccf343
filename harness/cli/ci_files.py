"""The CI files of `floodmark init`: a GitHub workflow and a GitLab pipeline that run the same commands.

Each runs the project's tests, then its scenarios under ten seeds, and keeps the report however they end. Invariant:
they are valid by the published schemas, and every command of theirs runs as it stands; tests hold both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Final

_REPORT: Final = "floodmark-report"

_OF_A_LOOKUP: Final = (
    "pip install floodmark pytest",
    f"pytest --junit-xml={_REPORT}/pytest.xml",
    f"floodmark run scenarios --sut enrich:lookup --level sim --runs 10 --seed 1 --report {_REPORT}/runs",
)
_OF_A_JOB: Final = (
    "pip install 'floodmark[mysql]' pytest",
    "floodmark setup",
    f"pytest --junit-xml={_REPORT}/pytest.xml",
    f"floodmark job late-commit --job job.toml --seed 1 --report {_REPORT}/runs",
)

_GITHUB: Final = """\
name: floodmark
on: [push, pull_request]
permissions: {{contents: read}}
jobs:
  holds:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "3.11"}}
      # If your package index has no floodmark, name its wheel or its repository here.
{steps}
      - name: the summary on the page of this run
        if: always()
        run: if [ -f {report}/runs/summary.md ]; then cat {report}/runs/summary.md >> "$GITHUB_STEP_SUMMARY"; fi
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: floodmark-report, path: {report}}}
"""
_GITLAB: Final = """\
floodmark:
  image: python:3.11
  timeout: 20 minutes
  script:
    # If your package index has no floodmark, name its wheel or its repository here.
{steps}
  artifacts:
    when: always
    paths: [{report}]
    reports:
      junit: [{report}/pytest.xml, {report}/runs/junit.xml]
"""


def _ci_files(commands: Sequence[str]) -> Mapping[str, str]:
    steps = indent("\n".join(f"- run: {command}" for command in commands), " " * 6)
    script = indent("\n".join(f"- {command}" for command in commands), " " * 4)
    return {
        ".github/workflows/floodmark.yml": _GITHUB.format(steps=steps, report=_REPORT),
        ".gitlab-ci.yml": _GITLAB.format(steps=script, report=_REPORT),
    }


CI_FILES: Final = _ci_files(_OF_A_LOOKUP)
"""For a lookup, by their places in the folder."""
JOB_CI_FILES: Final = _ci_files(_OF_A_JOB)
"""For a whole job."""
