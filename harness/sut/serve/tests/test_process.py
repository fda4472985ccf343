"""`floodmark sut serve` as a program: its ends, its signals, its memory, and the same bytes each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.conform.oracle.program import SETUP
from harness.conform.protocol.conversation_file import HELLO, catalogue
from harness.conform.protocol.program import Limits, Program, await_answers
from harness.sut.serve import SYSTEMS
from harness.sut.serve.tests.speaking import lines_in_process
from harness.system.errors import Exit
from tools.cases import each, in_sweep_after

FLOODMARK = str(Path(sys.executable).with_name("floodmark"))
LIMIT_S = 60
MEGABYTE = 1 << 20


RETRY = {"strategy": "fixed", "max_retries": 3, "delay_ms": 1, "on": ["error"]}


def opened(capacity: int = 1, *, retry: object = None) -> str:
    config = {"mode": "ordered", "capacity": capacity, "timeout_ms": 100, "on_timeout": {"results": []}}
    return json.dumps({"cmd": "open", "now": 0, "restore": None, "config": {**config, "retry": retry}})


OPENED = opened()
ELEMENT = '{"cmd":"element","value":1,"ts":1}'


def serve(*lines: str, name: str = "reference", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A whole life of the program: these lines, and the end of its input."""
    return subprocess.run(
        [FLOODMARK, "sut", "serve", name],
        input="\n".join(lines).encode(),
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
        env={**os.environ, **environment},  # noqa: TID251 - what a started program is given
    )


ENDS = [
    ([], 0),
    ([HELLO], 1),
    ([HELLO, OPENED, ""], 2),
    ([HELLO, OPENED, ELEMENT, ELEMENT, ""], 4),
    ([HELLO, OPENED, ELEMENT, '{"cmd":"end_input"}', ""], 4),
    ([HELLO, OPENED, ELEMENT, '{"cmd":"fail","call":1,"error":"x"}', ""], 4),
    ([HELLO, OPENED, '{"cmd":"element","value":"cut in the mid'], 3),
]
"""At once, an unended last line, open, blocked, draining, failed, inside a line; how many answers that is."""


@each("name", SYSTEMS)
@each(("lines", "quiets"), ENDS)
def test_the_end_of_input_ends_the_conversation_whatever_it_does(
    name: str, lines: list[str], quiets: int
) -> None:
    """A line that is cut off is answered as the line that it is."""
    whole = "\n".join(lines).encode().splitlines(keepends=True)

    assert lines_in_process(name, whole).count(b'{"ev":"quiet"}\n') == quiets


