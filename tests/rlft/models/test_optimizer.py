"""AdamW by value, masters of short types, and state that goes on where it stopped."""

import math

import pytest
import torch
from torch import nn

from rlft.models.optimizer import Optimizer

RATE = 0.1


def parameters(dtype=torch.float32, **values):
    return {name: nn.Parameter(torch.tensor(value, dtype=dtype)) for name, value in values.items()}


def make(given, **options):
    return Optimizer(given, **({"betas": (0.9, 0.999), "weight_decay": 0.0} | options))


def backward(optimizer, gradients):
    """A pass whose gradients, in the types of the parameters, are those."""
    terms = [
        (p * torch.as_tensor(gradients[n], dtype=p.dtype)).sum()
        for n, p in optimizer.parameters.items()
        if n in gradients
    ]
    with optimizer.accumulating():
        sum(terms).backward()


def take_step(optimizer, gradients, rate=RATE, max_norm=1e9):
    backward(optimizer, gradients)
    norm = optimizer.clip(max_norm)
    optimizer.step(rate)
    return norm


def test_the_first_step_is_the_rate_in_the_direction_of_the_gradient():
    # moments g and g^2 after their correction: g / sqrt(g^2) = +-1, whatever the size
    given = parameters(weight=[1.0, 1.0, 1.0])
    take_step(make(given), {"weight": [0.5, -3.0, 0.0]})
    assert given["weight"].tolist() == pytest.approx([0.9, 1.1, 1.0])


def test_the_second_step_by_value():
    # gradients 1 and 3: m = 0.9 * 0.1 * 1 + 0.1 * 3 = 0.39, corrected by 1 - 0.81: 2.0526
    # v = 0.999 * 0.001 * 1 + 0.001 * 9 = 0.009999, corrected by 1 - 0.998001: 5.002
    given = parameters(weight=[1.0])
    optimizer = make(given)
    take_step(optimizer, {"weight": [1.0]})
    take_step(optimizer, {"weight": [3.0]})
    second = (0.39 / 0.19) / math.sqrt(0.009999 / 0.001999)
    assert given["weight"].item() == pytest.approx(0.9 - RATE * second, abs=1e-6)


def test_decay_is_apart_from_the_gradient():
    # 2 * (1 - 0.1 * 0.5) - 0.1
    given = parameters(weight=[2.0])
    take_step(make(given, weight_decay=0.5), {"weight": [1.0]})
    assert given["weight"].item() == pytest.approx(1.8)


