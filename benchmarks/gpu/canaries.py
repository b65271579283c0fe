"""The tolerance of the canaries: how near rounding comes to it, and how far beyond it stale weights are.

    python -m benchmarks.gpu.canaries '{"prompt_tokens": 8, "steps": 5, ...}' --engine transformers

Every round changes all weights and asks the canaries. With `vllm` the engine proves itself, as in a run. With
`transformers` its token-by-token sampling stands in for another implementation: other shapes, other rounding. Shares
are parts of what stops a run (1 stops it): `largest_mean_share` of the limit of the mean, `largest_token_share` of the
largest difference that one token may have. At the end the same is asked of an engine with the weights of the start.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.grpo_workload import SEED, Workload, write_model
from benchmarks.rollout_sides import change_weights, make_config
from rlft.engines.proof import MAX_LOGPROB_DIFFERENCE, Canaries, Evidence, check_evidence
from rlft.engines.transformers_engine import TransformersEngine
from rlft.errors import EngineError
from rlft.models import Policy
from rlft.models.origin import create_policy


def measure(workload: Workload, folder: Path, engine_name: str) -> dict[str, Any]:
    """Every round's evidence, and that of stale weights."""
    config = make_config(engine_name, folder, workload, 1.0, [])
    policy, stale = (create_policy(config.policy, seed=SEED) for _ in range(2))
    canaries = Canaries(policy.model.config.vocab_size, policy.context_length)
    settings = config.rollout.engine_settings()
    engine: Any = settings.kind.on(workload.device).create(settings, config.rollout.batch_size)
    found: list[Evidence] = []
    before = None
    for number in range(workload.steps + 1):
        change_weights(policy, number)
        engine.load_policy(policy)
        if engine_name == "transformers":
            before = check_evidence(canaries.ask(_sampler(engine), policy), before, workload.dtype, None)
        else:
            [before] = engine.proof.evidence.values()
        found.append(before)
    engine.close()
    old = canaries.ask(_sampler(_loaded(stale)), policy)
    seen = _is_refused(old, found[-1], workload.dtype)
    largest = MAX_LOGPROB_DIFFERENCE[workload.dtype]
    return {
        "engine": engine_name,
        "first_mean": found[0].mean,
        "largest_mean_share": max(one.mean / one.limit(workload.dtype) for one in found),
        "largest_token_share": max(one.difference for one in found) / largest,
        "stale_mean_share": old.mean / found[-1].limit(workload.dtype),
        "stale_refused": seen,
        "rounds": [{"mean": one.mean, "largest": one.difference, "sensitivity": one.sensitivity} for one in found],
    }


def _loaded(policy: Policy) -> TransformersEngine:
    engine = TransformersEngine()
    engine.load_policy(policy)
    return engine


def _sampler(engine: Any) -> Any:
    return lambda prompts, sampling, seeds: engine.generate(prompts, sampling, list(seeds))


def _is_refused(now: Evidence, before: Evidence, dtype: str) -> bool:
    try:
        check_evidence(now, before, dtype, None)
    except EngineError:
        return True
    return False


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=json.loads, help="JSON of `Workload`; `steps` are the rounds after the first")
    parser.add_argument("--engine", choices=["transformers", "vllm"], default="transformers")
    parser.add_argument("--folder", type=Path, help="with a model that `write_model` wrote; else it is written anew")
    options = parser.parse_args()
    workload = Workload(**options.workload)
    with tempfile.TemporaryDirectory() as place:
        if options.folder is None:
            write_model(workload, Path(place))
        found = measure(workload, options.folder or Path(place), options.engine)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
