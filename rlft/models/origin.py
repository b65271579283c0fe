"""Makes the first policy of a run: a model by hub name or folder, or of random weights; adds an adapter."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.peft_utils import find_adapter_config_file

from rlft.config import FromScratchConfig, LoraSettings, PolicyConfig
from rlft.errors import PolicyError
from rlft.models.live import Policy, PolicyMetadata
from rlft.models.tokens import character_tokenizer

LOAD_ERRORS = (OSError, ValueError, KeyError, RuntimeError, SafetensorError)  # what transformers and peft raise
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device(device: str) -> torch.device:
    """Return the device of this name; `auto` is a GPU if there is one. Raises PolicyError for `cuda` without a GPU."""
    if device == "cuda" and not torch.cuda.is_available():
        raise PolicyError("policy.device is cuda, and torch sees no GPU", fix="set policy.device to auto or cpu")
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def build_from_scratch(settings: FromScratchConfig, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a small float32 model with random weights drawn from `seed`, and its character tokenizer."""
    tokenizer = character_tokenizer(settings.characters, settings.pieces)
    common: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
        "tie_word_embeddings": True,
    }
    heads = settings.num_attention_heads
    if settings.architecture == "gpt2":
        shape: dict[str, Any] = {
            "n_embd": settings.hidden_size,
            "n_inner": settings.intermediate_size,
            "n_layer": settings.num_hidden_layers,
            "n_head": heads,
            "n_positions": settings.max_position_embeddings,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        }
    else:
        shape = {
            "hidden_size": settings.hidden_size,
            "intermediate_size": settings.intermediate_size,
            "num_hidden_layers": settings.num_hidden_layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": settings.hidden_size // heads,
            "max_position_embeddings": settings.max_position_embeddings,
        }
    config = AutoConfig.for_model(settings.architecture, **common, **shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    return model, tokenizer


def in_dtype(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """Return a model with the same weights in another type, made as transformers makes one that it loads in that type.

    `model.to(dtype)` would also round what transformers keeps in float32, such as rotary frequencies: then the live
    model's log-probabilities would differ from those of the same policy loaded from its folder.
    """
    with torch.random.fork_rng(devices=[]):
        made = AutoModelForCausalLM.from_config(copy.deepcopy(model.config), dtype=dtype)
    made.load_state_dict(model.state_dict())
    made.generation_config = model.generation_config
    return made


def load_base(name: str, revision: str | None, dtype: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load model and tokenizer by hub name or folder; of `generation_config.json` the end tokens are kept.

    Raises PolicyError if either is missing or incomplete, and for an adapter, whose base would be loaded alone.
    """
    try:
        if adapter := find_adapter_config_file(name, revision=revision):
            below = json.loads(Path(adapter).read_text(encoding="utf-8")).get("base_model_name_or_path")
            raise PolicyError(
                f"{name!r} is an adapter of {below}, and no model",
                where="policy.model",
                fix=f"name {below}, or a folder into which the adapter was merged with it (peft: merge_and_unload)",
            )
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            name, revision=revision, dtype=DTYPES[dtype], use_safetensors=True, output_loading_info=True
        )
        model, report = loaded
        if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes an empty one up where there is none
            raise ValueError("it has no tokenizer")
        if report["missing_keys"]:
            raise ValueError(f"it has no weights for {min(report['missing_keys'])}, which would stay random")
    except LOAD_ERRORS as cause:
        raise PolicyError(
            f"the model {name!r} does not load: {first_line(cause)}",
            where="policy.model",
            fix="name a folder with config.json, tokenizer and *.safetensors, or a causal language model on the hub "
            "that this machine can reach",
        ) from cause
    align(model)
    # Evaluation and training sample by the run's settings alone, so what is served must have none of the base's.
    model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def align(model: torch.nn.Module) -> None:
    """Copy the weights of a loaded model to memory of their own, which begins at multiples of 64 bytes.

    safetensors maps the file: a weight lies where it happens to lie in there, and for unaligned memory the kernels of
    matrix products add up in another order, so that a policy would compute other last bits than before it was stored.
    And whoever changed the file would change the model that was loaded from it.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()


def first_line(cause: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    return next(iter(str(cause).strip().splitlines()), type(cause).__name__)


def add_adapter(model: PreTrainedModel, settings: LoraSettings, seed: int) -> Any:
    """Wrap the model with a LoRA adapter (arXiv:2106.09685) that changes no output yet.

    One of its two matrices is drawn from `seed`, the other is 0. Raises PolicyError if it does not fit the model.
    """
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=settings.target_modules,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            _check_names(model, settings.target_modules)
            return get_peft_model(model, config)
        except ValueError as cause:
            layers = {name.split(".")[-2] for name, weight in model.named_parameters() if weight.ndim == 2}
            raise PolicyError(
                f"the adapter does not fit the model: {cause}",
                where="policy.lora.target_modules",
                fix=f"use all-linear, or names of this model's layers: {', '.join(sorted(layers))}",
            ) from cause


def _check_names(model: PreTrainedModel, names: str | list[str]) -> None:
    """Raise ValueError if one of several names is no layer's: peft would leave it out without a word."""
    paths = [f".{path}" for path, _ in model.named_modules()]
    wrong = [name for name in names if not any(path.endswith(f".{name}") for path in paths)]
    if isinstance(names, list) and wrong:
        raise ValueError(f"it has no layer {', '.join(wrong)}")


def hash_weights(folder: Path) -> str:
    """Return the sha256 over name and bytes of every *.safetensors file of a folder, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def base_folder(name: str, revision: str | None) -> Path:
    """Return the folder that holds a base model's files: the path itself, or its snapshot in the hub's local cache."""
    if Path(name).is_dir():
        return Path(name).resolve()
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, revision=revision, local_files_only=True))


def origin_of(settings: PolicyConfig) -> tuple[str | None, str | None, str | None]:
    """Return name, revision and weight hash of the base model; all are `None` for a model from scratch.

    The revision of a model of the hub is the commit that was loaded, whatever branch or tag was asked for.
    """
    if settings.model is None:
        return None, None, None
    folder = base_folder(settings.model, settings.revision)
    if Path(settings.model).is_dir():
        return str(folder), settings.revision, hash_weights(folder)
    commit = folder.name if folder.parent.name == "snapshots" else settings.revision  # the layout of the hub's cache
    return settings.model, commit, hash_weights(folder)


def create_policy(settings: PolicyConfig, *, seed: int) -> Policy:
    """Load the base model, or build one from scratch, on its device and with a new adapter if there is to be one.

    `seed` decides the random weights of model and adapter. Raises PolicyError if the model does not load, if the
    adapter does not fit it, or if there is no GPU where one is asked for.
    """
    device = choose_device(settings.device)
    if settings.from_scratch is not None:
        drawn, tokenizer = build_from_scratch(settings.from_scratch, seed)
        model = in_dtype(drawn, DTYPES[settings.dtype])
    else:
        assert settings.model is not None
        model, tokenizer = load_base(settings.model, settings.revision, settings.dtype)
    name, revision, base_hash = origin_of(settings)
    trained = add_adapter(model, settings.lora, seed) if settings.lora else model
    metadata = PolicyMetadata(
        kind="adapter" if settings.lora else "full",
        base_model=name,
        base_revision=revision,
        base_hash=base_hash,
        dtype=settings.dtype,
    )
    return Policy(model=trained.to(device).eval(), tokenizer=tokenizer, metadata=metadata)  # type: ignore[reportArgumentType]