def test_a_norm_above_the_limit_is_scaled_down():
    # (3, 4) has norm 5; scaled to 1: (0.6, 0.8). The limit holds for all parameters together.
    given = parameters(one=[3.0], other=[4.0])
    optimizer = make(given)
    for name, value in (("one", [3.0]), ("other", [4.0])):
        given[name].grad = torch.tensor(value)
    assert optimizer.clip(1.0) == pytest.approx(5.0)
    assert [given[name].grad.item() for name in ("one", "other")] == pytest.approx([0.6, 0.8], abs=1e-5)
    assert optimizer.clip(10.0) == pytest.approx(1.0, abs=1e-5)
    assert [given[name].grad.item() for name in ("one", "other")] == pytest.approx([0.6, 0.8], abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_short_types_go_to_their_masters(dtype):
    given = parameters(dtype, weight=[1.0, 2.0])
    optimizer = make(given)
    backward(optimizer, {"weight": [3.0, 4.0]})
    assert optimizer.clip(1.0) == pytest.approx(5.0)
    assert given["weight"].grad is None
    master = optimizer.masters["weight"]
    assert (master.dtype, master.grad.tolist()) == (torch.float32, pytest.approx([0.6, 0.8], abs=1e-5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_small_gradients_add_up(dtype):
    # 1 + 256 * 2^-9 = 1.5; the bfloat16 numbers above 1 are 2^-7 apart, so there every one of the 256 would be lost
    given = parameters(dtype, weight=[2.0])
    optimizer = make(given)
    with optimizer.accumulating():
        for gradient in [1.0] + 256 * [2**-9]:
            (gradient * given["weight"]).sum().backward()
    assert optimizer.clip(1e9) == 1.5
    assert optimizer.masters["weight"].grad.tolist() == [1.5]


def test_short_gradients_are_never_all_there():
    # a pass hands over each gradient before it makes the next one
    given = random_parameters(torch.bfloat16)
    optimizer = make(given)
    seen = []

    def look(gradient):
        seen.append([name for name, parameter in given.items() if parameter.grad is not None])

    for parameter in given.values():
        parameter.register_hook(look)
    backward(optimizer, random_gradients(1)[0])
    assert seen == [[], []]


def test_outside_of_it_gradients_stay_where_they_are():
    given = parameters(torch.bfloat16, weight=[2.0])
    optimizer = make(given)
    with pytest.raises(ZeroDivisionError), optimizer.accumulating():
        raise ZeroDivisionError
    given["weight"].sum().backward()
    assert given["weight"].grad.tolist() == [1.0]
    assert optimizer.masters["weight"].grad is None


def test_a_parameter_that_is_used_twice_has_one_gradient():
    given = parameters(torch.bfloat16, weight=[2.0])
    optimizer = make(given)
    with optimizer.accumulating():
        (given["weight"] * given["weight"]).sum().backward()  # 2 * 2
        (3 * given["weight"]).sum().backward()
    assert optimizer.masters["weight"].grad.tolist() == [7.0]


def test_float32_is_its_own_master():
    given = parameters(weight=[1.0])
    assert make(given).masters["weight"] is given["weight"]


def test_steps_too_small_for_bfloat16_add_up():
    # Below 1 the bfloat16 numbers are 2^-8 = 0.0039 apart. A step of 2e-6 is lost; 1000 of them are 0.002, more than
    # half of that distance, and the weight becomes the next number below 1.
    given = parameters(torch.bfloat16, weight=[1.0])
    optimizer = make(given)
    take_step(optimizer, {"weight": [1.0]}, rate=2e-6)
    assert given["weight"].item() == 1.0
    assert optimizer.masters["weight"].item() == pytest.approx(1 - 2e-6, abs=1e-7)
    for _ in range(999):
        take_step(optimizer, {"weight": [1.0]}, rate=2e-6)
    assert optimizer.masters["weight"].item() == pytest.approx(0.998, abs=4e-5)
    assert given["weight"].item() == 1 - 2**-8
    assert given["weight"].dtype == torch.bfloat16


def random_gradients(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [
        {
            "one": torch.randn(3, 2, generator=generator).to(dtype),
            "other": torch.randn(4, generator=generator).to(dtype),
        }
        for _ in range(count)
    ]


def random_parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    shapes = {"one": (3, 2), "other": (4,)}
    return {name: nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_steps_are_those_of_torch_in_float32(dtype):
    given = random_parameters(dtype)
    plain = {name: nn.Parameter(p.detach().float()) for name, p in given.items()}
    reference = torch.optim.AdamW(plain.values(), lr=RATE, betas=(0.8, 0.95), weight_decay=0.1)
    optimizer = make(given, betas=(0.8, 0.95), weight_decay=0.1)
    for gradients in random_gradients(20, dtype):
        for name, gradient in gradients.items():
            plain[name].grad = gradient.float().clone()  # clipping is in place
        expected_norm = nn.utils.clip_grad_norm_(plain.values(), 1.5)
        assert take_step(optimizer, gradients, max_norm=1.5) == pytest.approx(expected_norm.item())
        reference.step()
    for name, expected in plain.items():
        torch.testing.assert_close(optimizer.masters[name].detach(), expected.detach(), rtol=0, atol=1e-6)
        assert torch.equal(given[name].detach(), optimizer.masters[name].detach().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_stored_goes_on_as_if_it_had_never_stopped(dtype):
    gradients = random_gradients(8, dtype)
    whole, first = random_parameters(dtype), random_parameters(dtype)
    without_stop, before = make(whole), make(first)
    for each in gradients:
        take_step(without_stop, each)
    for each in gradients[:5]:
        take_step(before, each)
    stored = {name: tensor.clone() for name, tensor in before.tensors().items()}
    after = make({name: nn.Parameter(p.detach().clone()) for name, p in first.items()})
    after.load(stored, 5)
    for each in gradients[5:]:
        take_step(after, each)
    for name in whole:
        assert torch.equal(after.parameters[name], whole[name])
        assert torch.equal(after.masters[name], without_stop.masters[name])
    assert all(torch.equal(tensor, after.tensors()[name]) for name, tensor in without_stop.tensors().items())


def test_what_is_stored():
    long, short = make(random_parameters()), make(random_parameters(torch.bfloat16))
    assert (long.state, short.state, long.tensors(), short.tensors()) == (False, False, {}, {})
    for optimizer in (long, short):
        take_step(optimizer, random_gradients(1)[0])
        assert optimizer.state
    moments = {f"{name}.{moment}" for name in ("one", "other") for moment in ("exp_avg", "exp_avg_sq")}
    assert long.tensors().keys() == moments
    assert short.tensors().keys() == moments | {"one.master", "other.master"}
    assert {tensor.dtype for tensor in short.tensors().values()} == {torch.float32}


def test_a_parameter_without_a_gradient_stays():
    given = random_parameters(torch.bfloat16)
    optimizer = make(given, weight_decay=0.5)
    before = given["other"].detach().clone()
    take_step(optimizer, {"one": random_gradients(1)[0]["one"]})
    assert torch.equal(given["other"], before)
    assert not any(name.startswith("other") for name in optimizer.tensors())


def test_gradients_are_forgotten():
    given = random_parameters()
    optimizer = make(given)
    take_step(optimizer, random_gradients(1)[0])
    assert all(p.grad is None for p in given.values())
    for parameter in given.values():
        parameter.grad = torch.ones_like(parameter)
    optimizer.zero_grad()
    assert all(p.grad is None for p in given.values())
    assert optimizer.clip(1.0) == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_no_number_is_told(bad):
    given = parameters(weight=[1.0, 2.0])
    optimizer = make(given)
    given["weight"].grad = torch.tensor([bad, 1.0])
    assert not math.isfinite(optimizer.clip(1.0))
    assert given["weight"].tolist() == [1.0, 2.0]
