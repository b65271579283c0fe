"""Direct preference optimization: of two answers the better one becomes likelier, and the worse one less likely.

The pairs are the best and the worst attempt at each task of a round, or rows of a file.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlft.training.algorithms import ADVANTAGES, RATIOS, Algorithm, PartLoss

if TYPE_CHECKING:
    from torch import Tensor

    from rlft.config.training import TrainingConfig
    from rlft.models import Policy
    from rlft.training.batching import Pair
    from rlft.training.ledger import TrainingPlan
    from rlft.training.loss import LossReport, Part, Whole
    from rlft.types import Message, Rewards, Rollout, Rollouts

_LOOKED_AT = 20  # rows of a file, before a run


class Dpo(Algorithm):
    """DPO raises the probability of the better of two answers over the worse one's, beside a reference.

    With the summed log-ratios to the reference of the better answer, c, and of the worse one, r, the loss of a pair is
    -log sigmoid(beta * (c - r)) for `loss_type: sigmoid`; with `label_smoothing` e it is
    -(1 - e) log sigmoid(beta (c - r)) - e log sigmoid(-beta (c - r)) (cDPO). `sigmoid_norm` divides c and r by the
    answers' numbers of tokens, and so does `ipo`, whose loss is (c - r - 1 / (2 beta))^2 (arXiv:2310.12036, eq. 17).
    """

    name: ClassVar[str] = "dpo"
    title: ClassVar[str] = "direct preference optimization (DPO)"
    paper: ClassVar[str] = "arXiv:2305.18290"
    defaults: ClassVar[dict[str, Any]] = {"loss_type": "sigmoid", "beta": 0.1}
    unused: ClassVar[tuple[str, ...]] = (*ADVANTAGES, *RATIOS)
    loss_types: ClassVar[tuple[str, ...]] = ("sigmoid", "ipo", "sigmoid_norm")
    paths: ClassVar[tuple[str, ...]] = ("pairs",)
    whole_groups: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = tuple(
        f"rewards/{name}" for name in ("chosen", "rejected", "accuracies", "margins")
    )

    label_smoothing: float = Field(
        default=0.0,
        ge=0,
        lt=0.5,
        description="Probability, below 0.5, with which a pair is taken to be the wrong way round; not with "
        "`loss_type: ipo`.",
    )
    pairs: str | None = Field(
        default=None,
        description="JSONL file of pairs with `prompt`, `chosen` and `rejected`, texts or messages, of which each "
        "round takes the next `tasks_per_round`. null means the best and the worst attempt at each task of the round.",
    )

    def check(self, settings: TrainingConfig) -> None:
        """Raise ValueError for a `beta` of 0, or where nothing is smoothed."""
        if not settings.beta:
            raise ValueError("beta=0: dpo needs a reference; 0.1 is usual")
        if settings.loss_type == "ipo" and self.label_smoothing:
            raise ValueError("label_smoothing does nothing with loss_type ipo; leave it at its default, 0.0")

    def check_files(self) -> None:
        """Raise TaskError for a file that is not there, or whose first rows are no pairs."""
        if self.pairs is not None:
            for _ in islice(iterate_pairs(Path(self.pairs)), _LOOKED_AT):
                pass

    def plan(
        self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig, policy: Policy, round: int
    ) -> TrainingPlan:
        """Return the pairs of a round, the better answer first, with the advantages 1 and -1."""
        plan = super().plan(rollouts, rewards, settings, policy, round)
        if self.pairs is None:
            return plan
        drawn = _of_round(Path(self.pairs), policy, round, settings.tasks_per_round)
        return dataclasses.replace(plan, groups=drawn)

    def choose(self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> Mapping[str, float]:
        """Return the best and the worst attempt at each task, the first of several, unless all are equal."""
        from rlft.evaluation.statistics import varies

        if self.pairs is not None:
            return {}
        groups: dict[str, list[tuple[Rollout, float]]] = defaultdict(list)
        for rollout, reward in zip(rollouts, rewards, strict=True):
            is_cut = settings.mask_truncated_completions and rollout.truncated
            if reward.total is not None and rollout.loss_mask.any() and not is_cut:
                groups[rollout.task_id].append((rollout, reward.total))
        found: dict[str, float] = {}
        for group in groups.values():
            if varies([total for _, total in group]):
                found[max(group, key=lambda each: each[1])[0].rollout_id] = 1.0
                found[min(group, key=lambda each: each[1])[0].rollout_id] = -1.0
        return found

    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return the mean of the losses of the pairs."""
        from torch.nn.functional import logsigmoid

        from rlft.training.loss import LossReport, k3

        beta, smoothing = settings.beta, self.label_smoothing

        def loss(part: Part, whole: Whole) -> LossReport:
            assert part.ref_logprobs is not None
            assert whole.num_rollouts is not None
            mask = part.mask.bool()
            ratios = (part.logprobs - part.ref_logprobs).where(mask, 0.0).sum(-1)
            scores = ratios if settings.loss_type == "sigmoid" else ratios / mask.sum(-1).clamp(min=1)
            apart = scores[0::2] - scores[1::2]
            if settings.loss_type == "ipo":
                losses = (apart - 1 / (2 * beta)) ** 2
            else:
                losses = -(1 - smoothing) * logsigmoid(beta * apart) - smoothing * logsigmoid(-beta * apart)
            sums = _sums(beta * ratios.detach())
            return LossReport(
                losses.sum() / (whole.num_rollouts / 2),
                tokens=float(mask.sum()),
                kl=float(k3(part.logprobs.detach(), part.ref_logprobs, mask).sum()),
                units=len(losses),
                sums=dict(zip(self.metrics, sums, strict=True)),
            )

        return loss


