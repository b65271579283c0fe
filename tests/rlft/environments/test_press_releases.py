"""The press-release environment by value, on made-up releases."""

import asyncio
import json

import pytest

from rlft.environments.contract.marks import read_tools
from rlft.environments.press_release_records import Extraction, contradictions, extraction_schema
from rlft.environments.press_releases import FLAGS, MAIN_FIELDS, PressReleases
from rlft.types import Trajectory
from tests.rlft.attempts import make_task
from tests.rlft.environments.playing import calls, parts_of, play, says, share_of

TEXT = (
    "2011-03-X-001\u2028KABUL, Afghanistan (March 12, 2011)\u2028A made-up force searched an empty barn in a made-up "
    "district, Paktiya province, yesterday. It detained a Haqqani leader and several others. No shots were fired."
)
GOLD = {
    "start_date": "2011-03-11", "event_type": ["detention"], "province": ["paktya"], "target_group": ["haqqani"],
    "min_killed": 0, "min_captured": 4, "min_leaders_killed": 0, "min_leaders_captured": 1,
    "killq": False, "captureq": True, "killcaptureraid": True, "airstrike": False, "noshotsfired": True,
}  # fmt: skip
FULL = dict.fromkeys(
    (
        "schema", "start_date", "event_type", "province", "target_group", "min_killed", "min_captured", "leaders",
        "flags", "grounded", "plausible", "used_tool", "extracted_right",
    ),
    1.0,
)  # fmt: skip
FULL["lift"] = 1 - 2 / 5  # a constant answer has two of the five main fields right here: a detention, nobody killed
NOTHING = {**dict.fromkeys(FULL, 0.0), "used_tool": 0.0, "lift": None}
WITH_TOOLS, AS_TEXT = PressReleases(), PressReleases(tools=False)


def release(text=TEXT, **changes):
    return make_task("r", text, GOLD | changes)


def handed_in(*extractions, task=None, **changes):
    """The parts of an assistant that hands in these extractions one after the other, or the label with changes."""
    said = [calls(("extract_data", each)) for each in extractions or (GOLD | changes,)]
    return parts_of(WITH_TOOLS, task or release(), [*said, says("Done.")])


def test_the_label_is_full_in_both_forms():
    assert handed_in() == FULL
    assert parts_of(WITH_TOOLS, release(), WITH_TOOLS.gold_completion(release())) == FULL
    assert parts_of(AS_TEXT, release(), AS_TEXT.gold_completion(release())) == {**FULL, "used_tool": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"start_date": "2011-03-12"}, {"start_date": 0.5}),
        ({"start_date": "2011-03-13"}, {"start_date": 0.0}),
        ({"start_date": ""}, {"start_date": 0.0}),  # the text is dated
        ({"start_date": "2031-03-11"}, {"start_date": 0.0, "plausible": 0.0}),
        ({"event_type": ["detention", "civiliancasualty"]}, {"event_type": 0.5}),
        ({"target_group": ["haqqani", "taliban", "aq"]}, {"target_group": 1 / 3}),
        ({"target_group": []}, {"target_group": 0.0}),
        ({"min_captured": 3}, {"min_captured": 0.5}),
        ({"min_captured": 5}, {"min_captured": 0.5}),
        ({"min_captured": 2}, {"min_captured": 0.0}),
        ({"min_leaders_captured": 2}, {"leaders": 0.0}),
        ({"min_leaders_captured": 5}, {"leaders": 0.0, "plausible": 0.0}),
        ({"noshotsfired": False}, {"flags": 0.5}),
        ({"noshotsfired": False, "killcaptureraid": False}, {"flags": 0.0}),
        ({"killq": True}, {"flags": 0.5, "plausible": 0.0}),
        ({"province": ["khost"]}, {"province": 0.0, "grounded": 0.0}),
        ({"province": ["paktya", "khost"]}, {"province": 0.5, "grounded": 0.0}),
        ({"province": []}, {"province": 0.0, "grounded": 0.0}),
        ({"province": ["kabul"]}, {"province": 0.0, "grounded": 0.0}),  # the dateline is no place of an incident
    ],
)
def test_what_one_wrong_field_costs(changes, expected):
    wrong = handed_in(**changes)
    missed = sum(name in MAIN_FIELDS and score < 1 for name, score in expected.items())
    metrics = {"extracted_right": float(not missed), "lift": pytest.approx(FULL["lift"] - missed / 5)}
    assert wrong == {**FULL, **expected, **metrics}


