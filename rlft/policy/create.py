"""Makes the first policy of a run from its settings."""

from __future__ import annotations

from rlft.config import PolicyConfig
from rlft.policy.live import Policy, PolicyMetadata
from rlft.policy.origin import DTYPES, add_adapter, build_from_scratch, choose_device, in_dtype, load_base, origin_of


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
