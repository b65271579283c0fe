"""A small HTTP server with the endpoints of `vllm serve` that rlft uses: samples with transformers, and can fail."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from peft import PeftModel
from transformers import AutoModelForCausalLM

from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.models import Policy
from tests.rlft.models.small_models import make_model, policy_of

GENERATE, MODELS = "/inference/v1/generate", "/v1/models"
LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
RELOAD, RESET = "/collective_rpc", "/reset_prefix_cache"
HANG, DROP = "hang", "drop"

_MAKING = threading.Lock()  # models are made with torch's seed and defaults, which all servers here share
Fault = Callable[[str, int], Any]


class SmallServer:
    """On a free port of loopback, with a small qwen3 as its model.

    `fault(path, number)` decides what happens to the path's request of this number, counted from 1: None answers it, a
    status refuses it, DROP closes the connection, HANG never answers. `requests` holds (path, body) of all of them.
    """

    def __init__(self, fault: Fault | None = None, context: int = 64) -> None:
        self.fault = fault or (lambda path, number: None)
        self.context, self.base = context, make_model("qwen3")
        self.models: dict[str | None, Any] = {None: self.base}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.counts: Counter[str] = Counter()
        self._policies: dict[int, Policy] = {}  # by model, as looking into one takes longer than an answer
        self._lock, self._over = threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """What was sent to this path, in order."""
        return [body for asked, body in self.requests if asked == path]

    def stop(self) -> None:
        """Accept no more connections, and let go of those that hang."""
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any] | None:
        """Status and content; None where the connection is to be closed."""
        with self._lock:
            self.requests.append((path, body))
            self.counts[path] += 1
            fault = self.fault(path, self.counts[path])
        if fault == HANG:
            self._over.wait(30)
        if self._over.is_set() or fault in (HANG, DROP):
            return None
        if isinstance(fault, tuple):
            return fault
        if fault is not None:
            return fault, {"error": {"message": f"told to answer {fault}"}}
        with self._lock:
            return self._serve(path, body)

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == MODELS:
            names = [{"id": name or "base", "max_model_len": None if name else self.context} for name in self.models]
            return 200, {"data": names}
        if path == LOAD:
            if body["lora_name"] in self.models:
                return 400, {"error": {"message": f"The lora adapter '{body['lora_name']}' has already been loaded."}}
            with _MAKING:
                self.models[body["lora_name"]] = PeftModel.from_pretrained(make_model("qwen3"), body["lora_path"])
        elif path == UNLOAD:
            if self.models.pop(body["lora_name"], None) is None:
                return 404, {"error": {"message": "no such adapter"}}
        elif path == RELOAD:
            with _MAKING:
                self.models[None] = AutoModelForCausalLM.from_pretrained(body["kwargs"]["weights_path"])
        elif path == GENERATE:
            return self._generate(body)
        return 200, {}

    def _generate(self, body: dict[str, Any]) -> tuple[int, Any]:
        model = self.models.get(body.get("model"))
        if model is None:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        asked = body["sampling_params"]
        engine = TransformersEngine()
        policy = self._policies.setdefault(id(model), policy_of(model))
        model.generation_config.eos_token_id = asked["stop_token_ids"]
        engine.load_policy(policy)
        sampling = Sampling(asked["temperature"], asked["max_tokens"], asked["top_p"], asked["top_k"], asked["min_p"])
        (found,) = engine.generate([body["token_ids"]], sampling, [asked["seed"]])
        content = [{"logprob": float(value)} for value in found.logprobs]
        choice = {"token_ids": found.token_ids.tolist(), "finish_reason": found.stop_reason}
        return 200, {"choices": [choice | {"logprobs": {"content": content}}]}


def _handler_of(small: SmallServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            answer = small.answer(self.path, json.loads(self.rfile.read(length) or b"{}"))
            if answer is None:
                self.close_connection = True
                return
            status, content = answer
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    return Handler
