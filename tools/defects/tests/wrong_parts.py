"""The wrong parts by name, for property tests; each test module lists in `CONVICTIONS` the defects that it convicts.

Invariant: the lists together are the table's defects that no run shows, each once (`test_table.py`).
"""

from __future__ import annotations

from typing import Any

from tools.defects import DEFECTS
from tools.defects.kinds import PropertyDefect


def wrong_part(name: str) -> Any:
    """The class, or the function that builds one, of the defect `name`, which no run shows."""
    defect = DEFECTS[name]
    assert isinstance(defect, PropertyDefect)
    return defect.wrong
