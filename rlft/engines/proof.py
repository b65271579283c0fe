"""Checks that an engine samples with the trainer's weights, by canaries: fixed prompts that it is asked after a push.

The engine samples some tokens after them, and the trainer scores the same tokens. Weights that did not arrive, arrived
in the wrong place, or stand beside a cache of the old ones show in the difference of log-probabilities. So does the
rounding of two implementations. How much of it there is depends on the model: it is measured at the first push of an
engine, and may grow only as far as the trainer's own log-probabilities have become more sensitive to rounding since.
With some hundred tokens the mean difference is steady, and over several pushes it is steadier: what stays behind shows
after every one of them, and rounding averages out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from rlft.engines.base import LOGP_LIMIT, Generation, Sampling
from rlft.errors import EngineError
from rlft.models import Policy

# How much rounding may make two implementations differ in one token's log-probability, in nats, by the weights' type.
MAX_LOGPROB_DIFFERENCE = {"float32": 1e-4, "bfloat16": 0.5}
PUSH_SECONDS, CANARY_DIFFERENCE = "engine/push_seconds", "engine/canary_logp_difference"  # metrics of a round
CANARY_MEAN = "engine/canary_logp_difference_mean"
SERVERS = "engine/servers"
_VISIBLE = {"float32": 1e-6, "bfloat16": 1e-2}  # smaller changes of a log-probability may be rounding
_LENGTHS = (1, 7, 24, 300)  # tokens of a prompt; the last is longer than a block of any cache
_MORE = (24, 12)  # this many further prompts, and the tokens of each
_NEW_TOKENS = 8
_COOLER = 0.5  # the temperature of the last canary
# From push to push the two implementations may differ by so much; beyond that both must have changed alike.
_NOISE = {"float32": 5e-5, "bfloat16": 0.2}
_CLOSER = 8  # an engine that changed by less than an eighth of what the trainer changed by has the old weights
# How many times larger than at the first push the mean difference may be. Measured: at most 1.52 over 40 rounds if all
# is well, 7 to 156 where one of the larger parts is stale (docs/LOG.md, "weights that never arrived").
_GROWTH = 3.0
# And how many times larger it may be over so many pushes together, of which healthy ones have less than 1.52 each.
_TOGETHER, _GROWTH_TOGETHER = 4, 2.0
_LEAST_MEAN = {"float32": 3e-6, "bfloat16": 1e-3}  # smaller mean differences are rounding, whatever the first was


Generate = Callable[[Sequence[Sequence[int]], Sampling, Sequence[int]], list[Generation]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Holds what the canaries showed after a push: the sampled tokens, and their log-probabilities by each side.

    `policy` is the identity of the policy. `lengths` says how many of the tokens belong to each canary. `sensitivity`
    is by how much other rounding of the embeddings alone changes the trainer's log-probabilities, in the mean; `first`
    is the evidence of the engine's first push, `None` in that one itself, and `recent` are the shares of their limits
    that the pushes just before it had, the newest first. Log-probabilities are in nats.
    """

    policy: str
    token_ids: tuple[int, ...]
    by_engine: np.ndarray
    by_trainer: np.ndarray
    lengths: tuple[int, ...] = ()
    sensitivity: float = 0.0
    first: Evidence | None = None
    recent: tuple[float, ...] = ()

    @property
    def difference(self) -> float:
        """The largest difference of a token between engine and trainer; infinite if one of them is not finite."""
        return self._gap(np.max)

    @property
    def mean(self) -> float:
        """The mean absolute difference of a token between engine and trainer; infinite if one of them is not finite."""
        return self._gap(np.mean)

    def limit(self, dtype: str) -> float:
        """Return how large `mean` may be by rounding alone: three times that of the first push.

        The limit grows with the trainer's sensitivity to rounding since then, in which the engine has no part.
        """
        first = self.first or self
        sharper = max(self.sensitivity / first.sensitivity, 1.0) if first.sensitivity else 1.0
        return max(_GROWTH * first.mean * sharper, _LEAST_MEAN[dtype])

    def metrics(self, dtype: str) -> dict[str, float]:
        """Return the differences and the limit by the names of a round's metrics."""
        return {CANARY_DIFFERENCE: self.difference, CANARY_MEAN: self.mean, LOGP_LIMIT: self.limit(dtype)}

    def in_common(self, other: Evidence) -> np.ndarray:
        """Return the places of tokens that both scored in the same context: of each canary, up to where they differ."""
        if self.lengths != other.lengths or not self.lengths:
            return np.zeros(0, dtype=np.int64)
        same = np.asarray(self.token_ids) == np.asarray(other.token_ids)
        ends = np.cumsum(self.lengths)
        rows = [np.arange(end - length, end) for end, length in zip(ends, self.lengths, strict=True)]
        return np.concatenate([row[np.logical_and.accumulate(same[row])] for row in rows])

    def _gap(self, reduce: Callable[[np.ndarray], np.floating]) -> float:
        gap = np.abs(self.by_engine - self.by_trainer)
        return float(reduce(gap)) if np.isfinite(gap).all() else float("inf")


