"""Scales, ticks and quantiles say what they should at their edges."""

from __future__ import annotations

import pytest

from reports.chart_scale import LinearScale, LogScale, bucket_of, decade_ticks, even_ticks, points, quantile


def test_a_linear_scale_maps_its_ends_to_its_ends() -> None:
    scale = LinearScale(low=10, high=20, start=100, end=300)

    assert [scale(10), scale(15), scale(20)] == [100, 200, 300]


def test_a_value_outside_is_drawn_at_the_edge() -> None:
    scale = LinearScale(low=10, high=20, start=100, end=300)

    assert [scale(-5), scale(99)] == [100, 300]


def test_a_scale_of_no_width_draws_at_its_start() -> None:
    assert LinearScale(low=3, high=3, start=100, end=300)(3) == 100


def test_a_log_scale_gives_each_decade_the_same_room() -> None:
    scale = LogScale(low=1, high=100, start=200, end=0)

    assert [scale(1), scale(10), scale(100)] == pytest.approx([200, 100, 0])


def test_a_log_scale_draws_zero_at_its_low_end() -> None:
    assert LogScale(low=1, high=100, start=200, end=0)(0) == 200


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1.6, (0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)),
        (0, 14, (0, 2, 4, 6, 8, 10, 12, 14)),
        (3, 3, (3,)),
        (0, 0.00001, (0, 2e-6, 4e-6, 6e-6, 8e-6, 1e-5)),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, ticks: tuple[float, ...]) -> None:
    assert even_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(3, 700, (1, 10, 100, 1000)), (1, 1, (1, 10)), (0.1, 100, (0.1, 1, 10, 100))],
)
def test_decades_enclose_their_values(low: float, high: float, ticks: tuple[float, ...]) -> None:
    assert decade_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_quantile_is_the_least_value_that_so_many_do_not_exceed(share: float, value: int) -> None:
    assert quantile(range(1, 101), share) == value


def test_the_last_moment_falls_into_the_last_bucket() -> None:
    assert [bucket_of(t, 0, 10, count=5) for t in (0, 1.9, 2, 10, 11)] == [0, 0, 1, 4, 4]


@pytest.mark.parametrize(("number", "text"), [(12.0, "12"), (12.34, "12.3"), (-0.55, "-0.6")])
def test_a_coordinate_is_as_short_as_a_tenth_of_a_pixel_allows(number: float, text: str) -> None:
    assert points(number) == text
