"""The page of a run: what stands in it, and that nothing which a model wrote can run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from rlft.reporting.page import Attempt, ReportFacts, make_page
from rlft.reporting.template import LONGEST
from rlft.texts.blocks import Bullets, Caution, Headline, Table
from rlft.types import EvaluationReport, Interval, TrainReport

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>$\\frac{$\x1b[2J"


class Elements(HTMLParser):
    """Collects tags, attributes, and the text that is shown."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += f"{data} "


def train_report(number, **metrics):
    return TrainReport(number, {"reward": 0.1 * number, **metrics}, {"a": "trained"}, 1, 1.0, None)


def validation(mean):
    return EvaluationReport("validation", "p", 1, {"accuracy": Interval(mean, mean - 0.1, mean + 0.1, 10)}, {})


def facts(**more) -> ReportFacts:
    return ReportFacts("a run", [Headline("It is better."), "By a lot."], "accuracy", **more)


def test_the_verdict_comes_first_as_it_was_written():
    blocks = [
        Caution("Look at it first."),
        Headline("It is better."),
        "50 % & more",
        Table("accuracy", ("", "test"), (("base", "0.1"),)),
        Bullets("Registry", ("one", "two")),
    ]
    page = make_page(
        ReportFacts(
            "a run", blocks, "accuracy", lineage=[("run", "1")], commands=["rlft run c.yaml"], config="seed: 0\n"
        )
    )
    seen = Elements(page)
    text = " ".join(seen.text.split())
    assert "What came of it Look at it first. It is better. 50 % & more accuracy test base 0.1 Registry one two" in text
    assert text.endswith("rlft run c.yaml Settings seed: 0")
    assert 'id="curves"' not in page  # nothing was trained


def test_curves_are_drawn_where_there_are_values_and_the_best_validation_is_marked():
    parts = {"rewards/right/mean": 0.5, "rewards/short/mean": 0.1}
    rounds = [train_report(number, **parts) for number in range(3)]
    page = make_page(facts(rounds=rounds, validations={0: validation(0.2), 3: validation(0.6)}, best_round=3))
    titles = re.findall(r"<figure role=\"img\" aria-label=\"(.*?)\">", page)
    assert titles == ["Validation", "Reward", "Parts of the reward"]
    assert page.count("<svg") == 3
    assert ">chosen</text>" in page
    assert ">right</text>" in page
    assert page == make_page(facts(rounds=rounds, validations={0: validation(0.2), 3: validation(0.6)}, best_round=3))


def test_nothing_that_a_model_or_a_task_says_can_run():
    attempt = Attempt(HOSTILE, HOSTILE, HOSTILE, 1.0, {HOSTILE: 0.5, "none": None}, HOSTILE, HOSTILE)
    parts = {f"rewards/{HOSTILE.replace('/', '')}/mean": 0.5, "rewards/b/mean": 0.5}
    page = make_page(
        ReportFacts(
            HOSTILE,
            [
                Caution(HOSTILE),
                Headline(HOSTILE),
                HOSTILE,
                Table(HOSTILE, (HOSTILE,), ((HOSTILE,),)),
                Bullets(HOSTILE, (HOSTILE,)),
            ],
            "accuracy",
            rounds=[train_report(0, **parts), train_report(1, **parts)],
            ledger={HOSTILE: 1},
            seconds={HOSTILE: 2.0},
            best=[attempt],
            worst=[attempt],
            audit=[HOSTILE],
            lineage=[(HOSTILE, HOSTILE)],
            config=HOSTILE,
            commands=[HOSTILE],
            about=[HOSTILE],
        )
    )
    seen = Elements(page)
    assert not seen.tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert "default-src 'none'" in page
    assert "\x1b" not in page
    assert seen.text.count("<script>alert(1)</script>") > 15
    assert not re.search(r"(?:src|href)=\"(?!#)", re.sub(r"xlink:href=\"#", 'href="#', page))


@pytest.mark.parametrize(("length", "said"), [(LONGEST, ""), (LONGEST + 1234, " ... (1,234 more characters)")])
def test_long_texts_are_cut_and_say_so(length, said):
    page = make_page(facts(best=[Attempt("t", "asked", "y" * length, 1.0, {}, "length")]))
    assert f"<pre>{'y' * LONGEST}{said}</pre>" in page


def test_a_stranger_is_told_what_the_run_is_of_and_what_is_what():
    attempt = Attempt("t", "1+1=", "3", 0.0, {}, "stop", right="2")
    lost = {"accuracy": 0.5, "frac_reward_zero_std": 0.5, "completions/clipped_ratio": 0.1}
    page = make_page(facts(about=["It adds <numbers>."], worst=[attempt], rounds=[train_report(0, **lost)]))
    text = " ".join(Elements(page).text.split())
    assert text.index("It adds <numbers>. Accuracy is the share of attempts that solve") < text.index("It is better.")
    assert "Prompt (its last message) 1+1= What the model answered 3 The right answer 2" in text
    for words in ("share that is solved", "groups whose attempts all earn the same", "completions that were cut off"):
        assert f">{words}</text>" in page
    assert "frac_reward_zero_std" not in page
    without = make_page(facts(worst=[Attempt("t", "a", "b", 0.0, {}, "stop")]))
    assert "The right answer" not in without


@pytest.mark.parametrize(
    ("code", "said"), [("rlft 1a2b, torch 2", "code (rlft 1a2b, torch 2), tasks"), ("", "code, tasks")]
)
def test_the_code_that_does_it_again_is_named(code, said):
    assert f"With the same {said} and machine" in make_page(facts(code=code))
