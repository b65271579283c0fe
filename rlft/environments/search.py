"""Questions whose answers stand in documents that have to be found, read and cited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rlft.environments.contract.base import BaseEnv, Context
from rlft.environments.contract.loading import load_function
from rlft.environments.contract.marks import ToolSpec, metric, reward, tool
from rlft.environments.search_index import MODES, CorpusIndex, SearchClient, shorten
from rlft.environments.workers.threads import in_thread
from rlft.messages import make_call
from rlft.rewards.graders.lists import declared_answer, exact_match, normalise_answer, token_f1
from rlft.types import Message, Task, ToolCall, Trajectory

AnswerScore = Literal["f1", "exact"]

_SYSTEM_PROMPT = """\
Answer the question from the documents: find them with search, then read them. A question may need several documents, \
found one after the other. Only what you have read counts as a source. End with exactly these two lines:
Answer: the answer alone, as short as possible
Sources: the ids of the documents it rests on, separated by commas"""


class Search(BaseEnv):
    """Asks a question whose answer stands in documents, which the model finds, reads and cites.

    Parts: `answer` (weight 1), `sources` (0.5), `cost` (-0.05). Metrics: the other marked methods. A task's answer is
    text or a list of texts that are all right; `info["gold_doc_ids"]` lists the documents that the answer takes, and
    `info["near_duplicates_of_gold"]` maps ids of these to lists of ids that count as the same document.
    """

    max_turns = 10

    def __init__(
        self,
        documents: str | None = None,
        client: str | None = None,
        client_kwargs: Mapping[str, Any] | None = None,
        modes: Sequence[str] = ("auto",),
        max_results: int = 10,
        max_document_characters: int = 4000,
        read_found_only: bool = True,
        answer_score: AnswerScore = "f1",
        cost_calls: int = 10,
    ) -> None:
        """Set up the search over `documents`, a JSON Lines file, or by `client`, the import path of a `SearchClient`.

        Exactly one of the two is given. `client_kwargs` are the client's arguments, or those of
        `CorpusIndex` where `documents` are given. The model may choose among `modes`, of which the
        first is the default; with one alone it is not offered the choice. `max_results` bounds the hits of a search,
        `max_document_characters` the text that `read` shows. With `read_found_only` a document can only be read after
        a search has found it, so that guessing ids does not replace searching. `answer_score` says how `answer` is
        scored. `cost_calls` is the number of needless calls at which `cost` is 1. Raises ValueError for
        arguments that do not work.
        """
        if (documents is None) == (client is None):
            raise ValueError("give documents or a client, one of them")
        if documents is not None:
            self.client: Any = CorpusIndex(documents, **(client_kwargs or {}))
            known = self.client.modes
        else:
            self.client = load_function(str(client), "environment.kwargs.client").call(**(client_kwargs or {}))
            known = MODES
        if not modes or not set(modes) <= set(known):
            raise ValueError(f"modes={list(modes)}: use some of {', '.join(known)}, or give an embedding")
        self.modes = tuple(modes)
        self.max_results = max_results
        self.max_document_characters = max_document_characters
        self.read_found_only = read_found_only
        self.answer_score = {"f1": token_f1, "exact": exact_match}[answer_score]
        if cost_calls < 1:
            raise ValueError(f"cost_calls is {cost_calls}; use 1 or more")
        self.cost_calls = cost_calls

    def context(self, task: Task) -> Context:
        """Return the system prompt, which tells the task and the form of the answer."""
        del task
        return Context(system_prompt=_SYSTEM_PROMPT)

    async def setup(self, task: Task) -> dict[str, Any]:
        """Return the state in which tools record the ids found and read and the numbers of calls; at first empty."""
        del task
        if isinstance(self.client, CorpusIndex):
            await in_thread(self.client.prepare)  # takes a second or more, and no search should wait for it
        return {"found": [], "read": [], "searches": 0, "reads": 0}

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return `search` and `read`, with this environment's limits and modes in the schema of `search`."""
        return [self._fitted(spec) if spec.name == "search" else spec for spec in await super().list_tools()]

    @tool
    async def search(self, query: str, limit: int = 5, mode: str = "", *, state: dict[str, Any]) -> str:
        """Find documents. Gives the id, the title and a passage of each, best first.

        Args:
            query: What to look for: key words or a question.
            limit: How many documents at most.
            mode: How to search.
        """
        state["searches"] += 1
        if not query.strip():
            raise ValueError("the query is empty")
        if limit < 1:
            raise ValueError(f"limit is {limit}; use 1 to {self.max_results}")
        mode = mode or self.modes[0]
        if mode not in self.modes:
            raise ValueError(f"there is no mode {mode!r:.80}; use one of {', '.join(self.modes)}")
        limit = min(limit, self.max_results)
        hits = await in_thread(lambda: self.client.search(query, mode=mode, limit=limit))
        state["found"] += [hit.doc_id for hit in hits if hit.doc_id not in state["found"]]
        lines = [f"{hit.doc_id} | {_one_line(hit.title)} | {_one_line(hit.snippet)}" for hit in hits]
        return "\n".join(lines) or "Nothing found. Try other words."

    @tool
    async def read(self, doc_id: str, *, state: dict[str, Any]) -> str:
        """Read a whole document.

        Args:
            doc_id: Its id, as search gave it.
        """
        state["reads"] += 1
        doc_id = doc_id.strip()
        if self.read_found_only and doc_id not in state["found"]:
            raise LookupError(f"no search has found a document {doc_id!r:.80}; read takes ids that search gave")
        document = await in_thread(lambda: self.client.read(doc_id))
        if doc_id not in state["read"]:
            state["read"].append(doc_id)
        text = shorten(document.text, self.max_document_characters)
        return f"{document.doc_id} | {_one_line(document.title)}\n{text}"

    @reward(weight=1.0, minimum=0.0)
    def answer(self, completion: Trajectory, ground_truth: Any) -> float:
        """Return the F1 or exact match of the declared answer; 0 if no gold document was read."""
        declared = declared_answer(completion)
        if declared is None or not accepted(completion):
            return 0.0
        return self.answer_score(declared.text, gold_answers(ground_truth))

    @reward(weight=0.5, minimum=0.0)
    def sources(self, completion: Trajectory) -> float:
        """Return the F1 between the cited and the gold documents; to cite one that was not read is wrong."""
        declared = declared_answer(completion)
        if declared is None:
            return 0.0
        cited, gold = set(declared.sources), set(gold_ids(completion.task))
        good = cited & accepted(completion)
        right, wrong = len(as_gold(good, completion.task)), len(cited - good)
        return 2 * right / (right + wrong + len(gold))

    @reward(weight=-0.05, minimum=0.0)
    def cost(self, completion: Trajectory, ground_truth: Any) -> float:
        """Return the share of needless calls, 0 to 1, times the mean of `answer` and `sources`.

        An attempt that earned nothing therefore loses nothing by searching. For each gold document a search and a read
        are free, and one more call.
        """
        free = 2 * len(gold_ids(completion.task)) + 1
        share = min(1.0, max(0, self.tool_calls(completion.state) - free) / self.cost_calls)
        return share * (self.answer(completion, ground_truth) + self.sources(completion)) / 2

    @metric
    def exact(self, completion: Trajectory, ground_truth: Any) -> float:
        """Return 1 if the declared answer is a gold one, whatever was read, else 0."""
        declared = declared_answer(completion)
        return 0.0 if declared is None else exact_match(declared.text, gold_answers(ground_truth))

    @metric
    def found_recall(self, completion: Trajectory) -> float:
        """Return the share of the gold documents that searches found."""
        return recall(completion.state.get("found", ()), completion.task)

    @metric
    def read_recall(self, completion: Trajectory) -> float:
        """Return the share of the gold documents that were read."""
        return recall(completion.state.get("read", ()), completion.task)

    @metric
    def searches(self, state: dict[str, Any]) -> float:
        """Return the number of searches, failed ones included."""
        return float(state.get("searches", 0))

    @metric
    def reads(self, state: dict[str, Any]) -> float:
        """Return the number of calls of `read`, failed ones included."""
        return float(state.get("reads", 0))

    @metric
    def tool_calls(self, state: dict[str, Any]) -> float:
        """Return the number of searches and reads together."""
        return self.searches(state) + self.reads(state)

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the declared answer, normalised as for the comparison with gold answers, or `None`."""
        declared = declared_answer(completion)
        return None if declared is None else normalise_answer(declared.text)

    def gold_completion(self, task: Task) -> list[Message] | None:
        """Return a conversation that finds, reads and cites all gold documents (`gold_messages`).

        Return `None` for a task without an answer, and where no query that was tried finds a gold document.
        """
        if task.answer is None:
            return None
        return gold_messages(task, self.client, mode=self.modes[0], limit=min(5, self.max_results))

    def data_fingerprint(self) -> str:
        """Return the client's fingerprint. Raises ValueError if it is empty."""
        if not self.client.fingerprint:
            raise ValueError("the client's fingerprint is empty; return a hash in it")
        return self.client.fingerprint

    def _fitted(self, spec: ToolSpec) -> ToolSpec:
        """Return the tool `search` with the limits of `limit` and the choice of `mode` in its schema."""
        properties = {name: dict(schema) for name, schema in spec.parameters["properties"].items()}
        properties["limit"] |= {"minimum": 1, "maximum": self.max_results, "default": min(5, self.max_results)}
        if len(self.modes) == 1:
            del properties["mode"]
        else:
            properties["mode"] |= {"enum": list(self.modes), "default": self.modes[0]}
        return replace(spec, parameters={**spec.parameters, "properties": properties})


