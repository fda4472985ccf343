"""What a user may plant: a variant, an operator's builder, and something that is neither."""

from __future__ import annotations

from harness.sut.defects import variant_of
from harness.sut.variant import Variant

__all__ = ["NEITHER", "build_operator", "variant"]

build_operator = variant_of("unordered-emission").build_operator
variant = Variant(build_operator=build_operator)
NEITHER = 7
