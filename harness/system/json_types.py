"""What a JSON object is in annotations: a document whose fields the code names, from a file, a request or a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object that is being made."""
JsonView: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""
