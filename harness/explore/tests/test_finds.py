"""The groups of what was found: by which violation a run is filed, and what is said of one that is not repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.explore.exploration import CorpusEntry, Explored, FoundViolation, Plan
from harness.explore.find import Find
from harness.explore.finds import ExplorationEnd, Group, as_text, grouped
from harness.explore.trial import Subject, Violation
from harness.levels.sim.tests import own_lookups
from harness.scenario.file import loads
from harness.system.errors import WorldError

ONE_ERROR = """\
scenario: one-error
about: The server answers one call with an error.
operator: {mode: ordered}
workload: {records: 3, subtasks: 1, watermark_every: 1}
faults: [{id: error, do: sql_error, when: {call: 1}, link: lookups, code: 1205}]
decisive: [V8]
"""


def _sighting(*violations: Violation) -> FoundViolation:
    entry = CorpusEntry(scenario=loads(ONE_ERROR), seed=1)
    return FoundViolation(entry=entry, violations=violations, run=1)


def _grouped(sighting: FoundViolation, subject: Subject, folder: Path) -> Group:
    [group] = grouped([sighting], subject=subject, only=frozenset(), folder=folder, goes_on=lambda: False)
    return group


def test_of_a_users_lookup_a_wrong_result_comes_before_what_follows_from_it(tmp_path: Path) -> None:
    sighting = _sighting(("V5", "crossed"), ("V8", "lost"), ("V9", "no-effect"))
    swallows = Subject(sut=f"{own_lookups.__name__}:swallows")

    group = _grouped(sighting, swallows, tmp_path)

    assert (group.invariant, group.kind, group.repeats) == ("V8", "lost", True)
    assert group.file.name.startswith("V8-lost-")


def test_of_finds_with_the_same_shape_the_smallest_is_kept(tmp_path: Path) -> None:
    """All three run, since the last of them is the smallest."""
    sightings = [
        replace(
            _sighting(("V8", "lost")),
            entry=CorpusEntry(scenario=loads(ONE_ERROR.replace("records: 3", f"records: {records}")), seed=1),
            run=run,
        )
        for run, records in enumerate([3, 4, 2], 1)
    ]
    swallows = Subject(sut=f"{own_lookups.__name__}:swallows")

    [group] = grouped(sightings, subject=swallows, only=frozenset(), folder=tmp_path, goes_on=lambda: False)

    assert group.find.scenario.workload.records == 2
    assert (group.first_run, group.times, group.repeats) == (1, 3, True)
    assert list(tmp_path.iterdir()) == [group.file]


def test_a_smaller_form_that_cannot_be_written_leaves_the_file_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves: list[Path] = []

    def save(find: Find, folder: Path) -> Path:
        if saves:
            raise WorldError("the disk is full", fix="free some space")
        saves.append(whole_save(find, folder))
        return saves[0]

    whole_save = Find.save
    monkeypatch.setattr(Find, "save", save)

    group = _grouped(_sighting(("V8", "lost")), Subject(sut=f"{own_lookups.__name__}:swallows"), tmp_path)

    assert [group.file] == saves == list(tmp_path.iterdir())
    assert group.unsaved == "the disk is full"


def test_a_run_that_does_not_show_it_a_second_time_is_said_to_be_none_that_repeats(tmp_path: Path) -> None:
    sighting = _sighting(("V8", "duplicate"))

    group = _grouped(sighting, Subject(), tmp_path)

    assert not group.repeats
    explored = Explored(sightings=[sighting])
    plan = Plan(subject=Subject(), seed=1)
    end = ExplorationEnd(
        explored=explored,
        groups=[group],
        plan=plan,
        seconds=1,
        jobs=1,
        on=None,
        corpus=None,
        interrupted=False,
    )
    assert "note     the same run did not show it a second time" in as_text(end)
    assert group.file.exists()
