"""Environments as other systems have them: written for three methods, here with nothing changed but the import."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from rlft import BaseEnv


class Shelf:
    """A search over notes in a JSON file, {title: text}: an embedded client, as `chromadb` or `whoosh` have."""

    def __init__(self, path: str):
        self.notes = json.loads(Path(path).read_text())

    def search(self, query: str, mode: str, limit: int) -> list[dict[str, str]]:
        """At most `limit` notes that share a word with the query."""
        if mode not in ("auto", "title", "text"):
            raise ValueError(f"unknown mode {mode!r}")
        words = set(query.lower().split())
        found = [{"title": title, "text": text} for title, text in self.notes.items() if words & set(text.split())]
        return found[: int.__index__(limit)]  # a text is no index


class Naturalist(BaseEnv):
    """Finds notes about animals. One tool in plain parameters; what a rollout found is kept by its id."""

    def __init__(self, client):
        self.client = client
        self.asked = defaultdict(int)

    async def list_tools(self):
        return [
            {
                "name": "search",
                "description": "Look through the notes of the expedition.",
                "parameters": {
                    "query": "Words that the note should have.",
                    "mode": "Where to look: auto, title or text. auto if left out.",
                    "limit": "How many notes at most. 10 if left out.",
                },
            }
        ]

    async def run_tool(self, rollout_id, tool_name, **args):
        self.asked[rollout_id] += 1
        query, mode, limit = args["query"], args.get("mode", "auto"), args.get("limit", 10)
        return await asyncio.to_thread(self.client.search, query, mode, limit)

    async def compute_reward(self, completion, ground_truth):
        found = set()
        for message in completion:
            if message["role"] == "tool" and not message["content"].startswith("error"):
                found |= {note["title"] for note in json.loads(message["content"])}
        calls = [call["function"] for message in completion for call in message.get("tool_calls") or []]
        return {
            "recall": len(found & set(ground_truth)) / len(ground_truth),
            "asked": float(any(call["name"] == "search" and "query" in call["arguments"] for call in calls)),
        }


class Clerk(BaseEnv):
    """Plain methods, OpenAI's description of a tool, other names for the arguments, one number as the score."""

    system_prompt = "You keep the books. Answer with the number alone."
    prices = {"tea": 3, "rice": 2}  # noqa: RUF012

    def list_tools(self):
        text = {"type": "string", "description": "The article."}
        schema = {"type": "object", "properties": {"article": text}, "required": ["article"]}
        return [{"type": "function", "function": {"name": "price", "description": "A price.", "parameters": schema}}]

    def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        return self.prices[tool_args["article"]]

    def compute_reward(self, completion, ground_truth):
        return 1.0 if completion[-1]["content"] == str(ground_truth) else 0.0


@dataclass
class Stopwatch(BaseEnv):
    """A dataclass whose tool takes nothing and returns nothing, described as MCP does."""

    step: int = 5
    times: dict[str, int] = field(default_factory=dict)

    async def list_tools(self):
        return [
            {"name": "tick", "description": "Let time pass.", "input_schema": {"type": "object", "properties": {}}},
            {"name": "read", "description": "Read the time."},
        ]

    async def run_tool(self, id, name, **kwargs):
        if name == "tick":
            self.times[id] = self.times.get(id, 0) + self.step
            return None
        return {"seconds": self.times.get(id, 0)}

    async def compute_reward(self, completion, ground_truth):
        return {"right": completion[-1]["content"] == ground_truth}


class Remote(BaseEnv):
    """Asks a server by a client with a pool of connections, opened once and closed with the environment."""

    def __init__(self, address: str):
        self.http = httpx.AsyncClient(base_url=address)

    async def list_tools(self):
        return [{"name": "fetch", "description": "Fetch a page.", "parameters": {"path": "Its path."}}]

    async def run_tool(self, rollout_id, tool_name, **args):
        answer = await self.http.get(args["path"])
        answer.raise_for_status()
        return answer.text

    async def compute_reward(self, completion, ground_truth):
        truth = (await self.http.get(ground_truth)).text
        return {"right": float(any(message["content"] == truth for message in completion))}

    async def aclose(self):
        await self.http.aclose()
