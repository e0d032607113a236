"""What the tests of ops rest on: the models run, give the same each time, and can be trained."""

import pytest
import torch
from traced_models import MODELS, loss_of


def numbers(output):
    parts = output.values() if isinstance(output, dict) else output
    return [output] if torch.is_tensor(output) else [each for each in parts if torch.is_tensor(each)]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_each_time_it_is_built(name):
    def forward():
        model, args, kwargs = MODELS[name]()
        assert not model.training
        with torch.no_grad():
            return numbers(model(*args, **kwargs))

    first, second = forward(), forward()
    assert first
    assert all(torch.isfinite(each).all() for each in first)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_its_loss_reaches_the_parameters(name):
    model, args, kwargs = MODELS[name]()
    loss_of(model.train()(*args, **kwargs)).backward()
    with_gradient = [each for each in model.parameters() if each.grad is not None and each.grad.any()]
    assert len(with_gradient) > 0.8 * len(list(model.parameters()))
