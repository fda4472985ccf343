"""Job files: what is read from them, and how their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.levels.job.job_file import JobFile, job_of_command, read_job
from harness.levels.job.order import job_named
from harness.scenario.yaml_text import ScenarioProblems
from harness.system.errors import UsageError

WHOLE = """\
[job]
command = ["python", "job.py"]
env = {DB_URL = "{sink.jdbc}"}
ends = "settles"
stop = {signal = "INT", grace = "2s"}
[source]
kind = "file"
fields = {key = "customer"}
[sink]
table = "out"
schema = "sink.sql"
id = ["a", "b"]
values = ["x"]
[claims]
delivery = "at-least-once"
"""


def _read(tmp_path: Path, text: str) -> JobFile:
    file = tmp_path / "job.toml"
    file.write_text(text)
    return read_job(file)


def test_a_job_file_is_read_with_its_defaults_and_its_folder(tmp_path: Path) -> None:
    job = _read(tmp_path, WHOLE)
    assert job.title == "python job.py"
    assert (job.job.stop.signal, job.job.stop.grace, job.job.starts) == ("INT", 2000, 6)
    assert (job.source.fields.id, job.source.fields.key) == ("id", "customer")
    assert job.path(job.sink.schema_file or "") == tmp_path / "sink.sql"
    assert not job.claims.is_fenced


def test_every_mistake_of_a_job_file_is_told_at_once_with_its_line_and_a_suggestion(tmp_path: Path) -> None:
    text = '[job]\ncommand = ["x"]\nendz = "exit"\nstop = {grace = 5}\n[source]\nkind = "foldr"\n[sik]\nid = ["a"]\n'
    with pytest.raises(ScenarioProblems) as told:
        _read(tmp_path, text)
    said = {
        (problem.line, problem.column): f"{problem.say} | {problem.hint}" for problem in told.value.problems
    }
    assert "did you mean `ends`?" in said[3, 1]
    assert "job.stop.grace" in said[4, 17]
    assert "did you mean `folder`?" in said[6, 8]
    assert "did you mean `sink`?" in said[7, 2]


OF_KEYS = '[job]\ncommand = ["x"]\n[sink]\nrows = "key"\nid = ["k"]\n'


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('j = "nr"\n', "`sink.j` numbers the rows of a record"),
        ('dead_letters = "dead"\n', "dead letters"),
        ('[claims]\ndelivery = "at-least-once"\n', "which doubles or losses `at-least-once` allows"),
        ('[claims]\norder = "key"\n', "rows of keys show no order"),
        ('[claims]\nexpected = "none"\n', "only the values are judged"),
    ],
)
def test_what_rows_of_keys_cannot_show_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(ScenarioProblems) as told:
        _read(tmp_path, OF_KEYS + more)

    assert [says in problem.say for problem in told.value.problems] == [True]


def test_a_job_that_waits_for_ever_must_state_its_rows_of_keys_or_be_one_of_spark(tmp_path: Path) -> None:
    waits = OF_KEYS.replace('["x"]\n', '["x"]\nends = "settles"\n')
    with pytest.raises(ScenarioProblems, match="nothing shows when the calm twin"):
        _read(tmp_path, waits)

    assert _read(tmp_path, waits + '[claims]\nexpected = "m:f"\n').sink.rows == "key"
    assert _read(tmp_path, waits.replace("[sink]", 'engine = "spark"\n[sink]')).sink.rows == "key"


def test_what_is_not_toml_is_told_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ScenarioProblems, match=r"job.toml:2:11: this is not TOML"):
        _read(tmp_path, "[job]\ncommand = python\n")


@pytest.mark.parametrize(
    ("job", "say"),
    [
        ("[job]\n", "either a `command` or a `callable`"),
        ('[job]\ncommand = ["x"]\ncallable = "a:b"\n', "either a `command` or a `callable`"),
        ('[job]\ncallable = "job"\n', "`job.callable` cannot be"),
        ("[job]\ncommand = []\n", "`job.command` is empty"),
    ],
)
def test_a_job_has_one_way_to_be_started(tmp_path: Path, job: str, say: str) -> None:
    with pytest.raises(ScenarioProblems) as told:
        _read(tmp_path, job)
    assert say in str(told.value)


def test_a_bare_command_or_callable_is_a_job() -> None:
    assert job_of_command("python 'my job.py' --fast").job.command == ("python", "my job.py", "--fast")
    assert job_of_command("pipe.line:main").job.callable == "pipe.line:main"
    with pytest.raises(UsageError, match="close the quotes"):
        job_of_command("python 'job.py")
    with pytest.raises(UsageError, match="empty"):
        job_of_command(" ")


def test_a_job_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="floodmark init --job"):
        read_job(tmp_path / "none.toml")


def test_a_job_below_the_current_folder_is_named_by_the_path_from_there_h5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "job.toml").write_text(WHOLE)
    monkeypatch.chdir(tmp_path)

    assert job_named(tmp_path / "below")[1] == "below/job.toml"
    monkeypatch.chdir("/")
    assert Path(job_named(tmp_path / "below")[1]) == (tmp_path / "below" / "job.toml").relative_to("/")
    monkeypatch.chdir(Path(__file__).parent)
    assert job_named(tmp_path / "below")[1] == str(tmp_path / "below" / "job.toml")
