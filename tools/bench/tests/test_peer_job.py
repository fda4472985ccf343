"""Programs of peers: asked in lines, believed only when they say ok, gone at the end of the block."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from harness.conform.oracle.program import flink_jar
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from tools.bench.answer import WrongOutput
from tools.bench.operator_rate import OperatorLoad
from tools.bench.peer_job import flink_job, peer_job, pyflink_job

LOAD = OperatorLoad(records=500, capacity=10, latency_ms=0)
TIMED = OperatorLoad(records=500, capacity=100, latency_ms=5)


def program(body: str) -> list[str]:
    """A peer that says its name, and then `body` for each line that it is asked."""
    loop = f"import sys\nprint('a peer', flush=True)\nfor line in sys.stdin:\n    {body}\n    sys.stdout.flush()\n"
    return [sys.executable, "-c", loop]


def test_a_peer_is_asked_for_each_load_and_answers_with_its_time() -> None:
    with peer_job(program("print('ok', len(line.split()), sep=' ')")) as peer:
        assert (peer.about, peer.run(LOAD), peer.run(LOAD)) == ("a peer", 3.0, 3.0)


def test_a_peer_with_a_wrong_output_gets_no_time() -> None:
    with (
        peer_job(program("print('error 7 came after 5')")) as peer,
        pytest.raises(WrongOutput, match="7 came after"),
    ):
        peer.run(LOAD)


@pytest.mark.parametrize("body", ["sys.exit(3)", "pass"])
def test_a_peer_that_dies_or_is_silent_is_given_up(body: str) -> None:
    with peer_job(program(body), limit_s=0.2) as peer, pytest.raises(WrongOutput, match="no answer within"):
        peer.run(LOAD)


def test_a_peer_that_does_not_start_is_the_machines_fault() -> None:
    with pytest.raises(WorldError, match="does not start"), peer_job([sys.executable, "-c", "pass"]):
        pass


@pytest.mark.parametrize("body", ["pass", "import time; time.sleep(60)"])
def test_no_program_is_left_behind(body: str) -> None:
    pids: list[int] = []

    def ask() -> None:
        with peer_job(program(body), limit_s=0.2) as peer:
            pids.append(peer._process.pid)
            peer.run(LOAD)

    with pytest.raises(WrongOutput):
        ask()
    assert not psutil.pid_exists(pids[0])


def test_a_machine_without_a_jdk_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="no `java`"), flink_job(tmp_path / "no.jar", path=str(tmp_path)):
        pass


def test_a_python_that_is_none_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="is not a program"), pyflink_job(tmp_path / "python"):
        pass


@pytest.mark.spark
def test_the_real_flink_answers_for_both_kinds_of_load() -> None:
    settings = WorldSettings.from_environment()
    jar = flink_jar(settings.places)
    if not jar.exists():
        pytest.skip("no Flink here: floodmark setup --oracle")

    with flink_job(jar, path=settings.path) as flink:
        at_once, timed = flink.run(LOAD), flink.run(TIMED)

    assert flink.about.startswith("Flink 2.3.0")
    assert at_once > 0
    assert timed >= TIMED.ideal_s
