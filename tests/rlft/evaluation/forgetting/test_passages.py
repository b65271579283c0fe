from rlft.evaluation.forgetting import fingerprint_texts, shipped_texts


def test_there_are_eight_paragraphs_in_each_style():
    texts = shipped_texts()
    assert sorted(texts) == ["arithmetic", "code", "dialogue", "english", "german", "spanish"]
    paragraphs = [paragraph for text in texts.values() for paragraph in text]
    assert [len(text) for text in texts.values()] == [8] * 6
    assert len(set(paragraphs)) == 48
    assert all(100 < len(paragraph.encode()) < 400 for paragraph in paragraphs)
    assert all(paragraph == paragraph.strip() for paragraph in paragraphs)


def test_what_the_arithmetic_says_is_right():
    # Every `a = b` whose left side is a sum of numbers.
    sides = [line.rsplit(" = ", 1) for line in shipped_texts()["arithmetic"][1].splitlines()]
    assert [eval(left) for left, _ in sides] == [float(right) for _, right in sides]


def test_the_fingerprint_is_that_of_all_paragraphs():
    assert fingerprint_texts({"a": ("b", "c")}) == fingerprint_texts({"a": ("b", "c")})
    assert len({fingerprint_texts(each) for each in ({"a": ("b", "c")}, {"a": ("bc",)}, {"d": ("b", "c")})}) == 3