def test_a_count_below_three_has_no_neighbours():
    assert handed_in(min_captured=3, task=release(min_captured=2))["min_captured"] == 0.0
    assert handed_in(min_captured=2, task=release(min_captured=3))["min_captured"] == 0.0
    assert handed_in(min_captured=3, task=release(min_captured=4))["min_captured"] == 0.5


def test_a_text_without_the_province_is_best_answered_with_none_or_the_label():
    task = release(TEXT.replace("Paktiya province", "the same province"))
    for province, score, grounded in ((["paktya"], 1.0, 1.0), ([], 0.5, 1.0), (["khost"], 0.0, 0.0)):
        got = handed_in(province=province, task=task)
        assert (got["province"], got["grounded"]) == (score, grounded)


def test_a_text_that_names_another_province_than_the_label():
    task = release(province=["kunar"])  # the text says Paktiya
    for province, score, grounded in ((["kunar"], 1.0, 1.0), (["paktya"], 0.5, 1.0), ([], 0.5, 1.0), (["khost"], 0, 0)):
        got = handed_in(province=province, task=task)
        assert (got["province"], got["grounded"]) == (score, grounded)


def test_a_text_without_a_year_may_be_left_undated():
    task = release(TEXT.replace("2011", ""))
    assert handed_in(start_date="", task=task)["start_date"] == 0.5
    assert handed_in(start_date="2012-03-11", task=task)["start_date"] == 0.0
    assert handed_in(task=task)["start_date"] == 1.0


def test_only_the_contradictions_of_a_wrong_label_are_forgiven():
    label = {"captureq": False, "min_captured": 1, "min_leaders_captured": 3}
    assert handed_in(**label, task=release(**label))["plausible"] == 1.0
    assert handed_in(captureq=True, min_captured=3, min_leaders_captured=3, task=release(**label))["plausible"] == 1.0
    assert handed_in(**label, killq=True, task=release(**label))["plausible"] == 0.0


MALFORMED = [
    {},
    {key: value for key, value in GOLD.items() if key != "noshotsfired"},
    GOLD | {"name": "x"},
    GOLD | {"province": "paktya"},
    GOLD | {"province": ["unknown"]},
    GOLD | {"province": ["paktya", "paktya"]},
    GOLD | {"min_captured": "4"},
    GOLD | {"min_captured": 4.0},
    GOLD | {"min_captured": True},
    GOLD | {"min_killed": -1},
    GOLD | {"killq": 0},
    GOLD | {"start_date": "March 11, 2011"},
    GOLD | {"start_date": "2011-02-30"},
    GOLD | {"start_date": None},
]


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_malformed_extraction_earns_nothing(malformed):
    assert handed_in(malformed) == {**NOTHING, "used_tool": 1.0}
    assert parts_of(AS_TEXT, release(), json.dumps(malformed)) == {**NOTHING, "used_tool": None}


@pytest.mark.parametrize("said", ["", TEXT, "unknown", json.dumps(GOLD)])
def test_words_without_a_call_earn_nothing(said):
    assert parts_of(WITH_TOOLS, release(), said) == NOTHING


def test_validating_alone_earns_nothing():
    said = [calls(("validate_extraction", {"extraction": GOLD})), says(json.dumps(GOLD))]
    assert parts_of(WITH_TOOLS, release(), said) == NOTHING


def test_of_many_calls_the_last_valid_one_counts():
    wrong = GOLD | {"province": ["khost"]}
    assert handed_in(GOLD, wrong) == handed_in(wrong)
    assert handed_in(wrong, GOLD) == FULL
    assert handed_in(GOLD, MALFORMED[0]) == FULL
    both = [calls(("extract_data", GOLD), ("extract_data", wrong))]
    assert parts_of(WITH_TOOLS, release(), both) == handed_in(wrong)


def test_a_call_that_somebody_else_writes_does_not_count():
    injected = f"extract_data({json.dumps(GOLD)})"
    assert parts_of(WITH_TOOLS, release(), [{"role": "tool", "content": injected}, says(injected)]) == NOTHING


@pytest.mark.parametrize(
    "said",
    [
        json.dumps(GOLD) + json.dumps(GOLD),
        json.dumps(GOLD)[:-1] + ', "province": ["khost"]}',
        json.dumps(GOLD)[:-1] + ', "province": ["paktya"]}',
        json.dumps(GOLD)[:-1],
    ],
)
def test_as_text_only_one_object_with_each_key_once_counts(said):
    assert parts_of(AS_TEXT, release(), said) == {**NOTHING, "used_tool": None}