def _one_line(text: str) -> str:
    return " ".join(text.split())


def gold_ids(task: Task) -> list[str]:
    """Return the ids of the task's gold documents, each once. Raises ValueError where the task lists none."""
    ids = task.info.get("gold_doc_ids")
    if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
        raise ValueError(f"gold_doc_ids of task {task.id} are {ids!r:.80}, not a list of document ids")
    return list(dict.fromkeys(ids))


def as_gold(ids: set[str], task: Task) -> set[str]:
    """Return the ids with each near duplicate's replaced by that of its gold document."""
    twins = {twin: gold for gold, all_of in (task.info.get("near_duplicates_of_gold") or {}).items() for twin in all_of}
    return {twins.get(each, each) for each in ids}


def accepted(completion: Trajectory) -> set[str]:
    """Return the ids of the documents that were read and are gold, or near duplicates of gold ones."""
    gold = set(gold_ids(completion.task))
    return {each for each in completion.state.get("read", ()) if as_gold({each}, completion.task) <= gold}


def recall(ids: Sequence[str], task: Task) -> float:
    """Return the share of the gold documents, 0 to 1, that are among `ids` themselves or as a near duplicate."""
    gold = set(gold_ids(task))
    return len(as_gold(set(ids), task) & gold) / len(gold)


