"""Engines sample completions: `base` is the contract, `transformers_engine` samples with the trainer's own model."""
