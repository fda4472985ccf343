"""The environment of a job: what Floodmark tells it, and the user's own variables with their templates filled in.

Invariant: nothing of the harness's own options is passed on; an unknown template is told before anything starts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from harness.database.endpoint import Endpoint
from harness.levels.job.job_file import JobFile
from harness.system.errors import UsageError
from harness.world.ledger import LOOPBACK

MARK: Final = "FLOODMARK_JOB_RUN"
"""The variable by which every process of a run's job is known, also one whose parent has died."""
_TEMPLATE: Final = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)?)\}")
_PARTS: Final = ("url", "jdbc", "host", "port", "user", "password", "database")
_SOURCE_PARTS: Final = {
    "folder": ("kind", "folder"),
    "file": ("kind", "file"),
    "table": ("kind", "table"),
    "kafka": ("kind", "kafka", "topic", "jars"),
}


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job inherits of `environment`: all but the harness's own; this Python's programs are found first.

    `VIRTUAL_ENV` decides nothing: tox and others set it for environments that have none of the job's packages.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("FLOODMARK_")}
    programs = str(Path(sys.executable).parent)
    path = kept.get("PATH", "")
    kept["PATH"] = f"{programs}:{path}" if path else programs
    return kept


def refuse_templates(job: JobFile) -> None:
    """Raises UsageError with every template of `job.env` that cannot be filled in."""
    known = set(_known(job))
    wrong = [
        f"job.env: {name} = {value!r} has {{{found}}}, which is not known{_meant(found, known)}"
        for name, value in job.job.env.items()
        for found in _TEMPLATE.findall(value)
        if found not in known
    ]
    if wrong:
        raise UsageError(
            "; ".join(wrong), fix=f"known are {', '.join(f'{{{name}}}' for name in _known(job))}"
        )


def _known(job: JobFile) -> Iterator[str]:
    for link in ("sink", "lookups"):
        yield from (f"{link}.{part}" for part in _PARTS)
    yield from (f"source.{part}" for part in _SOURCE_PARTS[job.source.kind])
    yield from ("state", "done", "start", *(["cluster.master"] if job.job.cluster else []))


def _meant(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {{{close[0]}}}?" if close else ""


def job_environment(
    job: JobFile,
    *,
    base: Mapping[str, str],
    links: Mapping[str, Endpoint],
    source: Mapping[str, str],
    state: Path,
    done: Path,
    start: int,
    run_id: str,
    cluster: str | None = None,
) -> dict[str, str]:
    """The whole environment of one start; `links`: `sink` and `lookups` as the job reaches them.

    `cluster`: the address of the Spark master, if the run has a cluster.
    """
    told = {
        "FLOODMARK_JOB_LOOKUPS_URL": links["lookups"].url(),
        "FLOODMARK_JOB_SINK_URL": links["sink"].url(),
        "FLOODMARK_JOB_SOURCE_KIND": job.source.kind,
        **source,
        "FLOODMARK_JOB_STATE_FOLDER": str(state),
        "FLOODMARK_JOB_DONE_FILE": str(done),
        "FLOODMARK_JOB_START": str(start),
    }
    values = {f"{link}.{part}": text for link, at in links.items() for part, text in _parts_of(at).items()}
    prefix = "FLOODMARK_JOB_SOURCE_"
    values |= {
        f"source.{name.removeprefix(prefix).lower()}": value
        for name, value in told.items()
        if name.startswith(prefix)
    }
    values |= {"state": str(state), "done": str(done), "start": str(start)}
    values |= {} if cluster is None else {"cluster.master": cluster}

    def filled(text: str) -> str:
        return _TEMPLATE.sub(lambda found: values.get(found[1], found[0]), text)

    own = {name: filled(value) for name, value in job.job.env.items()}
    python = {"PYSPARK_PYTHON": sys.executable} if "PYSPARK_PYTHON" not in base else {}
    if cluster is not None:  # where its workers find the driver, whatever this machine is called
        python |= {"SPARK_LOCAL_IP": LOOPBACK}
    # Unbuffered, so that the last words of a killed job are in its log.
    return {"PYTHONUNBUFFERED": "1", **inherited(base), **python, **told, MARK: run_id, **own}


def _parts_of(at: Endpoint) -> Mapping[str, str]:
    jdbc = f"jdbc:mysql://{at.host}:{at.port}/{at.database}?useSSL=false&allowPublicKeyRetrieval=true"
    return {
        "url": at.url(),
        "jdbc": f"{jdbc}&useCompression=false",
        "host": at.host,
        "port": str(at.port),
        "user": at.user,
        "password": at.password,
        "database": at.database,
    }
