"""The model that a registered policy becomes, and what it can be asked: MLflow runs this file when it loads a version.

That may be where rlft is not installed: in a version the text of `rlft.harness.chat.marks` stands in the place of its
import (`mlops.registry.logged_model`). How files are hashed is written out again here, and tests hold the two together.
"""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rlft.harness.chat.marks import Marks

WANTED = (
    'send `messages` (a list of messages), such as {"messages": [{"role": "user", "content": "text"}]}, or `prompt` '
    "(text), or rows that all have one of them"
)


def conversations(table: pd.DataFrame) -> list[list[dict[str, Any]]]:
    """Return the conversation of each row: its `messages`, or its `prompt` as a message of the user.

    Raises ValueError that says what to send.
    """
    if not len(table):
        raise ValueError(f"there is nothing to answer; {WANTED}")
    return [_of_row(row, f"row {number}") for number, row in enumerate(table.to_dict("records"))]


def _of_row(row: dict[Any, Any], where: str) -> list[dict[str, Any]]:
    messages, prompt = row.get("messages"), row.get("prompt")
    if isinstance(messages, list | tuple | np.ndarray):
        return as_messages(list(messages), where)
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    raise ValueError(f"{where} has neither `messages` nor `prompt`; {WANTED}")


def as_messages(given: list[Any], where: str) -> list[dict[str, Any]]:
    """Return messages in the form that chat templates take. Raises ValueError, which names the message.

    `developer` becomes `system`, content in parts of text one text, and arguments in a text of JSON an object. Keys
    that are empty, as tables have them, are left out. A tool's message without a name gets that of its call.
    """
    if not given:
        raise ValueError(f"{where} has no messages; {WANTED}")
    messages = [_message(each, f"message {number} of {where}") for number, each in enumerate(given, start=1)]
    names = {call["id"]: call["function"]["name"] for each in messages for call in each.get("tool_calls", ())}
    for message in messages:
        if message["role"] == "tool" and (name := names.get(message.get("tool_call_id"))):
            message.setdefault("name", name)
    return messages


def _message(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str) or not value["role"]:
        raise ValueError(f'{where} has no role; write {{"role": "user", "content": "text"}}')
    # NaN is what pandas puts where a table has no value.
    missing = {key for key, each in value.items() if each is None or (isinstance(each, float) and math.isnan(each))}
    message = {key: each for key, each in value.items() if key not in missing}
    if message["role"] == "developer":
        message["role"] = "system"
    calls = _listed(message.pop("tool_calls", None))
    if calls:
        message["tool_calls"] = [_call(call, where) for call in calls]
        message.setdefault("content", "")
    content = message.get("content")
    parts = _listed(content) if not isinstance(content, str) else [{"text": content}]
    if not parts or not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise ValueError(f"{where} has no text as content; only text can be read")
    message["content"] = "".join(part["text"] for part in parts)
    return message


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | np.ndarray) else []


