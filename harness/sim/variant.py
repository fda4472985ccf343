"""What `harness.sut.variant` holds, by the name that level sim's own modules know it by until they go."""

from __future__ import annotations

from harness.sut.variant import HONEST, BuildTaskOperator, Variant, same

__all__ = ["HONEST", "BuildTaskOperator", "Variant", "same"]