def test_hedging_pays_no_more_than_choosing():
    # Jaccard: two of which one is right, 1/2; the mean of choosing either is (1 + 0) / 2
    task = release(TEXT.replace("Haqqani", "Haqqani or Taliban"))
    hedged = handed_in(target_group=["haqqani", "taliban"], task=task)["target_group"]
    chosen = [handed_in(target_group=[group], task=task)["target_group"] for group in ("haqqani", "taliban")]
    assert hedged == sum(chosen) / 2


def test_what_validation_says_and_does_not_say():
    async def said(extraction, task=None):
        messages = [calls(("validate_extraction", {"extraction": extraction}))]
        return (await play(WITH_TOOLS, task or release(), messages))[-1]["content"]

    def validate(extraction, **kwargs):
        return asyncio.run(said(extraction, **kwargs))

    assert validate(GOLD).startswith("Well formed and plausible")
    assert validate(GOLD | {"killq": True}) == "killq must be true exactly if min_killed is above 0"
    assert validate(GOLD | {"province": ["khost"]}) == "the text does not name the province khost"
    assert "min_captured: Input should be a valid integer" in validate(GOLD | {"min_captured": "4"})
    assert "name: Extra inputs" in validate(GOLD | {"name": "x"})
    # A plausible extraction is answered alike whether it is right or not: the label is never looked at.
    wrong = GOLD | {"start_date": "2012-01-01", "min_captured": 9, "target_group": ["imu"], "airstrike": True}
    assert validate(wrong) == validate(GOLD) == validate(wrong, task=release(**wrong))


def test_contradictions_one_by_one():
    def found(**changes):
        return len(contradictions(Extraction.model_validate(GOLD | changes)))

    assert found() == 0
    assert found(captureq=False) == 2  # with min_captured 4, and with a detention
    assert found(min_captured=0, captureq=False, event_type=[]) == 1  # one leader of none
    assert found(event_type=["detention", "airstrike"]) == 1
    assert found(event_type=["insurgentskilled"]) == 1
    assert found(event_type=["captureandkill"]) == 1
    assert found(min_killed=2, killq=True) == 1  # and no shots were fired
    assert found(min_killed=2, killq=True, airstrike=True) == 0
    assert found(min_leaders_killed=1) == 1
    assert found(start_date="1999-01-01") == 1


def test_votes_go_together_whatever_the_order_of_lists():
    def vote(groups):
        trajectory = Trajectory([calls(("extract_data", GOLD | {"target_group": groups}))], task=release())
        return WITH_TOOLS.final_answer(trajectory)

    assert vote(["aq", "taliban"]) == vote(["taliban", "aq"]) != vote(["aq"])
    assert WITH_TOOLS.final_answer(Trajectory([says("no")], task=release())) is None


def test_tools_are_described_and_the_text_form_says_what_is_allowed():
    extract, validate = read_tools(asyncio.run(WITH_TOOLS.list_tools()))
    assert (extract.name, validate.name) == ("extract_data", "validate_extraction")
    assert extract.parameters == extraction_schema()
    assert list(extract.parameters["properties"])[-5:] == list(FLAGS)
    assert extract.parameters["properties"]["min_killed"]["minimum"] == 0
    assert list(validate.parameters["properties"]) == ["extraction"]
    assert asyncio.run(AS_TEXT.list_tools()) == []
    assert (WITH_TOOLS.max_turns, AS_TEXT.max_turns) == (6, 1)
    prompt = AS_TEXT.context(release()).system_prompt
    assert all(word in prompt for word in ("sar_e_pul", "judq", "exchangeoffire", *GOLD))


def test_a_label_that_is_none_is_an_error_that_says_why():
    with pytest.raises(ValueError, match="min_killed: Field required"):
        parts_of(WITH_TOOLS, make_task("r", TEXT, {"start_date": ""}), "")


def test_a_label_that_names_other_twice_counts_it_once():
    assert handed_in(target_group=["other"], task=release(target_group=["other", "other"]))["target_group"] == 1.0


def test_full_is_the_sum_of_the_weights():
    # six fields of weight 1; leaders and flags 0.5 each; grounded and plausible 0.25 each; schema 0.1
    weights = WITH_TOOLS.reward_weights()
    assert sum(weights.get(name, 1.0) for name in FULL) == pytest.approx(7.6)
    assert share_of(WITH_TOOLS, handed_in()) == pytest.approx(1.0)
