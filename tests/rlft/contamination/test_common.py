from dataclasses import replace

import pytest

from rlft.contamination.common import common_runs, most_groups, pieces
from rlft.contamination.texts import text_of_task
from tests.factories import make_task

TEMPLATE = "Solve the following problem and give the answer at the end"  # eleven words
NAMES = [f"name{n} has {n} pets of kind{n}" for n in range(40)]  # six words, of which two are the same in all


@pytest.mark.parametrize(
    ("groups", "most"),
    [
        (1, 2),  # min(10, max(2, 0.5)): nothing is common to one or two
        (3, 2),  # all three
        (8, 4),  # more than half
        (20, 10),  # half and ten are the same
        (500, 10),  # more than ten
        (5000, 50),  # more than 1 %
    ],
)
def test_in_how_many_groups_a_run_may_be(groups, most):
    assert most_groups(groups) == most


def texts(prompts, groups=None):
    return [
        text_of_task(make_task(f"t{n}", prompt, group=groups[n] if groups else f"g{n}"))
        for n, prompt in enumerate(prompts)
    ]


def test_a_template_is_taken_out_and_what_it_surrounds_is_left():
    asked = texts([f"{TEMPLATE}: {name}. {TEMPLATE}" for name in NAMES[:20]])
    common = common_runs(asked, [])
    assert len(common) == 5  # runs of 7 of 11 words; those that reach into the question are in one prompt each
    assert pieces(asked[3], common) == [["name3", "has", "3", "pets", "of", "kind3"]]
    assert pieces(text_of_task(make_task("x", f"before {TEMPLATE} after")), common) == [["before"], ["after"]]


def test_a_run_is_common_beyond_ten_groups_here_or_there():
    rest = [f"{name} and {n} of colour{n}" for n, name in enumerate(NAMES)]  # fewer than seven equal words in a row
    ten = texts([f"{TEMPLATE}: {name}" for name in NAMES[:10]] + rest[10:])
    assert common_runs(ten, []) == set()
    assert common_runs(texts([f"{TEMPLATE}: {name}" for name in NAMES[:11]] + rest[11:]), []) != set()
    # In ten of forty evaluation tasks, but in twenty of the train tasks.
    assert len(common_runs(ten, [texts([f"{TEMPLATE}: {name}" for name in NAMES[:20]])])) == 5


def test_tasks_of_one_group_count_once():
    # Forty questions about two documents: what a document says is no template.
    asked = texts([f"{TEMPLATE}: {name}" for name in NAMES], ["one", "two"] * 20)
    assert common_runs(asked, []) == set()


def test_without_common_runs_each_message_is_a_piece_but_for_the_system_prompt():
    prompt = (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "A b."},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "C"},
    )
    text = text_of_task(replace(make_task(), prompt=prompt))
    assert pieces(text, set()) == [["a", "b"], ["c"]]
    alone = text_of_task(replace(make_task(), prompt=prompt[:1]))
    assert pieces(alone, set()) == [["be", "kind"]]