class Canaries:
    """Holds prompts of fixed random tokens, which every policy of a run is asked; they do not depend on the policy."""

    def __init__(self, vocabulary: int, context: int | None) -> None:
        draw = np.random.default_rng(0)
        longest = max((context or 1 << 30) - _NEW_TOKENS, 1)
        lengths = [*_LENGTHS[:-1], *[_MORE[1]] * _MORE[0], _LENGTHS[-1]]
        self.prompts = [draw.integers(vocabulary, size=min(length, longest)).tolist() for length in lengths]
        self.sampling = Sampling(temperature=1.0, max_completion_length=_NEW_TOKENS)
        self._asked_cooler = self.prompts[1]

    def warm_cache(self, generate: Generate) -> None:
        """Put the longest prompt in the engine's prefix cache before a push, as prompts of the last round are.

        If the push does not empty that cache, `ask` then gets log-probabilities of the old weights.
        """
        generate(self.prompts[-1:], Sampling(1.0, 1), [0])

    def ask(self, generate: Generate, policy: Policy) -> Evidence:
        """Sample with the engine, and score the same tokens with the policy. Raises as `sample` does."""
        return self.compare(self.sample(generate), policy)

    def sample(self, generate: Generate) -> list[Generation]:
        """Return what the engine samples.

        One prompt is asked at another temperature too, because an engine might report log-probabilities before
        temperature. Raises EngineError if the engine does not answer.
        """
        cooler = Sampling(_COOLER, _NEW_TOKENS)
        found = [
            *generate(self.prompts, self.sampling, range(len(self.prompts))),
            *generate([self._asked_cooler], cooler, [0]),
        ]
        for generation in found:
            if generation.error is not None:
                raise EngineError(f"the engine did not answer its canary prompts: {generation.error}")
        return found

    def compare(self, found: Sequence[Generation], policy: Policy) -> Evidence:
        """Return what `sample` has found beside the policy's log-probabilities of the same tokens."""
        rows = [
            (prompt, one.token_ids.tolist())
            for prompt, one in zip([*self.prompts, self._asked_cooler], found, strict=True)
        ]
        scored, jittered = score_rows(policy, rows[:-1]), score_rows(policy, rows[:-1], jitter=True)
        return Evidence(
            policy=policy.identity,
            token_ids=tuple(int(token) for generation in found for token in generation.token_ids),
            by_engine=np.concatenate([generation.logprobs for generation in found]).astype(np.float64),
            by_trainer=np.concatenate([scored, score_tokens(policy, *rows[-1], _COOLER)]),
            lengths=tuple(len(generation.token_ids) for generation in found),
            sensitivity=float(np.abs(scored - jittered).mean()),
        )


def check_evidence(
    now: Evidence, before: Evidence | None, dtype: str, limit: float | None, engine: str = "the engine"
) -> Evidence:
    """Return the evidence, to be given as `before` after the next push, unless it shows other weights.

    `before` is the evidence of the push before this one, `dtype` the type of the weights; `limit` replaces the largest
    difference that is allowed for it; `engine` is the engine's name in messages. Raises EngineError if the difference
    is larger than rounding explains, or if the engine did not change as the trainer did.
    """
    limit = MAX_LOGPROB_DIFFERENCE[dtype] if limit is None else limit
    if not now.difference <= limit:
        raise EngineError(
            f"{engine} does not sample with the policy's weights: its log-probabilities of canary tokens differ by "
            f"{now.difference:.3g} from the trainer's, more than {limit:g}",
            where="rollout.max_logprob_difference",
            fix="if the first round already differs so much, the engine computes this model in another way: look at "
            "its log, or set rollout.engine: transformers",
        )
    if before is None:
        return now
    recent = (before.mean / before.limit(dtype), *before.recent)[: _TOGETHER - 1]
    first = before.first or dataclasses.replace(before, first=None, recent=())
    now = dataclasses.replace(now, first=first, recent=recent)
    limit, together = now.limit(dtype), float(np.mean([now.mean / now.limit(dtype), *recent]))
    is_long = len(recent) == _TOGETHER - 1
    if not now.mean <= limit or (is_long and together > _GROWTH_TOGETHER / _GROWTH):
        since = f" and {together * limit:.3g} over the last {_TOGETHER} pushes" if is_long else ""
        raise EngineError(
            f"{engine} does not sample with all of the policy's weights: its log-probabilities of canary tokens differ "
            f"by {now.mean:.3g} from the trainer's in the mean{since}, more than the {limit:.3g} that rounding "
            f"explains (or {limit * _GROWTH_TOGETHER / _GROWTH:.3g} over {_TOGETHER})",
            where="rollout.engine",
            fix="`rlft resume` starts anew; if it comes again please report it, and set rollout.engine: transformers",
        )
    if before.policy != now.policy:
        _refuse_one_that_stayed(now, before, dtype, engine)
    return now