def test_the_end_of_input_ends_the_program_inside_a_line_too() -> None:
    lines, quiets = ENDS[-1]

    ended = serve(*lines)

    assert ended.returncode == Exit.HOLD
    assert ended.stdout.count(b'{"ev":"quiet"}\n') == quiets
    assert ended.stderr == b""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """The program, greeted."""
    with subprocess.Popen(
        [FLOODMARK, "sut", "serve", "reference"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(HELLO.encode() + b"\n")
        assert b'"hello"' in started.stdout.readline()
        assert started.stdout.readline() == b'{"ev":"quiet"}\n'
        yield started
        started.kill()


@pytest.mark.parametrize(
    "lines", in_sweep_after(1, [[OPENED, ELEMENT, ELEMENT], ['{"cmd":"stats"}'], [OPENED, ELEMENT]])
)
def test_a_reader_that_goes_away_ends_the_program_quietly(
    program: subprocess.Popen[bytes], lines: list[str]
) -> None:
    """Closed standard output: before `open`, at rest, and inside the operator's wait."""
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stderr is not None

    program.stdout.close()
    program.stdin.write("\n".join([*lines, ""]).encode())

    assert program.wait(timeout=LIMIT_S) == Exit.HOLD
    assert program.stderr.read() == b""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_a_signal_ends_the_program_without_a_traceback(
    program: subprocess.Popen[bytes], number: signal.Signals, code: int
) -> None:
    assert program.stderr is not None

    program.send_signal(number)

    assert program.wait(timeout=LIMIT_S) == code
    assert b"Traceback" not in program.stderr.read()


def test_a_name_that_is_not_served_is_bad_usage() -> None:
    ended = serve(name="nonsense")

    assert ended.returncode == Exit.USAGE
    assert ended.stdout == b""
    for name in ["nonsense", *SYSTEMS, "flink"]:
        assert name.encode() in ended.stderr


def test_without_the_real_flink_the_environment_is_told_how_to_get_it(tmp_path: Path) -> None:
    ended = serve(name="flink", FLOODMARK_CACHE=str(tmp_path))

    assert ended.returncode == Exit.ENVIRONMENT
    assert ended.stdout == b""
    assert SETUP.encode() in ended.stderr


@pytest.mark.sweep
def test_one_script_has_one_transcript_whatever_the_hash_seed() -> None:
    """D12: the whole catalogue in one conversation, in two processes."""
    lines = [HELLO]
    for file in catalogue():
        if not file.greeted:
            lines += [exchange.told for exchange in file.exchanges if exchange.told != HELLO]
            lines.append('{"cmd":"close"}')

    one, other = (serve(*lines, PYTHONHASHSEED=seed) for seed in ("1", "2"))

    assert one.stdout.count(b'{"ev":"quiet"}\n') == len(lines)
    assert one.stdout == other.stdout


# ------------------------------------------------------------------------------------------- memory

Round = Callable[[int], list[str]]
"""Ten commands or so, the n-th time; afterwards the queue is as it was."""


def _completed(n: int) -> list[str]:
    pairs = [(f'{{"cmd":"element","value":{at},"ts":{at}}}', at) for at in range(5 * n + 1, 5 * n + 6)]
    return [
        line
        for told, call in pairs
        for line in (told, f'{{"cmd":"complete","call":{call},"results":[{call}]}}')
    ]


def _timed_out(n: int) -> list[str]:
    return [*[ELEMENT] * 5, *[f'{{"cmd":"advance","to":{500 * n + 100 * at}}}' for at in range(1, 6)]]


def _watermarks(n: int) -> list[str]:
    return [f'{{"cmd":"watermark","ts":{10 * n + at}}}' for at in range(10)]


def _snapshots(n: int) -> list[str]:
    return [f'{{"cmd":"snapshot","id":{10 * n + at}}}' for at in range(10)]


def _refused(n: int) -> list[str]:
    return [f'{{"cmd":"complete","call":{9**9 + n},"results":[]}}', "nonsense"] * 5


def _attempts(n: int) -> list[str]:
    return ['{"cmd":"close"}', opened(), ELEMENT, ELEMENT, '{"cmd":"snapshot","id":1}'] * 2


def _retried(n: int) -> list[str]:
    return [line for at in (2 * n, 2 * n + 1) for line in _one_retried(at)]


def _one_retried(at: int) -> list[str]:
    return [
        ELEMENT,
        f'{{"cmd":"fail","call":{2 * at + 1},"error":"lost"}}',
        f'{{"cmd":"advance","to":{at + 1}}}',
        f'{{"cmd":"complete","call":{2 * at + 2},"results":[1]}}',
        '{"cmd":"stats"}',
    ]


ROUNDS = [_completed, _retried, _timed_out, _watermarks, _snapshots, _refused, _attempts]
GROWTH_MAX = 6 * MEGABYTE


@pytest.mark.parametrize("commands_of", in_sweep_after(1, ROUNDS))
def test_memory_is_constant_over_thousands_of_commands(commands_of: Round) -> None:
    early, late = _sizes(commands_of, 2_000, 8_000)

    assert late < early + 4 * MEGABYTE


@pytest.mark.soak
@pytest.mark.parametrize("commands_of", ROUNDS)
def test_memory_is_constant_over_a_hundred_thousand_commands(commands_of: Round) -> None:
    early, late = _sizes(commands_of, 20_000, 100_000)

    assert late < early + GROWTH_MAX


def _sizes(commands_of: Round, *counts: int) -> list[int]:
    """Bytes in memory after so many commands."""
    program = Program([FLOODMARK, "sut", "serve", "reference"], limits=Limits())
    try:
        _tell(program, [HELLO, opened(capacity=10, retry=RETRY if commands_of is _retried else None)])
        sizes, told = [], 0
        for count in counts:
            while told < count:
                _tell(program, commands_of(told // 10))
                told += 10
            sizes.append(psutil.Process(program.pid).memory_info().rss)
    finally:
        program.kill()
    return sizes


def _tell(program: Program, lines: list[str]) -> None:
    program.feed("\n".join([*lines, ""]).encode(), commands=len(lines))
    await_answers(program)
    assert len(program.take(len(lines))) == len(lines)
