"""The model that a registered policy becomes: MLflow runs this file when it loads a version.

That may be where rlft is not installed, so nothing of rlft is imported. What the file shares with `rlft.policy` (how
messages become a prompt, how weights are hashed) is written out again here, and a test holds the two together.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

DEFAULTS = {"max_new_tokens": 256, "temperature": 0.0, "seed": 0}


class ServedPolicy(PythonModel):
    """Answers prompts with the policy in the artifact `policy`.

    Input: a table with a column `messages` (list of {role, content}, or that as JSON) or `prompt` (text, sent as one
    user message). Output: one text for each row. Parameters: `max_new_tokens`; `temperature`, 0 for the most likely
    token each time; `seed`, to which a row's number is added.
    """

    def load_context(self, context: Any) -> None:
        """Load tokenizer and weights; an adapter is put on its base model. The weights of both are checked first."""
        folder = Path(context.artifacts["policy"])
        given = {key: value for key, value in (context.model_config or {}).items() if value is not None}
        settings = json.loads((folder / "policy.json").read_text()) | given
        if settings.get("weights_hash"):
            check_files(folder, settings["weights_hash"], settings.get("files_hash"))
        self.tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = load_weights(folder, settings).to(device).eval()
        self.stop_ids = stop_token_ids(self.model, self.tokenizer)

    def predict(  # type: ignore[reportIncompatibleMethodOverride]
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> list[str]:
        """Return one answer for each row, in their order. Raises ValueError for rows that have no prompt."""
        del context
        options = DEFAULTS | (params or {})
        rows = conversations(model_input)
        return [
            self.answer(
                messages,
                max_new_tokens=int(options["max_new_tokens"]),
                temperature=float(options["temperature"]),
                seed=int(options["seed"]) + number,
            )
            for number, messages in enumerate(rows)
        ]

    @torch.inference_mode()
    def answer(self, messages: list[dict[str, Any]], *, max_new_tokens: int, temperature: float, seed: int) -> str:
        """Answer one conversation, until a stop token or `max_new_tokens`; returns text without special tokens."""
        prompt = torch.tensor([prompt_ids(self.tokenizer, messages)], device=self.model.device)
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
                inputs=prompt, attention_mask=torch.ones_like(prompt), generation_config=settings
            )
        return str(self.tokenizer.decode(tokens[0, prompt.shape[1] :], skip_special_tokens=True))


def conversations(table: pd.DataFrame) -> list[list[dict[str, Any]]]:
    """Return the rows as lists of messages. Raises ValueError if neither column is there, or a row has neither."""
    columns = set(table.columns)
    if not columns & {"messages", "prompt"}:
        raise ValueError(
            "give a table or rows with `messages` or `prompt`, such as [{'prompt': 'text'}]; "
            f"there are only: {', '.join(map(str, sorted(columns, key=str))) or 'none'}"
        )
    rows = []
    for number, row in enumerate(table.to_dict("records")):
        messages, prompt = row.get("messages"), row.get("prompt")
        if isinstance(messages, str):
            messages = json.loads(messages)
        if isinstance(prompt, list):  # MLflow makes one row of {"prompt": [...]}
            rows.extend([{"role": "user", "content": str(text)}] for text in prompt)
        elif messages is not None and not isinstance(messages, float):  # pandas writes a missing cell as NaN
            rows.append([dict(message) for message in messages])
        elif isinstance(prompt, str):
            rows.append([{"role": "user", "content": prompt}])
        else:
            raise ValueError(f"row {number} has neither `messages` nor `prompt`")
    return rows


def prompt_ids(tokenizer: Any, messages: list[dict[str, Any]]) -> list[int]:
    """Return the token ids of a prompt, as in training (`rlft.policy.tokens.render_prompt`).

    With a chat template the messages are rendered by it; without one the contents are joined with newlines, and an
    end token that the tokenizer adds is taken off, because the text goes on.
    """
    if tokenizer.chat_template:
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        return [int(token) for token in ids]
    ids = list(tokenizer("\n".join(message["content"] for message in messages)).input_ids)
    if not ids:
        raise ValueError("the prompt is empty: there is nothing to go on from")
    if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
        ids.pop()
    return ids


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


def check_files(folder: Path, weights: str, files: str | None) -> None:
    """Raise RuntimeError if weights or, where their hash is known, all files are not those that were registered."""
    for what, found, expected in (
        ("weights", hash_weights(folder / "model"), weights),
        ("files", hash_files(folder), files),
    ):
        if expected and found != expected:
            raise RuntimeError(
                f"the {what} in {folder} have changed: they have sha256 {found[:12]}, registered were {expected[:12]}; "
                "`rlft doctor --verify` where the run was says how to make them again"
            )


def hash_files(folder: Path) -> str:
    """Return the sha256 over path and bytes of every file, as `mlops.registry.logged_model.hash_files` does."""
    digest = hashlib.sha256()
    for name in sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()):
        with (folder / name).open("rb") as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
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

    It is the same as that of `rlft.policy.origin.hash_weights`.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


set_model(ServedPolicy())
