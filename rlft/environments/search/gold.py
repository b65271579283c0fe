"""Makes the gold conversation of a search task, which finds and reads the gold documents and gives the answer."""

from __future__ import annotations

from typing import Any

from rlft.calls import make_call
from rlft.environments.search.client import SearchClient
from rlft.environments.search.labels import gold_answers, gold_ids
from rlft.types import Message, Task, ToolCall


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
