import pytest
import sympy

from rlft.rewards.graders.symbolic import has_power_of_matrix, terms

x, y, z, n = sympy.symbols("x y z n")
NUMBERS, LETTERS = sympy.Matrix([[1, 2], [3, 4]]), sympy.Matrix([[x, y], [y, 1]])


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        (x, 1),
        (x + y + 1, 3),
        ((x + y + z) ** 99, 5050),  # C(101, 99)
        ((x + 1) ** -30, 31),
        ((x + 1) ** 3 * (y + 1) ** 4, 20),  # 4 times 5
        (1 / (x + 1) + 1 / (y + 1), 4),  # (y+1 + x+1) over (x+1)(y+1)
        ((x + 1) ** (n + 30), 31),
        (sympy.sqrt((x + 1) ** 9 + y), 11),  # 10 + 1
        (sympy.sin((x + 1) ** 9), 10),
        (sympy.FiniteSet((x + 1) ** 9, 1), 10),
        (sympy.Eq((x + 1) ** 9, y), 10),
        (sympy.Matrix([[(x + 1) ** 9, y]]), 10),
    ],
)
def test_terms_once_multiplied_out(expression, most):
    assert terms(expression) == most


def test_a_power_of_a_power_ends_the_count_without_computing_it():
    assert terms(((x + y + z + n) ** 999 + 1) ** 999) >= 10**9


def power(base, exponent):
    return sympy.Pow(base, exponent, evaluate=False)


def test_a_power_or_a_function_of_a_matrix_is_found_wherever_it_stands():
    assert not any(map(has_power_of_matrix, [x**999, LETTERS, sympy.Matrix([[x**n]]), sympy.MatMul(2, NUMBERS)]))
    powers = [power(NUMBERS, 2), power(NUMBERS, n), power(power(NUMBERS, 2), n), power(2, NUMBERS)]
    powers.append(sympy.sin(NUMBERS, evaluate=False))
    assert all(map(has_power_of_matrix, [*powers, sympy.Add(1, power(NUMBERS, n), evaluate=False)]))
