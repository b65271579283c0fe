"""Results as Markdown that can be pasted into docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Record = dict[str, Any]
STEP = (
    "prompts | trained | sampling by | TRL, s | rlft, s | TRL / rlft | sampling, s | training, s | memory, MiB | share"
)


def to_markdown(machine: Record, records: Sequence[Record]) -> str:
    """All that was measured, and below it what was not, with the reason."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record["state"] == "measured":
            found.setdefault(record["kind"], []).append(record)
    lines = [f"{describe(machine)}", ""]
    if steps := found.pop("step", None):
        lines += [f"| {STEP} |", "|---" * (STEP.count("|") + 1) + "|", *map(_step, steps), ""]
    rows = [row for kind, many in found.items() for record in many for row in FIGURES[kind](record["result"])]
    if rows:
        lines += ["| what | figure |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows), ""]
    for state in ("lacking", "not run", "failed"):
        lines += [f"- {state}: {row['part']}: {row['reason']}" for row in records if row["state"] == state]
    return "\n".join(lines).strip() + "\n"


def describe(machine: Record) -> str:
    """One line: where, with what, when."""
    gpu = f"{machine['gpu']}, driver {machine['driver']}" if machine.get("gpu") else "no GPU"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    rehearsal = "a rehearsal, of no worth as a measurement: " if machine["rehearsal"] else ""
    return f"{rehearsal}{gpu}, {machine['cores']} cores, Python {machine['python']}, {versions}, {machine['date']}."


def _step(record: Record) -> str:
    found, sizes = record["result"], record["result"]["workload"]
    pairs = [
        f"{found[f'trl_{name}']:.2f} : {found[f'rlft_{name}']:.2f}" for name in ("sampling_seconds", "training_seconds")
    ]
    shares = f"{found['trl_share_of_matrix_peak']:.2f} : {found['share_of_matrix_peak']:.2f}"
    cells = [
        f"{sizes['groups']} x {sizes['group_size']} of {sizes['prompt_tokens']:,}",
        "LoRA" if sizes["lora"] else "full",
        found["engine"],
        f"{found['trl_seconds']:.2f}",
        f"{found['rlft_seconds']:.2f}",
        f"**{found['ratio']:.2f}**",
        *pairs,
        f"{found['trl_peak_mib']:,.0f} : {found['rlft_peak_mib']:,.0f}",
        shares,
    ]
    return f"| {' | '.join(cells)} |"


def _kernels(found: Record) -> Iterator[tuple[str, str]]:
    base = found["kinds"]["none"]
    for kind, row in found["kinds"].items():
        figure = (
            f"{row['seconds'] * 1000:.0f} ms ({row['seconds'] / base['seconds']:.2f}), {row['peak_mib']:,.0f} MiB; "
        )
        figure += f"from float64 {row['difference']:.4f}, gradients {row['difference_of_gradients']:.4f}"
        yield f"norm, SwiGLU, rotary by `{kind}`, {found['tokens']:,} tokens forward and backward", figure
    for kind, reason in found["lacking"].items():
        yield f"norm, SwiGLU, rotary by `{kind}`", f"lacking: {reason}"


def _canaries(found: Record) -> Iterator[tuple[str, str]]:
    healthy = f"{found['largest_mean_share']:.2f} of the mean's limit, {found['largest_token_share']:.2f} of a token's"
    yield f"canaries of `{found['engine']}`, the most of {len(found['rounds'])} rounds (1 stops a run)", healthy
    verdict = "refused" if found["stale_refused"] else "NOT REFUSED"
    yield f"canaries of `{found['engine']}`, stale weights", f"{found['stale_mean_share']:.1f}, {verdict}"


def _rollout(found: Record) -> Iterator[tuple[str, str]]:
    for row in found["rows"]:
        share = row["share_of_bare_vllm"]
        figure = f"{row['tokens_per_second']:,.0f} tokens a second" + (
            "" if share is None else f", {share:.2f} of bare"
        )
        figure += f", push {row['push_seconds']:.3f} s, proof {row['proof_seconds']:.3f} s"
        yield f"sampling by `{row['side']}`, prompts of {row['prompt_tokens']:,}", figure


def _sleeping(found: Record) -> Iterator[tuple[str, str]]:
    for name, row in found.items():
        figure = (
            f"{row['seconds']:.2f} s (sampling {row['sampling_seconds']:.2f}), {row['used_mib']:,.0f} MiB taken after"
        )
        yield f"step with vLLM {name} in training", figure


def _logprobs(found: Record) -> Iterator[tuple[str, str]]:
    name = f"log-probabilities, {found['tokens']:,} tokens, vocabulary {found['vocabulary']:,}, width {found['width']}"
    yield name, f"{found['peak_mib']:,.0f} MiB beyond the inputs, {found['seconds']:.2f} s"


def _profiling(found: Record) -> Iterator[tuple[str, str]]:
    for part, row in found.items():
        top = ", ".join(f"{name.split('(')[0][:40]} {seconds:.3f} s" for name, seconds, _ in row["kernels"][:3])
        yield f"{part} under the profiler", f"{row['seconds']:.2f} s, {row['busy']:.2f} busy; {top}"


FIGURES: dict[str, Callable[[Record], Iterator[tuple[str, str]]]] = {
    "kernels": _kernels,
    "canaries": _canaries,
    "rollout": _rollout,
    "sleeping": _sleeping,
    "logprobs": _logprobs,
    "profiling": _profiling,
}
