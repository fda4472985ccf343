"""Claims about the hash of a key: that of Flink 2.3.0, whose own answers stand here."""

from __future__ import annotations

import pytest

from reference_impl.state.key_groups import HashableKey, assign_to_key_group, java_hash, murmur_hash
from tools.cases import each

# What the genuine Flink 2.3.0 (the jar that the oracle of the harness uses) says, by `KeyGroupRangeAssignment` and
# `hashCode`: a key, its hash, its key group of 128, of 32768, of 100.
FACTS: list[tuple[HashableKey, int, int, int, int]] = [
    (0, 0, 94, 31198, 54),
    (1, 1, 86, 16342, 78),
    (2, 2, 127, 15231, 63),
    (42, 42, 29, 28189, 65),
    (-1, -1, 80, 15184, 48),
    (-7, -7, 33, 15777, 49),
    (123456789, 123456789, 81, 22865, 49),
    (2147483647, 2147483647, 62, 19646, 34),
    (-2147483648, -2147483648, 108, 10348, 32),
    (2147483648, -2147483648, 108, 10348, 32),
    (-2147483649, -2147483648, 108, 10348, 32),
    (4294967296, 1, 86, 16342, 78),
    (1234567890123, 1912276436, 92, 32092, 16),
    (-1234567890123, 1912276437, 30, 6686, 98),
    (9223372036854775807, -2147483648, 108, 10348, 32),
    (-9223372036854775808, -2147483648, 108, 10348, 32),
    (9223372036854775808, -2147483648, 108, 10348, 32),
    (-9223372036854775809, 2147483647, 62, 19646, 34),
    (123456789012345678901234567890, 1915528825, 12, 23564, 24),
    (-123456789012345678901234567890, -1915528825, 28, 27804, 12),
    (18446744073709551616, 961, 13, 16141, 5),
    ("", 0, 94, 31198, 54),
    ("a", 97, 81, 19409, 1),
    ("flink", 97520992, 98, 16610, 94),
    ("Hello, World!", 1498789909, 86, 19542, 22),
    ("user-17", -147182744, 49, 22321, 81),
    ("a somewhat longer key that overflows", 1674398311, 98, 13154, 62),
    ("stra\u00dfe", -891990090, 66, 834, 30),
    ("\U0001f600", 1772899, 54, 7350, 14),
    ("\u6d41", 27969, 84, 16980, 92),
    (True, 1231, 77, 11725, 65),
    (False, 1237, 3, 32003, 91),
    (0.0, 0, 94, 31198, 54),
    (-0.0, -2147483648, 108, 10348, 32),
    (1.0, 1072693248, 71, 6087, 55),
    (1.5, 1073217536, 65, 833, 77),
    (-2.25e10, -971705237, 109, 14573, 37),
    (float("nan"), 2146959360, 41, 12713, 89),
    (float("inf"), 2146435072, 122, 8442, 70),
    ((1, 2), 33, 29, 30365, 9),
    (("a", -1), 3006, 60, 18748, 32),
    ((1,), 1, 86, 16342, 78),
    ((None, "x", 3), 3723, 43, 20907, 43),
    (((1, 2), "n"), 1133, 45, 24109, 85),
    ((), 0, 94, 31198, 54),
]


@each(("key", "code", "of_128", "of_32768", "of_100"), FACTS, ids=repr)
def test_a_key_lies_in_the_key_group_that_flink_gives_it_s8(
    key: HashableKey, code: int, of_128: int, of_32768: int, of_100: int
) -> None:
    groups = [assign_to_key_group(key, max_parallelism) for max_parallelism in (128, 32768, 100)]

    assert java_hash(key) == code
    assert groups == [of_128, of_32768, of_100]


@each(
    ("code", "spread"),
    [
        (0, 593689054),
        (1, 68075478),
        (-1, 1982413648),
        (42, 1134849565),
        (-(2**31), 1718298732),
        (2**31 - 1, 1653689534),
        (0x12345678, 331494558),
    ],
)
def test_murmur_is_flinks_s8(code: int, spread: int) -> None:
    assert murmur_hash(code) == spread


def test_six_thousand_keys_lie_where_flink_has_them_s8() -> None:
    """A digest that a Java program over the genuine class came to."""
    digest = 17
    for number in range(-1500, 1500):
        for key in (number * 7919, f"key-{number}"):
            digest = (digest * 31 + assign_to_key_group(key, 4096)) % 1_000_000_007

    assert digest == 243491032


def test_bytes_hash_as_javas_arrays_do_s8() -> None:
    assert [java_hash(b""), java_hash(bytes([1, 255, 127, 128]))] == [1, 956160]


def test_keys_that_python_takes_for_one_are_three_s8() -> None:
    assert len({java_hash(1), java_hash(1.0), java_hash(True)}) == 3


@pytest.mark.parametrize("key", [[1], {1}, {"a": 1}, object(), (1, [2])])
def test_what_has_no_stable_hash_is_refused_s8(key: HashableKey) -> None:
    with pytest.raises(TypeError, match="may differ between processes"):
        java_hash(key)
