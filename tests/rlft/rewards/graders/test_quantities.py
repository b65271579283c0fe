"""Numbers with units."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.quantities import check_unit, read_quantity


@pytest.mark.parametrize(
    ("text", "metres"),
    [("3 km", 3000), ("3000 m", 3000), ("3,000 metres", 3000), ("3", 3), ("3e3 m", 3000), ("1/2 km", 500),
     ("½ km", 500), ("-3 km", -3000), ("3.5km.", 3500), ("-3.5e-1 km", -350), ("3 Km", 3000), ("3 \u00d7 10^3", 3000),
     ("3 \u00d7 10^3 m", 3000), ("3e3", 3000)],
)  # fmt: skip
def test_units_of_a_kind_are_converted(text, metres):
    assert read_quantity(text, "m") == pytest.approx(metres)


@pytest.mark.parametrize(
    "text", ["3 kg", "3 eggs", "m", "", "9**9 m", "5 m**9**9", "5k m", "about 3 km", "3 km 4", "25 °C", "$5", "5 €"]
)
def test_other_kinds_and_other_texts_are_none(text):
    assert read_quantity(text, "m") is None


def test_temperatures_speeds_and_shares():
    assert read_quantity("25 °C", "K") == pytest.approx(298.15)
    assert read_quantity("36 km/h", "m/s") == pytest.approx(10)
    assert read_quantity("50 %", "percent") == pytest.approx(50)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("60 rpm", "Hz", 1),  # a turn in a second, and not a radian
        ("1 kHz", "rpm", 60_000),
        ("60 rpm", "rad/s", 2 * math.pi),
        ("360 degrees/s", "Hz", 1),
        ("5 s^-1", "Hz", 5),
        ("180 degrees", "radian", math.pi),
    ],
)
def test_a_hertz_is_a_turn_in_a_second(text, unit, value):
    assert read_quantity(text, unit) == pytest.approx(value)


@pytest.mark.parametrize("text", ["\uff12\uff10 kg\u3002", "**20 kg**", "\\(20\\) \\mathrm{kg}", "20 000 g"])
def test_signs_around_a_quantity_are_none_of_it(text):
    assert read_quantity(text, "kg") == pytest.approx(20)


@pytest.mark.parametrize("text", ["20 C", "68 F", "20 degrees Celsius", "20 °C", "20"])
def test_a_temperature_as_people_write_it(text):
    assert read_quantity(text, "degC") == pytest.approx(20)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("20 kgs", "kg"), ("20 kilos", "kg"), ("20 Kg", "kg"), ("20 m2", "m^2"), ("20 sqm", "m^2"),
     ("20 square meters", "m^2"), ("20 Square metres", "m^2"), ("20 C", "coulomb"), ("20 cu. ft", "ft^3")],
)  # fmt: skip
def test_units_as_people_write_them(text, unit):
    assert read_quantity(text, unit) == pytest.approx(20)


@pytest.mark.parametrize(
    ("text", "kilograms"), [("1.234,5 kg", 1234.5), ("1.234 kg", 1234), ("0,5", 0.5), ("1.5 kg", None)]
)
def test_a_decimal_comma_where_it_is_named(text, kilograms):
    assert read_quantity(text, "kg", "comma") == kilograms
    assert read_quantity("1,5 cu. ft", "ft^3", "comma") == 1.5
    assert read_quantity("3,5 x 10^3", None, "comma") == 3500


def test_without_a_name_it_is_a_point():
    assert read_quantity("1,234 kg", "kg") == read_quantity("1,234 kg", "kg", "point") == 1234
    assert read_quantity("1,5 kg", "kg") is None


def test_a_currency_is_a_unit_of_its_own():
    assert check_unit("EUR") == "EUR"
    assert read_quantity("1.895,62 €", "EUR") == Fraction("1895.62")
    assert read_quantity("1.895 €", "EUR", "comma") == 1895
    assert read_quantity("5 kg", "EUR") is None


def test_what_is_written_is_exact_and_what_is_converted_is_not():
    assert read_quantity("9449772114007", None) == Fraction(9449772114007)
    assert read_quantity("0.1 km", "km") == Fraction(1, 10)
    assert isinstance(read_quantity("100 m", "km"), float)


def test_a_power_of_ten_needs_no_unit():
    assert read_quantity("3.7e-6", None) == Fraction(37, 10**7)
    assert read_quantity("3.7 x 10^-6", None) == Fraction(37, 10**7)
    assert read_quantity("5M", None) is None  # five millions are no 5
    assert read_quantity("5 Mrd", None) is None
    assert read_quantity("5 pi", None) is None


def test_without_a_unit_the_unit_is_not_looked_at():
    assert read_quantity("18 eggs", None) == 18
    assert read_quantity("18 or 19", None) is None


@pytest.mark.parametrize("unit", ["", "florp", "eur", "€", "EUR/kWh", "9**9**9", "m" * 25, "m; import os"])
def test_what_is_no_unit_is_refused(unit):
    with pytest.raises(ValueError, match="no known unit"):
        check_unit(unit)


@given(st.text(max_size=80))
def test_no_text_raises(text):
    value = read_quantity(text, "m")
    assert value is None or math.isfinite(value)
