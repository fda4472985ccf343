"""Claims about serializers: a value comes back as it was, and a changed type is told from one that can be read."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from reference_impl.state.key_groups import identity_of, spread_of, value_of
from reference_impl.state.serializer import (
    ANY,
    Compatibility,
    TtlValue,
    compatibility,
    last_access_of,
    schema_of,
    serializer_for,
    ttl_of,
)
from reference_impl.state.ttl_state_factory import TtlSerializer
from tools.cases import each

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.binary(max_size=4),
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
PLAIN = st.recursive(
    st.one_of(SCALARS, st.frozensets(HASHABLE, max_size=3), st.sets(HASHABLE, max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
    ),
    max_leaves=6,
)


class Visit(NamedTuple):
    page: str
    seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cart:
    owner: str
    items: tuple[int, ...] = ()


class Longer(Struct):
    """What `Cart` might become."""

    owner: str
    items: tuple[int, ...] = ()
    note: str = ""


@given(PLAIN)
def test_a_plain_value_comes_back_the_same_at_every_depth_s3(value: Any) -> None:
    serializer = serializer_for(Any)

    back = serializer.decode(serializer.encode(value))

    assert repr(back) == repr(value) or back == value
    assert type(back) is type(value)
    assert serializer.encode(back) == serializer.encode(value)


@each(
    ("declared", "value"),
    [
        (int, -7),
        (str, "é"),
        (bytes, b"\x00"),
        (bool, False),
        (float, inf),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (list[tuple[int, int]], [(1, 2)]),
        (dict[str, float], {"a": 1.5}),
        (set[str], {"a", "b"}),
        (int | None, None),
        (Visit, Visit("home", 3)),
        (Cart, Cart(owner="ann", items=(1, 2))),
        (list[Any], [(1,), {2}]),
        (tuple, (1, ("a",))),
    ],
)
def test_a_declared_type_comes_back_as_it_was_s3(declared: Any, value: Any) -> None:
    serializer = serializer_for(declared)

    back = serializer.decode(serializer.encode(value))

    assert back == value
    assert type(back) is type(value)


@each(
    ("declared", "value"),
    [
        (int, "7"),
        (int, True),
        (str, b"a"),
        (tuple[int, int], (1, "2")),
        (list[int], [1.5]),
        (Cart, Cart(owner=1)),  # type: ignore[arg-type]  # what it is about
        (int | None, "x"),
        (Any, object()),
        (Any, [Cart(owner="ann")]),
    ],
)
def test_a_value_of_another_type_is_refused_when_it_is_written_s2(declared: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="is no"):
        serializer_for(declared).encode(value)


def test_a_type_that_cannot_be_stored_is_refused_when_it_is_declared_s2() -> None:
    with pytest.raises(TypeError, match="declare a type that msgspec knows"):
        serializer_for(object)


def test_equal_sets_are_equal_bytes_whatever_their_order_s9() -> None:
    upward, downward = set[Any](), set[Any]()
    for number in range(40):
        upward.add(number * 8)
        downward.add((39 - number) * 8)

    for declared in (Any, set[int]):
        encode = serializer_for(declared).encode
        assert encode(upward) == encode(downward)


AS_IS, MIGRATED, REFUSED = Compatibility


@each(
    ("old", "new", "found"),
    [
        (int, int, AS_IS),
        (Cart, Cart, AS_IS),
        (int, float, MIGRATED),
        (tuple[int, str], tuple[float, str], MIGRATED),
        (int, int | None, MIGRATED),
        (list[int] | None, list[float] | None, MIGRATED),
        (int, str, REFUSED),
        (float, int, REFUSED),
        (int | None, int, REFUSED),
        (tuple[int, int], tuple[int, int, int], REFUSED),
        (tuple[int, ...], list[int], REFUSED),
        (Cart, Visit, REFUSED),
        (Any, int, REFUSED),
        (int, Any, REFUSED),
    ],
)
def test_a_changed_type_is_as_is_migrated_or_refused_s2(old: Any, new: Any, found: Compatibility) -> None:
    assert compatibility(new=schema_of(new), old=schema_of(old)) is found


def test_a_record_may_lose_fields_and_gain_those_with_a_default_s2() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Demanding:
        owner: str
        since: int

    cart, longer, demanding = schema_of(Cart), schema_of(Longer), schema_of(Demanding)

    def renamed(schema: Any) -> Any:
        return type(schema)(
            kind=schema.kind, name="Cart", parts=schema.parts, fields=schema.fields, optional=schema.optional
        )

    assert compatibility(new=renamed(longer), old=cart) is MIGRATED
    assert compatibility(new=cart, old=renamed(longer)) is MIGRATED
    assert compatibility(new=renamed(demanding), old=cart) is REFUSED


def test_a_migrated_value_is_read_as_the_new_type_s2() -> None:
    old, new = serializer_for(tuple[int, int]), serializer_for(tuple[int, float])

    migrated = new.migrate(old.encode((1, 2)), old.schema)

    assert repr(new.decode(migrated)) == "(1, 2.0)"


def test_a_stamp_comes_goes_and_stays_s17() -> None:
    plain = serializer_for(int)
    stamping = TtlSerializer(plain, lambda: 700)
    stored = stamping.encode(TtlValue(5, 300))

    assert stamping.decode(stamping.migrate(plain.encode(5), plain.schema)) == TtlValue(5, 700)
    assert plain.decode(plain.migrate(stored, stamping.schema)) == 5
    assert stamping.decode(stamping.migrate(stored, stamping.schema)) == TtlValue(5, 300)
    assert last_access_of(stored) == 300
    assert compatibility(new=plain.schema, old=stamping.schema) is MIGRATED
    assert compatibility(new=ttl_of(schema_of(str)), old=stamping.schema) is REFUSED
    assert compatibility(new=ttl_of(schema_of(float)), old=plain.schema) is MIGRATED


def test_a_schema_says_in_words_what_it_is() -> None:
    declared = [Any, int | None, tuple[int, str], Cart, Visit]

    words = [str(schema_of(one)) for one in declared]

    assert words == [
        "any",
        "int | None",
        "tuple[int, str]",
        "Cart(owner: str, items: tuple...[int])",
        "Visit[str, int]",
    ]
    assert schema_of(Any) == ANY


@given(HASHABLE, HASHABLE)
def test_identities_are_equal_only_for_values_equal_by_type_too_s8(one: Any, other: Any) -> None:
    same = repr(one) == repr(other)

    assert (identity_of(one) == identity_of(other)) is same
    assert repr(value_of(identity_of(one))) == repr(one)
    assert 0 <= spread_of(identity_of(one)) < 1 << 16


def test_what_python_takes_for_one_key_are_three_s8() -> None:
    assert len({identity_of(1), identity_of(1.0), identity_of(True)}) == 3
