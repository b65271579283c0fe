"""AdamW (arXiv:1711.05101) that computes in float32 whatever type the model has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from rlft.models.sharding import sharded_as, whole

_HALF = (torch.float16, torch.bfloat16)
MOMENTS = ("exp_avg", "exp_avg_sq")
MASTER = "master"


class Optimizer:
    """Takes AdamW's steps on float32 masters, which are copies of the parameters, and copies them back.

    A step of learning rate 1e-6 is smaller than the distance between two bfloat16 numbers: without masters it would
    be lost. A parameter that is float32 already is its own master. The learning rate is given with each step.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, betas: tuple[float, float], weight_decay: float):
        self.parameters = dict(parameters)
        self.masters = {name: _master(parameter) for name, parameter in self.parameters.items()}
        self.adamw = torch.optim.AdamW(
            list(self.masters.values()), lr=0.0, betas=betas, weight_decay=weight_decay, fused=True
        )

    @property
    def state(self) -> bool:
        """Whether a step was ever taken, here or before the state was loaded."""
        return bool(self.adamw.state)

    def zero_grad(self) -> None:
        """Drop all gradients, of parameters and masters."""
        for tensor in (*self.parameters.values(), *self.masters.values()):
            tensor.grad = None

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Add up the gradients of any number of backward passes inside the context in float32, in the masters.

        A sum in bfloat16 would lose addends below a 256th of it. Each parameter's gradient is handed to its master as
        soon as a pass has computed it, so that those of half precision do not all take memory at the same time.
        """
        with ExitStack() as hooks:
            for name, master in self.masters.items():
                if master is not self.parameters[name]:
                    hook = self.parameters[name].register_post_accumulate_grad_hook(partial(_hand_over, master))
                    hooks.callback(hook.remove)
            yield

    def clip(self, max_norm: float) -> float:
        """Scale the gradients down to a norm of at most `max_norm`; return the norm before."""
        return float(whole(nn.utils.clip_grad_norm_(list(self.masters.values()), max_norm)))

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Change the parameters by the gradients that have added up, and drop these."""
        for group in self.adamw.param_groups:
            group["lr"] = learning_rate
        self.adamw.step()
        for name, master in self.masters.items():
            if master is not self.parameters[name]:
                self.parameters[name].copy_(master)
        self.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        """Return what is to be stored, by parameter name: moments, and masters where they are copies, all as they are.

        AdamW's step counter is not part of it, as it is the policy's `metadata.update`.
        """
        found: dict[str, Tensor] = {}
        for name, master in self.masters.items():
            if master in self.adamw.state:
                found |= {f"{name}.{moment}": self.adamw.state[master][moment] for moment in MOMENTS}
                if master is not self.parameters[name]:
                    found[f"{name}.{MASTER}"] = master
        return {name: tensor.detach() for name, tensor in found.items()}

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Load what `tensors` returned after so many `steps`."""
        for name, master in self.masters.items():
            if f"{name}.{MOMENTS[0]}" not in tensors:
                continue
            moments = {moment: sharded_as(tensors[f"{name}.{moment}"], master) for moment in MOMENTS}
            self.adamw.state[master] = {"step": torch.tensor(float(steps), device=master.device), **moments}
            if f"{name}.{MASTER}" in tensors:
                with torch.no_grad():
                    master.copy_(sharded_as(tensors[f"{name}.{MASTER}"], master))


def _master(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().float()) if parameter.dtype in _HALF else parameter


def _hand_over(master: nn.Parameter, parameter: Tensor) -> None:
    """Add a parameter's gradient to that of its master, and drop it."""
    assert parameter.grad is not None
    if master.grad is None:
        master.grad = parameter.grad.float()
    else:
        master.grad += parameter.grad
    parameter.grad = None
