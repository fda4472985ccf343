"""The operator in Go conforms; with one line of it changed it does not, and the conversation that shows it is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from examples.tests.fire import EXAMPLES
from harness.cli.conform import conform

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(300)]

SOURCES = EXAMPLES / "go_operator"


def built(sources: Path, target: Path) -> Path:
    """The program, compiled without a network."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no go on the PATH")
    subprocess.run(
        [go, "build", "-o", target, "."], cwd=sources, check=True, capture_output=True, timeout=240
    )
    return target


def judged(program: Path, report: Path) -> tuple[int, str]:
    arguments = ["--scripts", "20", "--report", str(report), "--", str(program)]
    ran = CliRunner().invoke(conform, arguments, standalone_mode=False)
    return ran.return_value, ran.stdout


def test_it_conforms(tmp_path: Path) -> None:
    code, told = judged(built(SOURCES, tmp_path / "operator"), tmp_path / "report")

    assert (code, told.partition(" ")[0]) == (0, "PASS")
    assert (tmp_path / "report" / "certificate.json").is_file()


def test_one_that_lets_records_pass_a_watermark_does_not(tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(SOURCES, changed)
    source = changed / "operator.go"
    text = source.read_text()
    stops = "\t\t\t}\n\t\t\tbreak\n"
    assert text.count(stops) == 1
    goes_on = "\t\t\t}\n\t\t\tif one.kind == record {\n\t\t\t\tbreak\n\t\t\t}\n\t\t\tcontinue\n"
    source.write_text(text.replace(stops, goes_on))

    code, told = judged(built(changed, tmp_path / "operator"), tmp_path / "report")

    assert code == 1
    assert "order/no_record_passes_a_watermark_in_unordered" in told
    assert '{"cmd":"watermark"' in told, "the lines to paste"
