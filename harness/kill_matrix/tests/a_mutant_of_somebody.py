"""What a user may plant: a variant, an operator's builder, and something that is neither."""

from __future__ import annotations

from harness.sut.variant import Variant
from reference_impl.mutants import BUILDERS

__all__ = ["NEITHER", "build_operator", "variant"]

build_operator = BUILDERS["unordered-emission"]
variant = Variant(build_operator=build_operator)
NEITHER = 7
