"""A file as a user writes it, with the mistakes that users make; tests count on its lines."""

import json

import rlft
from rlft.errors import TaskError


def of_info(task):
    return task.info["text"]


def of_the_prompt(task):
    return task.prompt.split()


def of_a_library(task):
    return json.loads(task.text)


def of_a_tool_that_says_why(task):
    raise TaskError("no text", where="here", fix="write one")


def of_an_escape(task):
    raise ValueError("\x1b[31mred")


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


def of_a_completion(completion):
    return completion.strip()


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
