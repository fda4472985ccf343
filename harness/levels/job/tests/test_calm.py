"""A job that does not work undisturbed is told with its last words and what they point to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.levels.job.job_file import SinkTable
from harness.levels.job.level import calm_of
from harness.system.errors import WorldError


def _ended(words: str) -> Any:
    """A calm run that has given up after these last words."""
    order = SimpleNamespace(job=SimpleNamespace(sink=SinkTable()))
    return SimpleNamespace(
        order=order,
        expected=None,
        seen=SimpleNamespace(row_times=[], transactions=[]),
        last_words=lambda: words,
        starts=SimpleNamespace(command=("/usr/bin/python", "job.py")),
        cut_off="",
        how=None,
        gave_up="the job exited with code 1",
    )


@pytest.mark.parametrize(
    ("words", "is_of_tls"),
    [
        ("SSLError: the server does not support it", True),
        ("cannot connect to jdbc:mysql://127.0.0.1/db?useSSL=false: no such table", False),
        ("cannot connect to jdbc:mysql://127.0.0.1/db?useSSL=false: TLS required", True),
    ],
)
def test_the_advice_to_turn_tls_off_is_given_only_where_it_is_not_off(words: str, *, is_of_tls: bool) -> None:
    with pytest.raises(WorldError, match="does not work undisturbed: the job exited with code 1") as failed:
        calm_of(_ended(words))

    assert ("TLS must be off" in str(failed.value.fix)) is is_of_tls


def test_a_job_without_its_packages_is_told_which_python_it_ran_under() -> None:
    with pytest.raises(WorldError) as failed:
        calm_of(_ended("ModuleNotFoundError: No module named 'quixstreams'"))

    assert "it ran under /usr/bin/python: if its packages are in another environment" in str(failed.value.fix)