def _refuse_one_that_stayed(now: Evidence, before: Evidence, dtype: str, engine: str) -> None:
    """Raise EngineError if the trainer's log-probabilities changed since the push before and the engine's did not.

    After a small update even old weights are within what rounding explains; but what it changes in the trainer, it must
    change in the engine as well.
    """
    alike = now.in_common(before)
    if not len(alike):
        return
    by_trainer, by_engine = (now.by_trainer - before.by_trainer)[alike], (now.by_engine - before.by_engine)[alike]
    moved, followed = float(np.abs(by_trainer).max()), float(np.abs(by_engine).max())
    noise = max(_CLOSER * before.difference, _NOISE[dtype])
    stayed = moved > _VISIBLE[dtype] and followed < moved / _CLOSER
    if stayed or float(np.abs(by_engine - by_trainer).max()) > max(noise, moved / 2):
        raise EngineError(
            f"{engine} still samples with the weights it had: the policy's log-probabilities of canary tokens moved "
            f"by {moved:.3g}, the engine's by {followed:.3g}",
            where="rollout.engine",
            fix="this is an error of the engine or of rlft: please report it; rollout.engine: transformers goes on",
        )


class Proof:
    """Asks engines their canaries after every push, and remembers what these showed of each, by its name.

    `limit` replaces the largest difference that is allowed.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._dtype = limit, ""
        self._canaries: Canaries | None = None
        self.evidence: dict[str, Evidence] = {}

    def begin(self, policy: Policy, context: int) -> Canaries:
        """Return the canaries of a run whose first policy this is, in an engine's context of so many tokens."""
        if self._canaries is None:
            self._canaries = Canaries(policy.model.config.get_text_config().vocab_size, context)
        return self._canaries

    def check(self, name: str, found: Sequence[Generation], policy: Policy) -> None:
        """Check what an engine has sampled for its canaries. Raises EngineError as `check_evidence` does."""
        assert self._canaries is not None, "begin first"
        now, self._dtype = self._canaries.compare(found, policy), policy.metadata.dtype
        self.evidence[name] = check_evidence(now, self.evidence.get(name), self._dtype, self._limit, engine=name)

    def metrics(self, names: Sequence[str]) -> dict[str, float]:
        """Return what the last push showed, of that of these engines where it is largest."""
        found = [self.evidence[name].metrics(self._dtype) for name in names]
        return {metric: max(each[metric] for each in found) for metric in (found[0] if found else ())}


_UNIT = {"float32": 2.0**-23, "bfloat16": 2.0**-8}  # the relative rounding of one number

Row = tuple[Sequence[int], Sequence[int]]  # a prompt and the tokens after it


def score_tokens(
    policy: Policy, prompt: Sequence[int], token_ids: Sequence[int], temperature: float = 1.0
) -> np.ndarray:
    """Return the natural log-probabilities (float64 [tokens]) that the policy gives these tokens after the prompt."""
    return _score(policy, [(prompt, token_ids)], temperature)


def score_rows(policy: Policy, rows: Sequence[Row], *, jitter: bool = False) -> np.ndarray:
    """Score all rows, neighbouring ones with prompts of one length together; `jitter` rounds embeddings differently."""
    with _jittered(policy) if jitter else nullcontext():
        groups = groupby(rows, key=lambda row: len(row[0]))
        return np.concatenate([_score(policy, list(group), 1.0) for _, group in groups])


@torch.no_grad()
def _score(policy: Policy, rows: Sequence[Row], temperature: float) -> np.ndarray:
    """Score rows whose prompts have one length; their tokens are padded on the right, where none of them sees it."""
    policy.model.eval()
    longest, start = max(len(tokens) for _, tokens in rows), len(rows[0][0])
    padded = [[*prompt, *tokens, *[0] * (longest - len(tokens))] for prompt, tokens in rows]
    ids = torch.tensor(padded, device=policy.device)
    hidden = policy.split.backbone(logits_to_keep=longest + 1, input_ids=ids, use_cache=False)
    logits = policy.split.head.logits(hidden)[:, :-1]
    chosen = (logits.double() / temperature).log_softmax(-1).gather(-1, ids[:, start:, None]).squeeze(-1).cpu().numpy()
    return np.concatenate([row[: len(tokens)] for row, (_, tokens) in zip(chosen, rows, strict=True)])


@contextmanager
def _jittered(policy: Policy) -> Iterator[None]:
    """Make every number of the embeddings one unit of rounding larger or smaller, by signs that are always the same."""

    def jitter(module: object, inputs: object, embedded: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(0)
        signs = torch.randint(2, embedded.shape, generator=draw).to(embedded.device, embedded.dtype) * 2 - 1
        return embedded * (1 + _UNIT.get(str(embedded.dtype).removeprefix("torch."), 2.0**-10) * signs)

    hook = policy.model.get_input_embeddings().register_forward_hook(jitter)
    try:
        yield
    finally:
        hook.remove()
