"""Lines decoded in bulk are those that are well-formed one by one, as equal events, and are counted alike."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history import text
from harness.history.event import Event
from harness.history.event_fields import ALL_CLAIMS, Claims, well_formed
from harness.history.read import HistoryReader, NeedsExactReader, decoded, open_history
from harness.history.strict_json import integers_of_any_length, strictly
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.system.errors import UsageError
from tools.cases import each, in_sweep_after

HEADER = b'{"history":1,"operator":{"mode":"ordered","capacity":2,"timeout_ms":0}}\n'
CLAIMING = (
    b'{"history":1,"operator":{"mode":"ordered","capacity":2,"timeout_ms":0,"retry":{"backoff":"fixed",'
    b'"initial_ms":0}},"explained":"alone","versions":true}\n'
)
NONE: Claims = frozenset()
EACH_CLAIMS = [NONE, ALL_CLAIMS, *(frozenset({claim}) for claim in sorted(ALL_CLAIMS))]
HEADERS = {NONE: HEADER, ALL_CLAIMS: CLAIMING}
OF = {"n": 1, "t": 0, "s": 0, "a": 1}
OUT = b'{"n":1,"t":0,"k":"out","s":0,"a":1,"id":1,"j":0,"v":'
VALUES = [
    "1", "-0", "0", "1.0", "-0.0", "0.10", "1e3", "1E+05", "1e-7", "1e-999", "1e999", "-1e999", "[1e999]",
    "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1" + "0" * 5000, "9007199254740993.0",
    "123456789012345678901234567890.5", "01", "1.", ".5", "+1", "--1", "0x1", "NaN", "Infinity", "-Infinity",
    '"a"', '""', '"\\u0041\\/\\n"', '"\\u00e9"', '"\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00\\ud800"',
    '"\\q"', '"\x01"', '"a\tb"', '"\x7f"', '"a:b"', '"a\\u003ab"', '"a\\u003Ab"', '"}{"', "'a'", '"a', '"\\u12"',
    "true", "false", "null", "True", "tru", "undefined", "", "[]", "[1,]", "[1 2]", "{}", '{"a":1}',
    '{"a":1,"a":1}', '{"a":1,"\\u0061":1}', '[{"a":[{"b":1,"b":2}]}]', '{"a":1,}', '{"":1}', "{1:2}",
    '{"a":1,"a":":"}', '{"b":"\\u003a","a":1,"a":1}', '{"b":"\\u003A","a":1,"a":1}',
    "[" * 299 + "]" * 299, "[" * 300 + "]" * 300,
    "[" * 5000 + "]" * 5000, '{"a":' * 298 + "1" + "}" * 298, '{"a":' * 320 + "1" + "}" * 320,
    "[" + "[]," * 400 + "1]", '"end"', '"begin"', '"ok"', '"V8"', "[0]", '["a"]', "2", "-1",
]  # fmt: skip
LINES = [
    "", " ", "\t\r", "{}", "[]", "null", "1", '"x"', "{", "}", "nonsense", '{"n":1}{"n":2}', "\ufeff{}", "\x00",
    '{"n":1,"t":0,"k":"done","c":1}{"n":2,"t":0,"k":"done","c":1}',
    '{"n":1,"t":0,"k":"done","c":1},{"n":2,"t":0,"k":"done","c":1}',
    ' {"n" : 1 ,\t"t":0,"k":"done","c":1} \r', '{"n":1,"t":0,"k":"done","c":1}\x0b', '{"n":1,"t":0,"k":"done"}',
    '{"n":1,"t":0,"k":"done","c":1,"c":1}', '{"n":1,"t":0,"k":"done","k":"abort","c":1}',
    '{"k":"abort","n":1,"t":0,"k":"done","c":1}', '{"n":1,"t":0,"\\u006b":"done","c":1}',
    '{"n":1,"t":0,"k":"done","c":1,"more":1}', '{"n":1,"t":0,"k":"done","c":1,"more":{"a":1,"a":2}}',
    '{"n":1,"t":0,"k":"done","c":1,"more":"\\ud800"}', '{"n":1,"t":0,"k":"outt","c":1}', '{"n":1,"t":0,"c":1}',
    '{"n":1,"t":0,"k":null,"c":1}', '{"n":1,"t":0,"k":["done"],"c":1}', '{"n":1,"t":0,"k":"Done","c":1}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"id":1,"pos":"x","more":[]}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"w":"end","pos":1}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"w":1.0,"pos":1}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"w":1,"pos":true}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"w":1}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"id":1},{"id":null}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"id":1,"w":1,"pos":1}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{"id":1,"id":1}]}',
    '{"n":1,"t":0,"k":"snap","s":0,"a":1,"c":1,"pos":0,"elements":[{}]}',
    '{"n":1,"t":0,"k":"restore","s":0,"a":1,"c":1,"elements":[[]]}',
    '{"n":1,"t":0,"k":"restore","s":0,"a":1,"c":1,"elements":[{"id":true}]}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"begin","evidence":{"a":1}}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"begin","evidence":1}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"begin","stalls":1}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"end","stalls":true,"evidence":{}}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"end","stalls":7,"evidence":{}}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"end"}', '{"n":1,"t":0,"k":"fault","f":"x","phase":"middle"}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"begin","can":["kill"],"s":3}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"begin","can":["end"]}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"begin","s":-1}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"end","evidence":{},"s":0}',
    '{"n":1,"t":0,"k":"fault","f":"x","phase":"end","evidence":{},"can":7}',
    '{"n":1,"t":0,"k":"start","s":0,"a":1,"from":null,"pos":0,"by":"x"}',
    '{"n":1,"t":0,"k":"failed","s":0,"a":1,"error":{"by":"x"}}',
    '{"n":1,"t":0,"k":"failed","s":0,"a":1,"error":1,"\\u0062y":"x"}',
    '{"n":1,"t":0,"k":"kill","s":0,"a":1,"by":"x"}', '{"n":1,"t":0,"k":"kill","s":0,"a":1,"by":null}',
    '{"n":1,"t":0,"k":"close","s":0,"a":1,"by":"x"}',
    '{"n":1,"t":0,"k":"res","s":0,"a":1,"id":1,"try":1,"r":"ok","final":true,"retry":true}',
    '{"n":1,"t":0,"k":"res","s":0,"a":1,"id":1,"try":1,"r":"ok","final":true,"retry":1}',
    '{"n":1,"t":0,"k":"res","s":0,"a":1,"id":1,"try":1,"r":"ok","final":true,"ver":0}',
    '{"n":1,"t":0,"k":"res","s":0,"a":1,"id":1,"try":1,"r":"ok","final":true,"ver":-1}',
    '{"n":1,"t":0,"k":"row","table":"t","id":"x","j":0}', '{"n":1,"t":0,"k":"row","table":"t","id":"x","j":-1}',
    '{"n":1,"t":0,"k":"row","table":"t"}', '{"n":1,"t":0,"k":"read","table":"t","rows":0}',
    '{"n":1,"t":0,"k":"ack","s":0,"a":1,"c":1}', '{"n":1,"t":0,"k":"change","phase":"begin","ver":1,"key":null}',
    '{"n":1,"t":0,"k":"change","phase":"half","ver":1}',
]  # fmt: skip
FULLEST: dict[str, dict[str, Any]] = {
    "start": {"from": 1, "pos": 0, "by": "x"},
    "restore": {"c": 1, "elements": []},
    "in": {"pos": 0, "id": 1, "key": 1, "ts": 1, "expect": []},
    "wm": {"pos": 0, "w": 1},
    "call": {"id": 1, "try": 1, "nonce": 1},
    "res": {
        "id": 1,
        "try": 1,
        "r": "ok",
        "final": True,
        "v": [],
        "nonce": 1,
        "error": 1,
        "by": "x",
        "retry": True,
        "ver": 0,
    },
    "out": {"id": 1, "j": 0, "v": 1, "ts": 1},
    "owm": {"w": 1},
    "snap": {"c": 1, "pos": 0, "elements": []},
    "dead": {"id": 1},
    "failed": {"error": 1, "id": 1, "by": "x"},
    "end": {},
    "kill": {"by": "x"},
    "done": {"c": 1},
    "commit": {"c": 1},
    "effect": {"id": 1, "token": 1, "seq": 1, "j": 0, "v": 1},
    "ack": {"c": 1},
    "fault": {"f": "x", "phase": "end", "evidence": {}},
    "fault that begins": {"f": "x", "phase": "begin", "stalls": True, "can": ["kill"], "s": 0},
    "row": {"table": "x", "id": 1, "j": 0, "v": 1, "seq": 1, "token": 1, "c": 1, "error": 1},
    "read": {"table": "x", "rows": 0},
    "change": {"phase": "begin", "ver": 1, "key": 1},
    "giveup": {"why": 1},
}


def odd_fields(kind: str) -> Iterator[str]:
    """Every value in every field of the kind that no other has tried, and every field left out."""
    whole = {**OF, "k": kind.split(maxsplit=1)[0], "thread": "x", "mail": 1, **FULLEST[kind]}
    for name in whole:
        rest = json.dumps({key: value for key, value in whole.items() if key != name})
        yield rest
        if kind == "start" or name in FULLEST[kind]:
            yield from (f'{rest[:-1]}, "{name}": {value}}}' for value in VALUES)


def exactly(line: bytes, claims: Claims = frozenset()) -> Event | None:
    value = strictly(line.strip(b" \t\r"))
    return well_formed(value, claims).event if isinstance(value, dict) else None


def fast(path: Path, *lines: bytes, header: bytes = HEADER) -> list[Event] | int:
    """The events of a file of these lines, or the line that is not ordinary."""
    path.write_bytes(header + b"\n".join((*lines, b"")))
    try:
        return list(chain.from_iterable(open_history(path).batches()))
    except NeedsExactReader as odd:
        return odd.line


def agrees(path: Path, lines: list[bytes]) -> None:
    """Whether the header makes the claims of form 1.1 or not."""
    for claims, header in HEADERS.items():
        exact = [exactly(line, claims) for line in lines]
        wanted = exact if None not in exact else exact.index(None) + 2
        assert exact_repr(fast(path, *lines, header=header)) == exact_repr(wanted)


def exact_repr(value: object) -> str:
    """Tells `1` from `1.0` and `0.0` from `-0.0`, which `==` does not."""
    with integers_of_any_length():
        return repr(value)


@pytest.mark.parametrize("around", [[], [OUT + b'"x"}']], ids=["alone", "among others"])
def test_a_line_is_taken_exactly_if_the_exact_reader_takes_it(tmp_path: Path, around: list[bytes]) -> None:
    for line in (*LINES, *(OUT.decode() + value + "}" for value in VALUES)):
        agrees(tmp_path / "h.jsonl", [*around, line.encode(errors="surrogatepass"), *around])


@pytest.mark.parametrize(
    "claims", in_sweep_after(2, EACH_CLAIMS), ids=lambda claims: "-".join(sorted(claims)) or "none"
)
@each("kind", FULLEST)
def test_every_field_of_every_kind_is_checked_as_the_exact_reader_checks_it(
    kind: str, claims: Claims
) -> None:
    for line in odd_fields(kind):
        raw = line.encode()
        exact = exactly(raw, claims)
        assert exact_repr(decoded(raw.strip() + b"\n", claims) or [exact]) == exact_repr([exact])


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_text_that_is_not_utf_8_is_not_ordinary_wherever_it_stands(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "h.jsonl"

    assert fast(path, OUT + b'"' + bad + b'"}') == 2
    assert fast(path, OUT + b'1,"more":"' + bad + b'"}') == 2
    assert fast(path, OUT + b'1,"' + bad + b'":1}') == 2


def test_lines_are_not_mistaken_where_white_space_stands_oddly(tmp_path: Path) -> None:
    done = b'{"n":1,"t":0,"k":"done","c":1}'
    path = tmp_path / "h.jsonl"

    assert fast(path, done + done, b"", done) == 2
    assert fast(path, done + b" " + done, b"", done) == 2
    assert fast(path, done[:-1], b"}", done) == 2
    assert fast(path, done[:-1], b"}" + done, done) == 2
    assert fast(path, done, b"", done) == 3
    assert fast(path, b"\r" + done + b" \r", done) == [exactly(done)] * 2


@settings(deadline=None, derandomize=True, database=None)
@given(st.data())
def test_a_line_with_bytes_changed_is_taken_exactly_if_the_exact_reader_takes_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = [json.dumps(line).encode() for line in legal_history(data.draw(st.integers(0, 5)))[1:30]]
    at = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[at])
    for _ in range(data.draw(st.integers(1, 3))):
        here = data.draw(st.integers(0, len(line) - 1))
        line[here : here + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(list(_PIECES)))
    lines[at] = bytes(line)

    agrees(tmp_path_factory.mktemp("h") / "h.jsonl", lines)


_PIECES = (
    b"", b"1", b"-", b".", b"e", b"0", b'"', b":", b",", b"{", b"}", b"[", b"]", b" ", b"\t", b"\r", b"\\", b"n",
    b'"n":1,', b'"c":1,', b"null", b"true", b"\xff", b"\xc3\xa9", b"\\u003a", b"1e5", b"NaN", b"18446744073709551616",
)  # fmt: skip


@each("write", [json.dumps, lambda line: json.dumps(line, separators=(",", ":"))])
@each("pack", [lambda raw: raw, gzip.compress, zstandard.compress], ids=["", ".gz", ".zst"])
def test_a_whole_history_comes_as_the_exact_reader_gives_it_in_the_fast_way(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Any], str],
    pack: Callable[[bytes], bytes],
) -> None:
    header, *lines = [write(line).encode() + b"\n" for line in legal_history(11)]
    suffix = {gzip.compress: ".gz", zstandard.compress: ".zst"}.get(pack, "")
    path = tmp_path / f"h.jsonl{suffix}"
    path.write_bytes(pack(header + b"".join(lines)))
    monkeypatch.setattr(text, "_PIECE", 1000)
    monkeypatch.setattr(HistoryReader, "_one_by_one", None)
    told: list[tuple[int, int]] = []

    history = open_history(path, lambda *done: told.append(done))
    batches = list(history.batches())

    assert list(chain.from_iterable(batches)) == [exactly(line[:-1]) for line in lines]
    assert len(batches) > 3
    assert history.header is not None
    assert history.warnings == []
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


def test_a_cut_last_line_is_dropped_with_a_warning_and_a_whole_one_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(HEADER + OUT + b"1}\n" + OUT)
    cut = open_history(path)

    assert len(list(chain.from_iterable(cut.batches()))) == 1
    assert [warning.split(",")[0] for warning in cut.warnings] == ["line 3"]

    path.write_bytes(HEADER + OUT + b"1}\n" + OUT + b"2}")
    whole = open_history(path)

    assert len(list(chain.from_iterable(whole.batches()))) == 2
    assert whole.warnings == []


@each("text", [b"", b"\n", b"{}\n", b'{"history":2}\n', b"\xef\xbb\xbf" + HEADER, HEADER[:30]])
def test_a_header_that_breaks_the_format_gives_no_batch(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(text)
    history = open_history(path)

    with pytest.raises(NeedsExactReader):
        list(history.batches())


@pytest.mark.parametrize("codec", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
def test_a_damaged_stream_is_not_ordinary(tmp_path: Path, codec: Callable[[bytes], bytes]) -> None:
    path = tmp_path / ("h.jsonl.gz" if codec is gzip.compress else "h.jsonl.zst")
    path.write_bytes(codec(HEADER + b"".join(OUT + b'"%d"}\n' % (n * 7919) for n in range(3000)))[:-20])

    with pytest.raises(NeedsExactReader):
        list(open_history(path).batches())


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        open_history(tmp_path)
