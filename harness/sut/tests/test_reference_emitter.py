"""`--sut reference-emitter`: the first design's operator around the reference's lookup, at live and spark."""

from __future__ import annotations

from harness.sut.registry import REFERENCE, REFERENCE_EMITTER, SUTS, load_lookup
from harness.sut.variant import HONEST, operator_builder
from reference_impl.flip12 import build_operator as build_emitter_operator
from reference_impl.operator.build import build_operator


def test_it_is_listed() -> None:
    assert list(SUTS) == [REFERENCE, REFERENCE_EMITTER]


def test_its_lookup_is_the_references() -> None:
    assert type(load_lookup(REFERENCE_EMITTER)) is type(load_lookup(REFERENCE))


def test_its_operator_is_its_own() -> None:
    assert operator_builder(HONEST, sut=REFERENCE_EMITTER) is build_emitter_operator
    assert operator_builder(HONEST, sut=REFERENCE) is build_operator
    assert operator_builder(HONEST, sut="module:function") is build_operator
