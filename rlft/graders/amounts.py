"""Reads one amount of money in a currency, from the notations that invoices and people use."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from rlft.graders.numbers import LONGEST_NUMBER, tidy

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
