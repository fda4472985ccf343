"""The thresholds of a scenario: limits on what is measured of a run, as in k6.

Invariant: the fields are the names of the measures that `harness.judge.explanation.measures` makes, so a name that
does not exist is refused as any unknown field is, with its place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from harness.faults.parts.parts import Part
from harness.faults.parts.values import Duration


def _ratio(value: object) -> object:
    """The number, such as `1.2`; a text or a boolean is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        context = {"say": f"{value!r} is not a number of calls", "hint": "write a number: 1 or 1.2"}
        raise PydanticCustomError("written", "{say}", context)
    return value


Ratio = Annotated[
    float,
    BeforeValidator(_ratio),
    WithJsonSchema({"type": "number", "minimum": 0, "examples": [1.2]}),
]
"""A number that is not negative."""


class Thresholds(Part):
    """What a run may take at most; a run that takes more fails, with exit code 1."""

    recovery_p50: Duration | None = Field(
        default=None,
        description="Of all faults and kills: from the end until results are steady again (V17), the median.",
    )
    recovery_p95: Duration | None = Field(default=None, description="As `recovery_p50`, the 95th percentile.")
    recovery_p99: Duration | None = Field(default=None, description="As `recovery_p50`, the 99th percentile.")
    recovery_max: Duration | None = Field(default=None, description="As `recovery_p50`, the longest.")
    first_result_p95: Duration | None = Field(
        default=None,
        description="Of all faults and kills: from the end to the next result, the 95th percentile.",
    )
    first_result_max: Duration | None = Field(default=None, description="As `first_result_p95`, the longest.")
    latency_p50: Duration | None = Field(
        default=None,
        description="Of all records: from the first time that the operator took it to its first result, the median.",
    )
    latency_p95: Duration | None = Field(default=None, description="As `latency_p50`, the 95th percentile.")
    latency_p99: Duration | None = Field(default=None, description="As `latency_p50`, the 99th percentile.")
    latency_max: Duration | None = Field(default=None, description="As `latency_p50`, the longest.")
    calls_per_record: Ratio | None = Field(
        default=None,
        description="Calls of the lookup for each record, those of retries and of later attempts included.",
    )

    @property
    def limits(self) -> Mapping[str, float]:
        """The limit of each measure that has one, in milliseconds or calls for each record."""
        given: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: float(limit) for name, limit in given.items() if limit is not None}
