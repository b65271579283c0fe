import pytest

from rlft.environments.press_release_records import PROVINCES, is_dated, named_provinces


@pytest.mark.parametrize("name", PROVINCES)
def test_every_province_is_found_in_its_own_spelling_and_alone(name):
    for written in (name, name.upper(), name.replace("_", " ").title(), name.replace("_", "-")):
        assert named_provinces(f"in {written} province,\u2028yesterday") == (name,)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Paktiya, Paktia and Paktya are one, Paktika is another", ("paktya", "paktika")),
        ("Sar-e Pul", ("sar_e_pul",)),
        ("Sar-e-Pul", ("sar_e_pul",)),
        ("Sari Pul", ("sar_e_pul",)),
        ("Sar e Pol", ("sar_e_pul",)),
        ("Sar\u2013e\u00a0Pul", ("sar_e_pul",)),
        ("Daykundi and Dai Kundi", ("day_kundi",)),
        ("Konar", ("kunar",)),
        ("Ghanzi", ("ghazni",)),
        ("Nagarhar", ("nangarhar",)),
        ("Oruzgan", ("uruzgan",)),
        ("Maidan Wardak's", ("wardak",)),
        ("KABUL, Afghanistan (May 1, 2011)", ()),
        ("Kabul\u2028 Afghanistan", ()),
        ("KABUL, Afghanistan: in Kabul City", ("kabul",)),
        ("Helmandi farahs, a ghorbah, Kunduzis", ()),
        ("", ()),
    ],
)
def test_spellings(text, names):
    assert named_provinces(text) == names


@pytest.mark.parametrize(
    ("text", "dated"),
    [
        ("KABUL, Afghanistan (Sept. 5, 2011)", True),
        ("2010-08-CA-052\u2028KABUL, Afghanistan (Sept. 5)", True),
        ("5 September 2010", True),
        ("KABUL, Afghanistan (Sept. 5)", False),
        ("2010-08-CA-052 yesterday", False),
        ("may 20 people have been there in 2010", True),  # a modal verb that reads as a month: a known slip
        ("they marched 12 miles", False),
        ("Sept. 5, 1995", False),
    ],
)
def test_a_text_is_dated_by_a_year_and_a_day(text, dated):
    assert is_dated(text) is dated