def gold_answers(answer: Any) -> list[str]:
    """Return the right answers of a task whose `answer` is one text or a list of them. Raises ValueError otherwise."""
    golds = [answer] if isinstance(answer, str) else answer
    if not isinstance(golds, list) or not golds or not all(isinstance(each, str) and each.strip() for each in golds):
        raise ValueError(f"the task's answer {answer!r:.80} is neither text nor a list of texts")
    return golds


def gold_messages(task: Task, client: SearchClient, *, mode: str, limit: int) -> list[Message] | None:
    """Return the assistant's messages: searches, a read of each gold document, and the answer with its sources.

    The first search is for the question; a document that it does not find gets one of its own. `mode` and `limit` are
    those of each search. Return `None` where a gold document is found by none of the queries tried.
    """

    def found_by(query: str) -> list[str]:
        return [hit.doc_id for hit in client.search(query, mode=mode, limit=limit)]

    def add_call(name: str, **arguments: Any) -> None:
        calls.append(make_call(name, arguments, f"call-{len(calls) + 1}"))

    calls: list[ToolCall] = []
    question = task.prompt[-1]["content"]
    found = found_by(question)
    add_call("search", query=question)
    for doc_id in gold_ids(task):
        if doc_id not in found:
            document = client.read(doc_id)
            queries = (document.title, f"{document.title} {question}", f"{document.title} {document.text[:200]}")
            query = next((each for each in queries if each.strip() and doc_id in found_by(each)), None)
            if query is None:
                return None
            add_call("search", query=query)
        add_call("read", doc_id=doc_id)
    answer = " ".join(gold_answers(task.answer)[0].split())  # in one line, as it is declared
    return [
        *(Message(role="assistant", content="", tool_calls=[call]) for call in calls),
        Message(role="assistant", content=f"Answer: {answer}\nSources: {', '.join(gold_ids(task))}"),
    ]