def _call(value: Any, where: str) -> dict[str, Any]:
    """Return a tool call with its keys in one order, which templates print. Raises ValueError for what is none."""
    function = value.get("function", value) if isinstance(value, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not isinstance(arguments, dict):
        raise ValueError(
            f'{where} has a tool call that cannot be read; write "function": {{"name": "search", "arguments": {{...}}}}'
        )
    name = function["name"]
    return {"type": "function", "id": value.get("id") or "", "function": {"name": name, "arguments": arguments}}


def with_context(messages: list[dict[str, Any]], context: dict[str, Any]) -> list[dict[str, Any]]:
    """Return messages with the environment's system prompt before them, unless they have a system message already."""
    prompt = context.get("system_prompt")
    if not prompt or any(message["role"] == "system" for message in messages):
        return messages
    return [{"role": "system", "content": prompt}, *messages]


def prompt_ids(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> list[int]:
    """Return the token ids of a prompt, as in training. Raises ValueError for what cannot be rendered.

    With a chat template the messages are rendered by it, with the tools; no text in them becomes a special token.
    Without one the contents are joined with newlines, and an end token that the tokenizer adds is taken off, because
    the text goes on.
    """
    if tokenizer.chat_template:
        return _rendered(tokenizer, messages, tools or [])
    ids = [int(token) for token in tokenizer("\n".join(message["content"] for message in messages)).input_ids]
    if not ids:
        raise ValueError("the prompt is empty: there is nothing to go on from")
    if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
        ids.pop()
    return ids


def _rendered(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
    marks = Marks(tokenizer)
    shielded, mark = marks.shield(messages)
    try:
        text = str(
            tokenizer.apply_chat_template(shielded, tools=tools or None, add_generation_prompt=True, tokenize=False)
        )
    except Exception as cause:  # a template is a program, which may raise anything
        roles = ", ".join(message["role"] for message in messages)
        raise ValueError(f"the chat template does not take these messages ({roles}): {cause}") from cause
    return marks.encode(text, mark=mark)


DEFAULTS = {"max_new_tokens": 256, "temperature": 0.0, "seed": 0}
COLDEST = 0.01  # logits divided by less overflow


class ServedPolicy(PythonModel):
    """Answers prompts with the policy in the artifact `policy`, shown what the environment showed it in training.

    Input: rows with `messages` or `prompt` (`conversations`). A
    conversation without a system message gets the environment's (`context.json`), and the chat template describes the
    environment's tools. Output: one text for each conversation; calls of tools stand in it as the model wrote them.
    Parameters: `max_new_tokens`; `temperature`, 0 for the most likely token each time; `seed`, to which the number of
    the conversation is added.
    """

    def load_context(self, context: Any) -> None:
        """Load tokenizer and weights; an adapter is put on its base model. The files of both are checked first."""
        folder = Path(context.artifacts["policy"])
        given = {key: value for key, value in (context.model_config or {}).items() if value is not None}
        check_files(folder, given.get("files_hash"))
        settings = json.loads((folder / "policy.json").read_text()) | given
        shown = folder / "context.json"
        self.shown = json.loads(shown.read_text(encoding="utf-8")) if shown.is_file() else {}
        self.tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = load_weights(folder, settings).to(device).eval()
        self.stop_ids = stop_token_ids(self.model, self.tokenizer)
        self.model.generation_config = GenerationConfig()  # `generate` would take what a request leaves open from it

    def predict(  # type: ignore[reportIncompatibleMethodOverride]
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> list[str]:
        """Return one answer for each conversation, in their order.

        Raises MlflowException, which a server answers with status 400, for what cannot be read or answered.
        """
        del context
        try:
            options = read_options(DEFAULTS | (params or {}))
            prompts = [self.prompt(messages) for messages in conversations(model_input)]
            for prompt in prompts:
                self.check_length(prompt, options["max_new_tokens"])
        except ValueError as cause:
            raise MlflowException.invalid_parameter_value(str(cause)) from cause
        seed = options.pop("seed")
        return [self.answer(prompt, **options, seed=seed + number) for number, prompt in enumerate(prompts)]

    def prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        """Return the token ids of a conversation, with the environment's context. Raises ValueError."""
        return prompt_ids(self.tokenizer, with_context(messages, self.shown), self.shown.get("tools"))

    def check_length(self, prompt: list[int], max_new_tokens: int) -> None:
        """Raise ValueError if prompt and answer may be longer than what the model can read."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        if longest is not None and len(prompt) + max_new_tokens > longest:
            raise ValueError(
                f"the prompt has {len(prompt)} tokens and its answer may have {max_new_tokens} (max_new_tokens), "
                f"together more than the {longest} that the model can read; shorten the prompt or lower max_new_tokens"
            )

    @torch.inference_mode()
    def answer(self, prompt: list[int], *, max_new_tokens: int, temperature: float, seed: int) -> str:
        """Go on from the token ids of a prompt until a stop token or `max_new_tokens`; returns the text."""
        inputs = torch.tensor([prompt], device=self.model.device)
        sampling = {"temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature > 0 else {}
        settings = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=temperature > 0,
            eos_token_id=self.stop_ids,
            pad_token_id=self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else self.stop_ids[0],
            **sampling,
        )
        with torch.random.fork_rng():  # the server's own random state stays as it is
            torch.manual_seed(seed)
            tokens = self.model.generate(
                inputs=inputs, attention_mask=torch.ones_like(inputs), generation_config=settings
            )
        return answer_text(self.tokenizer, tokens[0, len(prompt) :].tolist(), self.shown.get("tool_marks", ()))


def read_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request. Raises ValueError for one that means nothing."""
    count, temperature, seed = int(given["max_new_tokens"]), float(given["temperature"]), int(given["seed"])
    if count < 1:
        raise ValueError(f"max_new_tokens is {count}; an answer has at least 1 token")
    if temperature != 0 and not COLDEST <= temperature < math.inf:
        raise ValueError(f"temperature is {temperature}; write 0 for the most likely token, or at least {COLDEST}")
    if not 0 <= seed < 2**62:
        raise ValueError(f"seed is {seed}; write a whole number from 0 to 2**62 - 1")
    return {"max_new_tokens": count, "temperature": temperature, "seed": seed}


def answer_text(tokenizer: Any, token_ids: list[int], marks: Any) -> str:
    """Return sampled tokens as text: without special tokens, but for those that are `marks` of a tool call."""
    added = tokenizer.added_tokens_decoder
    special = {*tokenizer.all_special_ids, *(number for number, token in added.items() if token.special)}
    special -= {number for number, token in added.items() if str(token) in marks}
    left = [token for token in token_ids if token not in special]
    return str(tokenizer.decode(left, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def stop_token_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that end an answer: those of the generation config, else the tokenizer's end token.

    Raises ValueError if neither names one.
    """
    configured = model.generation_config.eos_token_id
    if configured is None:
        configured = tokenizer.eos_token_id
    if configured is None:
        raise ValueError("neither generation_config.json nor the tokenizer names an end token (eos_token_id)")
    return [int(token) for token in configured] if isinstance(configured, list) else [int(configured)]


def load_weights(folder: Path, settings: dict[str, Any]) -> Any:
    """Load the policy's model. An adapter takes its base from the environment variable BASE_MODEL, else `base_model`.

    Raises RuntimeError if the base does not load, or is not the one that the adapter was trained on.
    """
    dtype = getattr(torch, settings.get("dtype") or "float32")
    if settings["kind"] == "full":
        return AutoModelForCausalLM.from_pretrained(folder / "model", dtype=dtype, use_safetensors=True)
    from peft import PeftModel

    override = os.environ.get("BASE_MODEL")
    name, revision = (override, None) if override else (settings["base_model"], settings.get("base_revision"))
    try:
        base = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=dtype, use_safetensors=True)
    except OSError as cause:
        raise RuntimeError(
            f"the base model {name!r} (revision {revision}) does not load; set BASE_MODEL to a folder that has it"
        ) from cause
    if settings.get("base_hash"):
        check_base(name, revision, settings["base_hash"])
    model: Any = PeftModel.from_pretrained(base, str(folder / "model"))
    if (folder / "model" / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder / "model")
    return model


def check_files(folder: Path, expected: str | None) -> None:
    """Raise RuntimeError if files are not those that were registered, where their hash is known."""
    if expected and (found := hash_files(folder)) != expected:
        raise RuntimeError(
            f"the files in {folder} have changed: they have sha256 {found[:12]}, registered were {expected[:12]}; "
            "`rlft doctor --verify` where the run was says how to make them again"
        )


def hash_files(folder: Path) -> str:
    """Return the sha256 over path and bytes of every file, as `mlops.registry.logged_model.hash_files` does."""
    digest = hashlib.sha256()
    for name in sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()):
        with (folder / name).open("rb") as file:
            digest.update(
                name.encode("unicode_escape") + f" {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
            )
    return digest.hexdigest()


def check_base(name: str, revision: str | None, expected: str) -> None:
    """Raise RuntimeError for a base model other than the adapter's own: its answers would be silently wrong."""
    folder = Path(name)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    found = hash_weights(folder)
    if found != expected:
        raise RuntimeError(
            f"the weights in {folder} (sha256 {found[:12]}) are not those the adapter was trained on "
            f"({expected[:12]}); set BASE_MODEL to a folder that has them"
        )


def hash_weights(folder: Path) -> str:
    """Return the sha256 over the name and bytes of every *.safetensors file, in the order of their names.

    It is the same as that of `rlft.models.origin.hash_weights`.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


set_model(ServedPolicy())
