"""A file as a user writes it, with the mistakes that users make; tests count on its lines."""

import json

import rlft
from rlft.errors import TaskError


def of_info(task):
    return task.info["text"]


def of_info_by_another_name(task):
    row = task.info
    return row["text"]


def of_info_in_a_text(task):
    return f"{task.info['text']}"


def of_info_by_a_template(task):
    return "{text}".format_map(task.info)


def of_the_prompt(task):
    return task.prompt.split()


def of_the_prompt_by_key(task):
    return task.prompt["content"]


def of_the_prompt_and_a_text(task):
    return task.prompt + "?"


def of_a_message(task):
    return task.prompt[0].content


def of_a_task(task):
    return task.question


def of_a_task_by_key(task):
    return task["question"]


def of_an_answer(task):
    return task.answer["value"]


def of_an_inner_answer(task):
    return task.answer["city"]["country"]


def of_a_library(task):
    return json.loads(task.text)


def of_a_tool_that_says_why(task):
    raise TaskError("no text", where="here", fix="write one")


def of_a_group(task):
    raise ExceptionGroup("one of them failed", [ValueError("the server is down")])


def of_a_long_text(task):
    raise ValueError("x" * 10_000)


def of_an_escape(task):
    raise ValueError("\x1b[31mred")


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


def of_an_unreadable_error(task):
    raise Unreadable


def of_a_completion(completion):
    return completion.strip()


def of_a_completion_as_a_number(completion):
    return int(completion)


def of_a_completion_by_key(completion):
    return completion["content"]


class Asks(rlft.BaseEnv):
    """Every method is one of the functions above if the test says so."""

    def __init__(self, **methods):
        self.asked = methods

    def ask(self, name, given, otherwise):
        return self.asked[name](given) if name in self.asked else otherwise

    def context(self, task):
        return self.ask("context", task, "")

    def setup(self, task):
        return self.ask("setup", task, None)

    def list_tools(self):
        return self.ask("list_tools", None, [])

    def run_tool(self, rollout_id, tool_name, **args):
        return ARTICLES[args["country"]]

    def respond(self, rollout_id, completion):
        return self.ask("respond", completion, None)

    def compute_reward(self, completion, ground_truth):
        return self.ask("compute_reward", completion, float(completion.text == ground_truth))

    def gold_completion(self, task):
        return self.ask("gold_completion", task, task.answer)

    def demonstration(self, task):
        return self.ask("demonstration", task, task.answer)


ARTICLES = {"France": "Paris is its capital.", "Peru": "Its capital is Lima."}