def _sums(rewards: Tensor) -> list[float]:
    """Return over pairs the sums of both implicit rewards, beta times the log-ratio, and how they compare."""
    chosen, rejected = rewards[0::2], rewards[1::2]
    return [float(each.sum()) for each in (chosen, rejected, (chosen > rejected).float(), chosen - rejected)]


def iterate_pairs(path: Path) -> Iterator[tuple[tuple[Message, ...], tuple[Message, ...], tuple[Message, ...]]]:
    """Yield prompt, better and worse answer of JSONL rows with `prompt`, `chosen` and `rejected`; blank lines are not.

    Each is a text, or messages in any form that `rlft.messages.as_messages` takes; answers are the assistant's. Raises
    as `rlft.training.demonstration_file.iterate_rows` does.
    """
    from rlft.training.demonstration_file import iterate_rows

    example = '{"prompt": "2+2=", "chosen": "4", "rejected": "5"}'
    return iterate_rows(path, _pair, "pair", "training.pairs", example)


def _pair(row: Any) -> tuple[tuple[Message, ...], tuple[Message, ...], tuple[Message, ...]]:
    from rlft.messages import as_messages

    roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
    prompt, chosen, rejected = (as_messages(_said(row[key], role)) for key, role in roles.items())
    if not (prompt and chosen and rejected) or any(each[-1]["role"] != "assistant" for each in (chosen, rejected)):
        raise ValueError("chosen and rejected must end with a message of the assistant's")
    return prompt, chosen, rejected


def _said(value: Any, role: str) -> Any:
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def _of_round(path: Path, policy: Policy, round: int, count: int) -> list[list[Pair]]:
    """Return the pairs of a file that a round (from 0) takes, each epoch in an order of its own, as groups of two."""
    from rlft.harness.chat.conversation import open_chat
    from rlft.training.demonstration_file import Demonstration
    from rlft.training.demonstrations import as_rollout, encode
    from rlft.training.imitation import draw_batches

    rows = list(iterate_pairs(path))
    chat = open_chat(policy.tokenizer, multi_turn=any(len(side) > 1 for _, *sides in rows for side in sides))
    groups: list[list[Pair]] = []
    for place in next(islice(draw_batches(len(rows), count, seed=0), round, None)):
        prompt, *sides = rows[place]
        encoded = [encode(policy, chat, Demonstration(prompt, side)) for side in sides]
        groups.append([(as_rollout(row, 2 * place + number), 1.0 - 2 * number) for number, row in enumerate(encoded)])
    return groups
