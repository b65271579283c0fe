"""Numbers with units."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.graders.quantities import check_unit, read_quantity


@pytest.mark.parametrize(
    ("text", "metres"),
    [("3 km", 3000), ("3000 m", 3000), ("3,000 metres", 3000), ("3", 3), ("3e3 m", 3000), ("1/2 km", 500),
     ("½ km", 500), ("-3 km", -3000), ("3.5km.", 3500), ("-3.5e-1 km", -350)],
)  # fmt: skip
def test_units_of_a_kind_are_converted(text, metres):
    assert read_quantity(text, "m") == pytest.approx(metres)


@pytest.mark.parametrize(
    "text", ["3 kg", "3 eggs", "m", "", "9**9 m", "5 m**9**9", "5k m", "about 3 km", "3 km 4", "25 °C"]
)
def test_other_kinds_and_other_texts_are_none(text):
    assert read_quantity(text, "m") is None


def test_temperatures_speeds_and_shares():
    assert read_quantity("25 °C", "K") == pytest.approx(298.15)
    assert read_quantity("36 km/h", "m/s") == pytest.approx(10)
    assert read_quantity("50 %", "percent") == pytest.approx(50)


def test_without_a_unit_the_unit_is_not_looked_at():
    assert read_quantity("18 eggs", None) == 18
    assert read_quantity("18 or 19", None) is None


@pytest.mark.parametrize("unit", ["", "florp", "9**9**9", "m" * 25, "m; import os"])
def test_what_is_no_unit_is_refused(unit):
    with pytest.raises(ValueError, match="no known unit"):
        check_unit(unit)


@given(st.text(max_size=80))
def test_no_text_raises(text):
    value = read_quantity(text, "m")
    assert value is None or math.isfinite(value)
