"""How many floating-point operations a training step needs, whatever a trainer does beside them.

A weight takes 2 operations forward for each token that needs it and 4 backward (its own gradient and that of its
input), a frozen one 2 backward. A pair of a query and a key that it may see takes 4 times the head's width forward
(score and weighted sum) and 8 backward, in every head. Embedding look-up, norms, softmax and the optimizer are free.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.grpo_workload import LORA_RANK, Workload


@dataclass(frozen=True, slots=True)
class Need:
    """Which tokens of one group are read, with its prompt encoded once.

    `encoded` tokens get keys and values in every layer; the last token of a completion predicts nothing. `predicting`
    of them give logits: what follows the keys and values of the last layer is needed for these alone.
    """

    encoded: int
    predicting: int
    pairs: int
    pairs_of_predicting: int

    @classmethod
    def of(cls, workload: Workload) -> Need:
        """For one group of the workload."""
        prompt, group, length = workload.prompt_tokens, workload.group_size, workload.completion_tokens - 1
        own = group * (length * prompt + length * (length + 1) // 2)
        return cls(
            encoded=prompt + group * length,
            predicting=1 + group * length,
            pairs=prompt * (prompt + 1) // 2 + own,
            pairs_of_predicting=prompt + own,
        )


def training_operations(workload: Workload, *, whole_last_layer: bool = False) -> int:
    """Of all groups, forward and backward. With `whole_last_layer` every token goes through all of the last layer."""
    shape, need = workload.shape, Need.of(workload)
    layers, heads, width = shape["num_hidden_layers"], shape["num_attention_heads"], shape["head_dim"]
    last = need.encoded if whole_last_layer else need.predicting
    last_pairs = need.pairs if whole_last_layer else need.pairs_of_predicting
    total = 12 * heads * width * ((layers - 1) * need.pairs + last_pairs)
    for number in range(layers):
        rest = last if number == layers - 1 else need.encoded
        for name, (inputs, outputs) in _matrices(shape).items():
            tokens = need.encoded if name in ("k", "v") else rest
            total += tokens * _per_token(inputs, outputs, workload.lora, first=number == 0 and name in ("q", "k", "v"))
    head = shape["hidden_size"] * shape["vocab_size"]
    return workload.groups * (total + need.predicting * head * (4 if workload.lora else 6))


def _matrices(shape: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of the weights of a layer."""
    hidden, inner, width = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    queries, keys = shape["num_attention_heads"] * width, shape["num_key_value_heads"] * width
    return {
        "q": (hidden, queries),
        "k": (hidden, keys),
        "v": (hidden, keys),
        "o": (queries, hidden),
        "gate": (hidden, inner),
        "up": (hidden, inner),
        "down": (inner, hidden),
    }


def _per_token(inputs: int, outputs: int, lora: bool, *, first: bool) -> int:
    """Operations of one weight for one token; `first` reads the embeddings, which an adapter does not train."""
    if not lora:
        return 6 * inputs * outputs
    frozen = (2 if first else 4) * inputs * outputs
    return frozen + LORA_RANK * ((4 if first else 6) * inputs + 6 * outputs)
