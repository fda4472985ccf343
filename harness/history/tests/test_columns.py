"""The columnar form holds all that the text form does, and is read and judged alike."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from harness.history import event as ev
from harness.history.convert import convert, main
from harness.history.event import Event
from harness.history.event_fields import claims_of, well_formed
from harness.history.files import write
from harness.history.header import Header
from harness.history.read import open_history, open_text, read_whole
from harness.history.strict_json import strictly
from harness.history.text import json_text, line_of
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.system.errors import HistoryError, UsageError, WorldError
from tools.bench.regular_history import regular_header, regular_history

pytest.importorskip("pyarrow")

from harness.history.columnar import COLUMNS
from harness.history.tests.column_tables import CLAIMING, FORMS, HEADER, HEADER_LINE, exact_repr, fast

TEXTS = (
    st.text(max_size=4) | st.text(st.characters(), max_size=3) | st.sampled_from(["\ud800", 'a"\\\n', "end"])
)
WHOLE = (
    st.integers(-3, 3) | st.integers() | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30])
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | WHOLE
    | TEXTS
    | st.floats(allow_nan=False)
    | st.sampled_from([-0.0, 1.0, 1e999]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
LISTS = st.lists(VALUES, max_size=3)
IDS = WHOLE | TEXTS
MARKS = WHOLE | st.just("end")
ELEMENTS = st.lists(
    st.fixed_dictionaries({"id": IDS}) | st.fixed_dictionaries({"w": MARKS, "pos": WHOLE}), max_size=2
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.just(UNSET) | values


AT: dict[str, Any] = {
    "n": WHOLE, "t": st.integers(0), "thread": maybe(TEXTS), "mail": maybe(WHOLE),
}  # fmt: skip
OF: dict[str, Any] = {**AT, "s": st.integers(0, 2), "a": st.integers(1, 3)}
STAMPS = maybe(WHOLE | st.none())
EVENTS = st.one_of(
    st.builds(ev.Start, **OF, from_=WHOLE | st.none(), pos=WHOLE, by=maybe(TEXTS)),
    st.builds(ev.Restore, **OF, c=WHOLE, elements=ELEMENTS),
    st.builds(ev.In, **OF, pos=WHOLE, id=IDS, key=maybe(VALUES), ts=STAMPS, expect=maybe(LISTS)),
    st.builds(ev.Wm, **OF, pos=WHOLE, w=MARKS),
    st.builds(ev.Call, **OF, id=IDS, try_=st.integers(1, 3), nonce=maybe(VALUES)),
    st.builds(
        ev.Res, **OF, id=IDS, try_=st.integers(1), r=st.sampled_from(["ok", "fail", "timeout", "unknown"]),
        final=st.booleans(), v=maybe(LISTS), nonce=maybe(VALUES), error=maybe(VALUES), by=maybe(TEXTS),
        retry=maybe(st.booleans()), ver=maybe(st.integers(0)),
    ),
    st.builds(ev.Out, **OF, id=IDS, j=st.integers(0), v=VALUES, ts=STAMPS),
    st.builds(ev.Owm, **OF, w=MARKS),
    st.builds(ev.Snap, **OF, c=WHOLE, pos=WHOLE, elements=ELEMENTS),
    st.builds(ev.Dead, **OF, id=IDS),
    st.builds(ev.Failed, **OF, error=VALUES, id=maybe(IDS), by=maybe(TEXTS)),
    st.builds(ev.Kill, **OF, by=maybe(TEXTS)),
    *(st.builds(kind, **OF) for kind in (ev.End, ev.Ended, ev.Close)),
    st.builds(ev.Ack, **OF, c=WHOLE),
    st.builds(
        ev.Row, **AT, table=TEXTS, id=IDS, j=maybe(st.integers(0)), v=maybe(VALUES), seq=maybe(WHOLE),
        token=maybe(WHOLE), c=maybe(WHOLE), error=maybe(VALUES),
    ),
    st.builds(ev.TableRead, **AT, table=TEXTS, rows=st.integers(0)),
    st.builds(
        ev.Change, **AT, phase=st.sampled_from(["begin", "end"]), ver=st.integers(1), key=maybe(VALUES)
    ),
    *(st.builds(kind, **AT, c=WHOLE) for kind in (ev.Done, ev.Abort, ev.Retire)),
    st.builds(ev.Commit, **AT, s=st.integers(0), c=WHOLE, a=maybe(st.integers(1))),
    st.builds(
        ev.Effect, **AT, s=st.integers(0), id=IDS, token=WHOLE, seq=WHOLE, j=maybe(WHOLE), v=maybe(VALUES)
    ),
    st.builds(
        ev.FaultEvent, **AT, f=TEXTS, phase=st.just("begin"), stalls=maybe(st.booleans()),
        can=maybe(st.lists(st.sampled_from(["failed", "kill", "start", "res"]), max_size=2)), s=maybe(st.integers(0)),
    ),
    st.builds(
        ev.FaultEvent, **AT, f=TEXTS, phase=st.just("end"), evidence=st.dictionaries(TEXTS, VALUES, max_size=2)
    ),
    st.builds(ev.GiveUp, **AT, why=VALUES),
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(events=st.lists(EVENTS, max_size=6))
def test_any_event_survives_from_text_to_columns_to_text(
    tmp_path_factory: pytest.TempPathFactory, form: str, events: list[Event]
) -> None:
    folder = tmp_path_factory.mktemp("h")
    columns, text = folder / f"h{form}", folder / "h.jsonl"

    write(columns, CLAIMING, events)
    convert(columns, text)

    assert exact_repr(fast(columns)) == exact_repr(events)
    assert exact_repr(fast(text)) == exact_repr(events)
    assert exact_repr(exactly(events, CLAIMING)) == exact_repr(events)
    assert open_history(columns).header == CLAIMING == open_history(text).header


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(events=st.lists(EVENTS, max_size=6))
def test_fields_without_their_claim_are_lost_alike_in_text_and_columns(
    tmp_path_factory: pytest.TempPathFactory, form: str, events: list[Event]
) -> None:
    folder = tmp_path_factory.mktemp("h")
    columns, text = folder / f"h{form}", folder / "h.jsonl"
    write(columns, HEADER, events)
    write(text, HEADER, events)

    assert exact_repr(fast(columns)) == exact_repr(fast(text)) == exact_repr(exactly(events, HEADER))


def exactly(events: list[Event], header: Header) -> list[Event | None]:
    """The events of these lines as the exact reader checks them one by one."""
    objects: list[Any] = [strictly(line_of(event).strip()) for event in events]
    return [well_formed(given, claims_of(header)).event for given in objects]


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_history_is_read_and_judged_alike_in_columns(tmp_path: Path, form: str) -> None:
    text, columns = tmp_path / "h.jsonl", tmp_path / f"h{form}"
    for seed in range(3):
        columns.unlink(missing_ok=True)
        text.write_text("".join(json_text(line) + "\n" for line in legal_history(seed)))

        convert(text, columns)

        assert read_whole(columns) == read_whole(text)
        assert fast(columns) == fast(text)
        assert judge_file(columns) == judge_file(text)


def test_rows_without_an_odd_cell_are_decoded_many_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h.arrow"
    many = (ev.In, ev.Wm, ev.Call, ev.Res, ev.Out, ev.Owm)
    events = [event for event in regular_history("ordered", 3000) if isinstance(event, many)]
    write(path, regular_header("ordered"), events)
    monkeypatch.setattr("harness.history.read.HistoryReader._one_by_one", None)

    assert fast(path) == events


@pytest.mark.parametrize("form", FORMS)
def test_progress_grows_to_about_the_size_of_the_file(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.history.columnar.ROWS", 100)
    path = tmp_path / f"h{form}"
    write(path, HEADER, [ev.Done(n=n, t=n, c=n) for n in range(290)])
    told: list[int] = []

    list(open_history(path, lambda done, size: told.append(done * 100 // size)).batches())

    assert len(told) == len(set(told)) == 3
    assert 80 < told[-1] <= 100


@pytest.mark.parametrize("form", FORMS)
def test_a_double_beyond_all_doubles_is_not_taken_for_null(tmp_path: Path, form: str) -> None:
    events = [ev.GiveUp(n=1, t=0, why=[math.inf, None, -math.inf]), ev.GiveUp(n=2, t=0, why=[None, "null"])]
    write(tmp_path / f"h{form}", HEADER, events)

    assert fast(tmp_path / f"h{form}") == events


@pytest.mark.parametrize("form", FORMS)
def test_a_file_without_rows_is_a_history_without_events(tmp_path: Path, form: str) -> None:
    write(tmp_path / f"h{form}", HEADER, [])

    assert read_whole(tmp_path / f"h{form}") == (HEADER, [])
    assert fast(tmp_path / f"h{form}") == []


def test_the_page_names_every_column_with_its_type() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "history.md").read_text(encoding="utf-8")
    section = page.split("\n## Columns\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    told = {name.strip("`"): kind.strip("`") for names, kind, _ in rows for name in names.split(", ")}

    assert told == {name: str(kind) for name, kind in COLUMNS.items()}


def test_what_cannot_be_opened_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "h.arrow").mkdir()
    for path in (tmp_path / "h.arrow", tmp_path / "none.parquet"):
        with pytest.raises(UsageError, match="cannot read"):
            open_history(path)


def test_without_arrow_a_columnar_file_is_the_environments_failure_with_the_extra_u5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "h.arrow", HEADER, [])
    monkeypatch.delitem(sys.modules, "harness.history.columnar", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    for opened in (open_history, read_whole):
        with pytest.raises(WorldError, match=r"pip install 'floodmark\[columns\]'"):
            opened(tmp_path / "h.arrow")
    with pytest.raises(WorldError, match="floodmark"):
        write(tmp_path / "g.parquet", HEADER, [])


def test_a_malformed_history_is_not_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "h.jsonl", tmp_path / "h.arrow"
    source.write_bytes(HEADER_LINE + b"\n{}\n")

    with pytest.raises(HistoryError, match="line 2"):
        convert(source, target)

    assert not target.exists()
    assert main([str(source), str(target)]) == 4
    assert "line 2" in capsys.readouterr().err


def test_the_command_converts_and_tells_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "h.jsonl", tmp_path / "h.parquet"
    source.write_bytes(HEADER_LINE + b'\n{"n":1,"t":0,"k":"giveup","why":-0.0}\n{"n":2')

    assert main([str(source), str(target)]) == 0
    assert "line 3" in capsys.readouterr().err
    assert repr(fast(target)) == repr(list(open_text(source.read_bytes()).events()))
    assert main([str(source), str(target)]) == 4
    assert main([str(source)]) == 4
    assert math.copysign(1, read_whole(target)[1][0].why) == -1  # type: ignore[union-attr]
