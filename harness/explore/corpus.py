"""A corpus: scenarios that reached something new, each with the seed of its run, in a folder of YAML files.

Answers to the queue of AFL and to Hypothesis's database of examples. Invariants: a file is written whole or not at all,
and none is ever removed; what cannot be read is named in one line and left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.scenario.file import dump, loads
from harness.scenario.model import Scenario
from harness.scenario.yaml_text import ScenarioProblems
from harness.system.errors import FloodmarkError, UsageError, WorldError
from harness.system.whole_file import disk_errors_told, write_whole

CORPUS_VERSION: Final = 1
_FIRST_LINE: Final = re.compile(r"# floodmark corpus (\d{1,9}), seed (\d{1,20})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusEntry:
    """A scenario with the seed of the run that reached something."""

    scenario: Scenario
    seed: int

    @property
    def digest(self) -> str:
        """The same for equal scenarios and seeds, whatever the scenario is called."""
        unnamed = self.scenario.model_copy(update={"scenario": "x", "about": ""})
        text = unnamed.model_dump_json(by_alias=True)
        return sha256(f"{self.seed} {text}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A folder of entries; the folder is made with the first one."""

    folder: Path

    def read(self, tell: Callable[[str], None]) -> Iterator[CorpusEntry]:
        """The entries by name; `tell` gets a line for each file that is not an entry.

        Raises UsageError if `folder` is a file, WorldError if it cannot be read.
        """
        if self.folder.exists() and not self.folder.is_dir():
            message = f"--corpus {self.folder} is no folder"
            raise UsageError(message, fix="name a folder, which is made if there is none")
        try:
            files = sorted(self.folder.iterdir()) if self.folder.exists() else []
        except OSError as error:
            message = f"the corpus {self.folder} cannot be read: {error.strerror}"
            raise WorldError(message, fix="name another folder with --corpus") from error
        for file in files:
            if file.suffix in {".yaml", ".yml"} or file.is_file():
                entry = self._read_one(file)
                if isinstance(entry, str):
                    tell(f"corpus: {file} is skipped: {entry}")
                else:
                    yield entry

    def _read_one(self, file: Path) -> CorpusEntry | str:
        """The entry, or why there is none."""
        try:
            if file.exists() and not file.is_file():  # a pipe would be waited for
                return "it is no file"
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return _reason(error)
        found = _FIRST_LINE.match(text)
        if found is None:
            return f"its first line is not `# floodmark corpus {CORPUS_VERSION}, seed N`"
        if int(found[1]) != CORPUS_VERSION:
            return f"it is of version {found[1]} of the corpus, and this is {CORPUS_VERSION}"
        try:
            return CorpusEntry(scenario=loads(text, file=str(file)), seed=int(found[2]))
        except FloodmarkError as error:
            return _reason(error)

    def keep(self, entry: CorpusEntry, *, reached: int) -> Path:
        """Write one entry, unless it is there; `reached`: the number of its features. Raises WorldError."""
        file = self.folder / f"{entry.digest}.yaml"
        if not file.exists():
            again = f"floodmark run {file} --level sim --seed {entry.seed}"
            head = f"# floodmark corpus {CORPUS_VERSION}, seed {entry.seed}: {again} (features: {reached})\n"
            named = entry.scenario.model_copy(update={"scenario": f"corpus-{entry.digest}"})
            fix = "free some space there, or name another folder with --corpus"
            with disk_errors_told(f"the corpus cannot be written to {file}", fix=fix):
                write_whole(file, head + dump(named))
        return file


def _reason(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror}"
    if isinstance(error, ScenarioProblems):
        first, more = error.problems[0], len(error.problems) - 1
        return f"line {first.line}: {first.say}" + (f", and {more} more" if more else "")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
