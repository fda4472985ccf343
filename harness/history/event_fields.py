"""The fields of each kind of event, as the structs of `event` declare them, and their JSON Schema.

`well_formed` names every missing and ill-typed field of one line and returns an event only if there is none; the
rules between events are in `rules`. A field of a claim is an unknown field, and ignored, unless the header makes that
claim. The schema accepts what the reader accepts if all claims are made, except for duplicate keys.
`python -m harness.history.outside_fields` regenerates the schema files of both views; a test fails if one is stale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from harness.history.event import AttemptEvent, Event
from harness.history.fields import Kinds, LineFields
from harness.history.header import VERSION, Header, header_schema
from harness.system.json_types import Json

Claims = frozenset[str]
"""The claims of a header that decide which fields of its events are read."""
ALL_CLAIMS: Claims = frozenset({"explained", "raised", "retry", "versions"})


def claims_of(header: Header | None) -> Claims:
    """The claims that `header` makes; None, an unreadable header, makes none."""
    if header is None:
        return frozenset()
    made = {
        "explained": header.explained is not None,
        "raised": header.raised,
        "retry": header.operator.retry is not None,
        "versions": header.versions,
    }
    return frozenset(claim for claim, is_made in made.items() if is_made)


@cache
def kinds_of(claims: Claims) -> Kinds:
    """The kinds of event whose fields are read under these claims."""
    return Kinds(get_args(Event), claims=claims, of_unknown=AttemptEvent)


def well_formed(given: Mapping[str, object], claims: Claims) -> LineFields:
    """Check the object of one line, under the claims of its header."""
    return kinds_of(claims).check(given)


SCHEMA_FILE = Path(__file__).resolve().parents[1] / "schemas" / f"history.v{VERSION}.json"


def history_schema() -> Json:
    """The schema of any line, with definitions for the header and each kind of event."""
    title = f"A line of a Floodmark history, version {VERSION}"
    return kinds_of(ALL_CLAIMS).schema(title, header_schema())


def schema_text(schema: Mapping[str, object]) -> str:
    """The content of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
