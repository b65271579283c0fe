from rlft.estimation.span import Span, exactly, span_of, total


def test_ranges_add_and_multiply_end_by_end():
    assert Span(1, 2) + Span(10, 30) == Span(11, 32)
    assert Span(1, 2).times(Span(3, 4)) == Span(3, 8)
    assert Span(1, 2).times(5) == Span(5, 10)
    assert Span(2, 4).widened(0.5, 2) == Span(1, 8)
    assert total([Span(1, 2), exactly(1), Span()]) == Span(2, 3)


def test_a_range_that_is_cut_off():
    assert Span(1, 9).at_most(5) == Span(1, 5)
    assert Span(6, 9).at_most(5) == Span(5, 5)


def test_the_range_of_values():
    assert span_of([3.0, 1.0, 2.0]) == Span(1, 3)
    assert span_of([]) is None
