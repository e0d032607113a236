"""Programs that are the same twice, though each has what often is not; `python repeating.py NAME` runs one."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn
from torch.nn import functional

PROGRAMS: dict[str, Callable[[], object]] = {}


def repeats(run: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS[run.__name__] = run
    return run


def train(model: nn.Module, *sample: torch.Tensor, steps: int = 3) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(steps):
        made = model(*sample)
        made = made[0] if isinstance(made, tuple) else made
        made.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@repeats
def dropout_with_a_seed() -> None:
    torch.manual_seed(0)
    train(nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 4)), torch.randn(8, 16))


@repeats
def convolution() -> None:
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    train(nn.Sequential(*layers), torch.randn(4, 3, 16, 16))


@repeats
def recurrence() -> None:
    torch.manual_seed(0)
    train(nn.LSTM(8, 16, num_layers=2, dropout=0.1), torch.randn(5, 4, 8))


@repeats
def transformer() -> None:
    torch.manual_seed(0)
    train(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), torch.randn(2, 7, 32))


@repeats
def attention() -> None:
    torch.manual_seed(0)
    q = torch.randn(2, 4, 16, 8, requires_grad=True)
    functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


@repeats
def bags_of_embeddings() -> None:
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(50, 8, mode="max")
    bag(torch.randint(50, (12,)), torch.tensor([0, 5, 9])).sum().backward()


@repeats
def embedding_with_repeated_rows() -> None:
    torch.manual_seed(0)
    table = nn.Embedding(10, 8)
    table(torch.randint(10, (4, 64))).square().sum().backward()


@repeats
def scatter_with_repeated_places() -> None:
    torch.manual_seed(0)
    places, values = torch.randint(8, (1000,)), torch.randn(1000)
    torch.zeros(8).scatter_add(0, places, values)
    torch.zeros(8).index_add(0, places, values)
    torch.zeros(8).index_put((places,), values, accumulate=True)


@repeats
def loader_with_a_seed() -> None:
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        batch.exp().sum()


@repeats
def loader_with_workers() -> None:
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=2):
        batch.exp().sum()


@repeats
def pool_of_threads() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(32, 16)
    with ThreadPoolExecutor(4) as pool:
        torch.stack(list(pool.map(lambda x: x.softmax(0) @ x, inputs))).sum()


@repeats
def generator_of_each_thread() -> None:
    def draw(number: int) -> torch.Tensor:
        return torch.randn(8, generator=torch.Generator().manual_seed(number)).exp()

    with ThreadPoolExecutor(4) as pool:
        torch.stack(list(pool.map(draw, range(16)))).sum()


@repeats
def threads_with_a_lock() -> None:
    buffer, lock, turn = torch.zeros(8), threading.Condition(), [0]

    def write(number: int) -> None:
        with lock:
            lock.wait_for(lambda: turn[0] == number)
            buffer.mul_(0.5).add_(number)
            turn[0] += 1
            lock.notify_all()

    threads = [threading.Thread(target=write, args=(number,)) for number in (2, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.sum()


@repeats
def memory_that_is_written_to_first() -> None:
    x = torch.empty(1000)
    x.copy_(torch.arange(1000))
    y = torch.empty(2, 8)
    y[0], y[1] = x[:8], x[8:16]
    torch.add(x, 1, out=torch.empty(1000)).sum() + y.sum()


@repeats
def numpy_with_a_seed() -> None:
    random.seed(0)
    x = torch.as_tensor(np.random.default_rng(0).random(64)) * random.random()
    x.numpy()[:] *= 2
    (x + 1).sum()


@repeats
def set_that_is_sorted() -> None:
    torch.manual_seed(0)
    parts = {f"layer{i}": torch.randn(8).exp() for i in range(16)}
    total = torch.zeros(8)
    for name in sorted(set(parts)):
        total = total + parts[name]


@repeats
def narrow_arithmetic() -> None:
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        train(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 8)), torch.randn(8, 64))


@repeats
def second_derivative() -> None:
    torch.manual_seed(0)
    x = torch.randn(16, requires_grad=True)
    (first,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
    first.square().sum().backward()


@repeats
def recomputed_activations() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.ReLU())
    x = torch.randn(4, 16, requires_grad=True)
    torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()


@repeats
def spectra_and_sorting() -> None:
    torch.manual_seed(0)
    x = torch.randn(256)
    torch.fft.rfft(x).abs().sort(descending=True).values.cumsum(0)
    torch.linalg.svd(torch.randn(16, 16)).S.sum()
    x.topk(8).values.unique()


@repeats
def numbers_read_by_python() -> None:
    torch.manual_seed(0)
    x = torch.randn(8)
    while x.abs().max().item() > 0.1:
        x = x * 0.5
    [x + number for number in x.tolist()]


@repeats
def functions_of_batches() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(8, 4), torch.randn(16, 4)
    torch.func.vmap(torch.func.grad(lambda row: (weight @ row).tanh().sum()))(x)


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
