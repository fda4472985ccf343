"""What a user may plant: a defect, a variant, an operator's builder, and something that is none of these."""

from __future__ import annotations

from harness.sut.defects import Defect, variant_of
from harness.sut.variant import Variant

build_operator = variant_of("unordered-emission").build_operator
variant = Variant(build_operator=build_operator)
DEFECT = Defect(name="out-of-order", about="order is lost", convicted_by=("V1",), variant=variant)
NEITHER = 7
