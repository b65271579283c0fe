"""Reads a number with its unit, which may be a currency, from the notations that people use, and converts it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Literal

from rlft.rewards.graders.numbers import LONGEST_NUMBER, is_unit, parse_number, tidy

Decimal = Literal["point", "comma"]
"""What stands before the decimals of a number."""

_CODES = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP "
    "CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF "
    "IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD "
    "MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB "
    "RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD "
    "UYU UZS VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG"
)
CURRENCIES = frozenset(_CODES.split())
"""The codes of currencies (ISO 4217), with the Bulgarian lev, which older invoices have."""
_DOLLARS = "USD AUD BBD BMD BND BSD BZD CAD FJD GYD HKD JMD KYD LRD NAD NZD SBD SGD SRD TTD TWD XCD"
# A sign or name that several currencies share stands for whichever of them is asked for.
_NAMES = {
    "$": f"{_DOLLARS} ARS CLP COP MXN UYU", "dollar dollars": _DOLLARS,
    "us$ $us u.s.dollar u.s.dollars usdollar usdollars": "USD", "a$ au$": "AUD", "c$ ca$ can$": "CAD", "hk$": "HKD",
    "nz$": "NZD", "s$": "SGD", "nt$": "TWD", "mx$": "MXN", "r$ real reais": "BRL",
    "€ euro euros": "EUR", "£ pound pounds": "GBP EGP GIP", "poundsterling poundssterling sterling": "GBP",
    "¥ ￥": "JPY CNY", "yen 円": "JPY", "yuan rmb renminbi 元": "CNY", "₩ won": "KRW KPW",
    "₹": "INR", "rs rs. re rupee rupees": "INR PKR LKR NPR MUR SCR", "rp rp. rupiah": "IDR", "rm ringgit": "MYR",
    "fr fr. sfr sfr. franken swissfranc swissfrancs": "CHF", "franc francs": "CHF XAF XOF XPF CDF RWF BIF DJF GNF KMF",
    "kr kr. krone kroner krona kronor": "SEK NOK DKK ISK", "zł zl złoty złotych zloty zlotys": "PLN",
    "kč kc koruna": "CZK", "ft forint forints": "HUF", "lei leu": "RON MDL", "лв лв. lev leva": "BGN",
    "₽ ruble rubles": "RUB BYN", "₴ hryvnia hryvnias": "UAH", "₺ tl lira": "TRY", "₪ shekel shekels": "ILS", "₫": "VND",
    "₱": "PHP", "peso pesos": "MXN ARS CLP COP CUP DOP PHP UYU", "₦ naira": "NGN", "฿ baht": "THB", "₸ tenge": "KZT",
    "₾ lari": "GEL", "r rand rands": "ZAR", "₵": "GHS", "dirham dirhams": "AED MAD",
}  # fmt: skip
_CURRENCIES_OF = {name: frozenset(codes.split()) for names, codes in _NAMES.items() for name in names.split()}
_AMOUNT = re.compile(
    r"(?P<sign>[+-]?) ?(?P<before>[^0-9+-]*?) ?(?P<late_sign>[+-]?) ?(?P<number>[.,]?[0-9][0-9., '\u2019]*?)"
    r"(?P<no_cents>[.,][-\u2014]{1,2})? ?(?P<after>[^0-9,'\u2019-][^0-9]*)?"
)
_GROUPS = r"[1-9][0-9]{0,2}(?:(?P<group>[%s '\u2019])[0-9]{3})(?:(?P=group)[0-9]{3})*"
_NOTATIONS: dict[Decimal, re.Pattern[str]] = {
    "point": re.compile(
        rf"(?P<whole>{_GROUPS % ','}|[1-9][0-9]?(?:,[0-9]{{2}})+,[0-9]{{3}}|[0-9]+)?(?:\.(?P<decimals>[0-9]+))?"
    ),
    "comma": re.compile(rf"(?P<whole>{_GROUPS % '.'}|[0-9]+)?(?:,(?P<decimals>[0-9]+))?"),
}


def amounts(text: str, currency: str) -> dict[Decimal, Fraction]:
    """Return what a text may be as one amount in a currency, by what stands before its decimals; empty if it is none.

    `currency` is a code of ISO 4217. Read are "1,234.50", "1.895,62", "1'234.50", "1 234,50" and "12,34,567.00", with a
    sign, and before or behind it the currency as its code, sign or name ("EUR 5", "5 €", "US$5", "$5 USD", "5 US
    dollars"), or none; "5,-" has no cents. Another currency is none of this one, as nothing is converted. Nor are cents
    ("50 ct"), multiples ("5k", "5 million EUR"), several amounts, and what is longer than `LONGEST_NUMBER`.
    """
    match = None if len(text) > LONGEST_NUMBER else _AMOUNT.fullmatch(tidy(text))
    if match is None or (match["sign"] and match["late_sign"]):
        return {}
    if not all(_is_of(match[place] or "", currency) for place in ("before", "after")):
        return {}
    sign = -1 if "-" in (match["sign"], match["late_sign"]) else 1
    found = {}
    for name, notation in _NOTATIONS.items():
        read = notation.fullmatch(match["number"])
        if read is not None and not (match["no_cents"] and read["decimals"]):
            whole = re.sub(r"[^0-9]", "", read["whole"] or "0")
            found[name] = sign * Fraction(f"{whole}.{read['decimals'] or 0}")
    return found


def read_amount(text: str, currency: str, decimal: Decimal | None) -> Fraction | None:
    """Return the amount that a text is, by the notation that `decimal` names.

    Without one a text is an amount only if both notations that can read it come to the same: "1.895,62" and "5.50" are
    amounts, and "1.234" is none, which may be 1234 or 1.234.
    """
    found = amounts(text, currency)
    values = set(found.values()) if decimal is None else {found[decimal]} if decimal in found else set[Fraction]()
    return values.pop() if len(values) == 1 else None


def _is_of(marked: str, currency: str) -> bool:
    name = "".join(marked.split()).casefold()
    return not name or name == currency.casefold() or currency in _CURRENCIES_OF.get(name, ())


_QUANTITY = re.compile(r"(?P<number>[^a-zA-Zµμ°%Ω]+(?:[eE][+-]?[0-9]{1,2})?)\s*(?P<unit>[a-zA-Zµμ°%Ω].*)", re.DOTALL)
_UNIT = re.compile(
    r"[a-zA-Zµμ°%Ω_ ]{1,24}(?:(?:\^|\*\*)-?[1-9]|[²³])?(?:[*/·][a-zA-Zµμ°Ω_ ]{1,24}(?:\^-?[1-9]|[²³])?){0,3}"
)
_POWER = re.compile(
    r"(?P<number>[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)"
    r"(?:[eE](?P<e>[+-]?[0-9]{1,2})|\s*(?:[x\u00d7*\u00b7]|\\times)\s*10\s*\^\s*\{?(?P<ten>[+\u2212-]?[0-9]{1,2})\}?)(?P<after>\D*)"
)
_ANGULAR = re.compile(r"radian|turn|revolution|degree\b")
_SEPARATOR = re.compile(r"[.,](?=[0-9])")
_MINUS = str.maketrans({"\u2212": "-"})
# As people write them where pint has another unit of that name (C is coulomb, F farad), or none.
_SPELLINGS = {
    "c": "degC", "celsius": "degC", "degree celsius": "degC", "degrees celsius": "degC", "degrees c": "degC",
    "f": "degF", "fahrenheit": "degF", "degree fahrenheit": "degF", "degrees fahrenheit": "degF", "degrees f": "degF",
    "kgs": "kg", "kilo": "kg", "kilos": "kg", "lbs": "lb", "mins": "minute", "hrs": "hour", "hr": "hour",
    "secs": "second", "sqm": "m^2", "sqkm": "km^2", "sqft": "ft^2", "cbm": "m^3",
}  # fmt: skip
_SIGNS = {"²": "^2", "³": "^3", "·": "*", "μ": "µ"}


def check_unit(unit: str) -> str:
    """Return the unit, which may be a currency's code. Raises ValueError for one that is not known."""
    if unit not in CURRENCIES and _unit(unit) is None:
        raise ValueError(
            f"{unit!r:.40} is no known unit; write kg, km/h, degC, m^2, the code of a currency such as EUR, or leave "
            "`unit` out"
        )
    return unit


def read_quantity(text: str, unit: str | None, decimal: Decimal | None = None) -> Fraction | float | None:
    """Return the number that a text is, in `unit`; `None` if it is none, or of another kind of unit, or of none.

    A Fraction is exactly what is written; a float was converted from another unit. Without a `unit` the text is a
    number as `numbers.parse_number` reads it, whose unit is not looked at. With one, "3 km", "3000 m" and
    "3,000 metres" are the same in metres, and a number without a unit is taken to be in it. The number may be written
    with a power of ten ("3e3", "3 x 10^3"). Where `unit` is a currency's code, `read_amount` reads the text. `decimal`
    is what stands before the decimals: without it a point, and in amounts what they can only mean. Time is bounded:
    longer than `LONGEST_NUMBER` is not read.
    """
    if unit in CURRENCIES:
        return read_amount(text, unit, decimal)
    if len(text) > LONGEST_NUMBER:
        return None
    text = tidy(text)
    if decimal == "comma":
        text = _SEPARATOR.sub(lambda sign: "," if sign[0] == "." else ".", text)
    if (power := _POWER.fullmatch(text)) and (unit is None or not power["after"].strip()):
        return _power(power) if is_unit(power["after"]) else None
    if unit is None:
        return parse_number(text)
    if (plain := _number(text)) is not None:
        return plain
    match = _QUANTITY.fullmatch(text)
    if match is None or (value := _number(match["number"])) is None:
        return None
    return _converted(value, match["unit"].strip(), unit)


def _converted(number: Fraction, given: str, wanted: str) -> Fraction | float | None:
    target = _unit(wanted)
    for name in _readings(given):
        source = _unit(name)
        if source is None or target is None:
            continue
        if source == target:
            return number
        if _ANGULAR.search(f"{source} {target}"):  # pint takes a hertz for a radian in a second
            source, target = (_unit(str(each).replace("hertz", "turn/second")) for each in (source, target))
        try:
            value = float(_registry().Quantity(float(number), source).to(target).magnitude)
        except Exception:  # pint's errors of dimension and of offset units have no class in common
            continue
        return value if math.isfinite(value) else None
    return None


def _readings(unit: str) -> Iterator[str]:
    """Yield what a unit may stand for, as pint names it: itself first, then as people write it."""
    yield unit
    lower = " ".join(unit.lower().split())
    yield lower  # Km is km
    if lower in _SPELLINGS:
        yield _SPELLINGS[lower]
    if area := re.fullmatch(r"(?:(?P<kind>sq|square|cu|cubic)\.? ?)(?P<unit>[a-zµμ]+)", lower):
        yield f"{area['unit']}^{2 if area['kind'].startswith('sq') else 3}"
    if power := re.fullmatch(r"([a-zA-Zµμ]+)([23])", unit):
        yield f"{power[1]}^{power[2]}"


def _number(text: str) -> Fraction | None:
    """Return a number without any unit, as a decimal, a fraction, or with a power of ten; else `None`."""
    if (power := _POWER.fullmatch(text.strip())) and not power["after"]:
        return _power(power)
    return None if re.search(r"[^\W\d_½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]|[%°$€£¥¢]", text) else parse_number(text)


def _power(match: re.Match[str]) -> Fraction:
    return Fraction(match["number"]) * Fraction(10) ** int((match["e"] or match["ten"]).translate(_MINUS))


@lru_cache(maxsize=256)
def _unit(unit: str) -> Any:
    """Return pint's unit for a text, or `None`. Only the form of a unit is passed on: pint would compute 9**9**9."""
    if not _UNIT.fullmatch(unit):
        return None
    for sign, written in _SIGNS.items():
        unit = unit.replace(sign, written)
    try:
        return _registry().parse_units(unit)
    except Exception:  # an unknown unit, or one that pint cannot parse: its errors have no class in common
        return None


@cache
def _registry() -> Any:
    import pint  # takes more than a second, which only a unit needs

    return pint.UnitRegistry(cache_folder=None)
