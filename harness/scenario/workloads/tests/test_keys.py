"""Keys that a careless lookup confuses: each kind has some, all are different, and snapshots keep them (T6)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from harness.scenario.model import Workload
from harness.scenario.workloads.lookups import Lookup, LookupSource
from harness.scenario.workloads.shape import key_of, keys_of, told_key
from harness.sut.positions import restored, saved
from reference_impl.elements import Record
from tools.cases import each

KINDS = ("numbers", "wide", "signed", "unicode", "composite")


def workload(kind: str, keys: int = 80) -> Workload:
    return Workload.model_validate({"records": 200, "keys": keys, "keys_like": kind, "rate": "100/s"})


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_keys_are_equal_and_fewer_keys_are_the_first_of_more_trust6(kind: str) -> None:
    many, few = list(keys_of(workload(kind, 3000))), list(keys_of(workload(kind, 50)))

    assert len(dict.fromkeys(many)) == 3000
    assert many[:50] == few


LOSSES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "8 bits": ("wide", lambda key: key % 2**8),
    "16 bits": ("wide", lambda key: key % 2**16),
    "32 bits": ("wide", lambda key: key % 2**32),
    "what a double lacks": ("wide", float),
    "sign": ("signed", abs),
    "composed": ("unicode", lambda key: unicodedata.normalize("NFC", key)),
    "case": ("unicode", str.casefold),
    "width": ("unicode", lambda key: unicodedata.normalize("NFKC", key)),
    "border": ("composite", lambda key: f"{key[0]}{key[1]}"),
    "sign of a part": ("composite", lambda key: (key[0], abs(key[1]))),
    "second part": ("composite", lambda key: key[0]),
}
"""What is lost: the kind of keys that shows it, and what is left of a key."""


@each("lost", LOSSES)
def test_keys_of_a_kind_become_equal_by_what_a_careless_lookup_loses_trust6(lost: str) -> None:
    kind, lossy = LOSSES[lost]
    keys = list(keys_of(workload(kind)))

    assert len({lossy(key) for key in keys}) < len(keys)


def test_wide_keys_lie_on_both_sides_of_each_limit_of_an_integer_trust6() -> None:
    keys = list(keys_of(workload("wide")))

    for limit in (127, 255, 32_767, 65_535, 2**31 - 1, 2**32 - 1):
        assert any(isinstance(key, int) and key > limit for key in keys)
        assert any(isinstance(key, int) and key <= limit for key in keys)


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_asked_for_and_survives_a_snapshot_and_the_history_trust6(kind: str) -> None:
    made = workload(kind, keys=12)
    source = LookupSource(workload=made, seed=3, subtask=0)
    lookups = [lookup for lookup, _ in source.records]

    assert {lookup.key for lookup in lookups} == set(keys_of(made))
    for lookup in lookups:
        record = Record(value=lookup, timestamp=None, position=0)
        again = restored(json.loads(json.dumps(saved(record))))
        assert isinstance(again, Record)
        assert again.value == lookup
        assert key_of(json.loads(json.dumps(told_key(lookup.key)))) == lookup.key


def test_a_composite_key_is_a_list_in_a_history() -> None:
    assert told_key(("a", 1)) == ["a", 1]
    assert Lookup(id=1, key=("a", 1), service_ms=0).key == ("a", 1)
