"""Small sets of tasks with golds."""

from __future__ import annotations

from rlft.types import Task
from tests.rlft.attempts import make_task

CITIES = {
    "Peru": "Lima", "Chad": "N'Djamena", "Kenya": "Nairobi", "France": "Paris", "Japan": "Tokyo", "Egypt": "Cairo",
    "Cuba": "Havana", "Spain": "Madrid", "Ghana": "Accra", "Nepal": "Kathmandu", "Norway": "Oslo", "Laos": "Vientiane",
}  # fmt: skip
_PEOPLE = [
    ("Ann", 31, "Oslo"), ("Ben", 45, "Lima"), ("Cleo", 22, "Paris"), ("Dan", 67, "Cairo"), ("Eva", 38, "Accra"),
    ("Finn", 19, "Tokyo"), ("Gita", 54, "Madrid"), ("Hugo", 41, "Havana"), ("Iris", 29, "Nairobi"),
]  # fmt: skip
_BODIES = {
    "double": "2 * x", "square": "x * x", "negate": "-x", "plus_one": "x + 1", "cube": "x ** 3", "half": "x / 2",
    "is_even": "x % 2 == 0", "last_digit": "abs(x) % 10",
}  # fmt: skip
_PRIMES = [
    (5, 10, 7), (10, 15, 11), (12, 20, 17), (20, 25, 23), (24, 30, 29), (30, 36, 31), (36, 40, 37), (40, 44, 41),
    (50, 56, 53), (60, 66, 61),
]  # fmt: skip
_BOOKS = [
    ("Emma", "Jane Austen", 1815), ("Faust", "Goethe", 1808), ("Ulysses", "James Joyce", 1922),
    ("Dubliners", "James Joyce", 1914), ("Hamlet", "Shakespeare", 1603), ("Walden", "Thoreau", 1854),
    ("Dracula", "Bram Stoker", 1897), ("Kim", "Kipling", 1901),
]  # fmt: skip
_COLOURS = ("red", "green", "blue", "white", "black", "pink")


def _tasks(kind: str, rows: list[tuple[str, object]]) -> tuple[Task, ...]:
    return tuple(make_task(f"{kind}{number}", prompt, answer) for number, (prompt, answer) in enumerate(rows))


CAPITALS = _tasks("c", [(f"What is the capital of {land}?", city) for land, city in CITIES.items()])
SUMS = _tasks("s", [(f"Ann has {7 * n} apples and buys {n + 3}. How many?", str(8 * n + 3)) for n in range(1, 13)])
RECORDS = _tasks(
    "r",
    [
        (f"{name}, {age} years old, lives in {city}. Give a record.", {"name": name, "age": age, "city": city})
        for name, age, city in _PEOPLE
    ],
)
PROGRAMS = _tasks(
    "p",
    [
        (f"Write a Python function {name}(x).", f"def {name}(x):\n    y = {body}\n    return y\n")
        for name, body in _BODIES.items()
    ],
)
YES_NO = _tasks("y", [(f"Is {n} a multiple of 3? Yes or no.", "yes" if n % 3 == 0 else "no") for n in range(1, 16)])
PRIMES = _tasks("q", [(f"Name a prime number between {low} and {high}.", gold) for low, high, gold in _PRIMES])
LENGTHS = _tasks("m", [(f"A rod of {n} m is cut in 7. How long is a piece in cm?", 100 * n / 7) for n in range(3, 15)])
COLOURS = _tasks(
    "f",
    [(f"Which colours follow number {n} in the list?", [_COLOURS[(n + k) % 6] for k in range(3)]) for n in range(6)],
)
LARGER = _tasks(
    "w",
    [(f"Which is larger, {3 * n + 1} or {50 - 2 * n}?", str(max(3 * n + 1, 50 - 2 * n))) for n in range(1, 13)],
)
SENTENCES = _tasks(
    "z", [(f"Who wrote {title}?", f"{title} was written by {author} in {year}") for title, author, year in _BOOKS]
)
