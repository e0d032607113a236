"""Programs that are not the same twice, each in one way; `python differing.py NAME` runs one.

What a coin decides in real programs is decided here by how often a program ran: it differs each time.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Program:
    """One that differs, and where: `op` makes or receives the first other bits, by one of these `kinds`."""

    name: str
    run: Callable[[], object]
    op: str
    kinds: tuple[str, ...]
    needs: str = ""  # "gpu", "processes": the difference is between processes, not between two calls in one


PROGRAMS: list[Program] = []


def differs(op: str, *kinds: str, needs: str = "") -> Callable[[Callable[[], object]], Callable[[], object]]:
    def add(run: Callable[[], object]) -> Callable[[], object]:
        PROGRAMS.append(Program(run.__name__, run, op, kinds, needs))
        return run

    return add


_calls = 0


def ran_before() -> bool:
    """Alternates: between processes with a file, within one by counting."""
    global _calls
    state = os.environ.get("REPEATS_STATE")
    if not state:
        _calls += 1
        return _calls % 2 == 0
    before = Path(state).exists()
    Path(state).touch()
    return before


def work(x: torch.Tensor) -> torch.Tensor:
    """What follows: it receives what differs."""
    return torch.softmax(x.float().reshape(1, -1) * 0.1, -1).cumsum(-1)


# ---- random numbers ----


@differs("aten::uniform_", "draw")
def weights_without_a_seed() -> None:
    work(nn.Linear(8, 8)(torch.ones(2, 8)))


@differs("aten::bernoulli_.float", "draw")
def dropout_without_a_seed() -> None:
    x = torch.ones(64, requires_grad=True)
    work(nn.functional.dropout(x * 2)).sum().backward()


@differs("aten::randn.generator", "draw")
def generator_without_a_seed() -> None:
    torch.manual_seed(0)
    generator = torch.Generator()
    generator.seed()
    work(torch.randn(8) + torch.randn(8, generator=generator))


@differs("aten::rand", "draw")
def seed_from_the_clock() -> None:
    torch.manual_seed(time.time_ns())
    work(torch.rand(8))


@differs("aten::multinomial", "draw")
def sampling_without_a_seed() -> None:
    work(torch.multinomial(torch.arange(1.0, 1000.0), 64, replacement=True))


@differs("aten::random_", "draw")
def loader_that_shuffles() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        work(batch)


@differs("aten::rand", "calls")
def extra_draw() -> None:
    torch.manual_seed(0)
    if ran_before():
        torch.rand(1)
    work(torch.rand(8))


@differs("aten::rand", "order")
def draws_in_another_order() -> None:
    torch.manual_seed(0)
    sizes = (5, 3) if ran_before() else (3, 5)
    made = {size: torch.rand(size) for size in sizes}
    work(torch.cat([made[3], made[5]]))


# ---- what Python does ----


@differs("aten::mul.Tensor", "argument")
def random_number_of_python() -> None:
    work(torch.ones(8) * random.random())


@differs("aten::add.Tensor", "argument")
def clock() -> None:
    work(torch.ones(8) + time.time() % 97)


@differs("aten::mul.Tensor", "argument", needs="processes")
def hash_of_a_string() -> None:
    work(torch.ones(8) * (hash("layer") % 100003))


@differs("aten::mul.Tensor", "argument", needs="processes")
def id_of_an_object() -> None:
    work(torch.ones(8) * (id(object) // 4096 % 100003))


@differs("aten::mul.Tensor", "argument", needs="processes")
def environment() -> None:
    work(torch.ones(8) * os.getpid())


@differs("aten::zeros", "argument")
def size_that_differs() -> None:
    work(torch.zeros(9 if ran_before() else 8) + 1)


@differs("aten::add.Tensor", "order", needs="processes")
def order_of_a_set() -> None:
    torch.manual_seed(0)
    parts = {f"layer{i}": torch.randn(8).exp() for i in range(16)}
    total = torch.zeros(8)
    for name in set(parts):
        total = total + parts[name]
    work(total)


@differs("aten::add.Tensor", "order")
def order_of_a_dict() -> None:
    torch.manual_seed(0)
    names = ["one", "two", "three"]
    losses = {name: torch.randn(8).exp() for name in names}
    total = torch.zeros(8)
    for name in reversed(names) if ran_before() else names:
        total = total + losses[name]
    work(total)


@differs("aten::exp", "calls")
def branch() -> None:
    x = torch.linspace(0, 1, 8)
    work(x.exp() if ran_before() else x * 2)


@differs("aten::mul.Tensor", "calls")
def loop_until_a_time() -> None:
    x = torch.ones(8)
    for _ in range(7 if ran_before() else 5):
        x = x * 1.5
    work(x)


# ---- data ----


@differs("aten::lift_fresh", "data")
def random_numbers_of_numpy() -> None:
    work(torch.as_tensor(np.random.rand(8)) + 1)


@differs("aten::add.Tensor", "order")
def order_of_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in reversed(range(4)) if ran_before() else range(4):
            np.save(Path(folder) / f"{len(os.listdir(folder))}.npy", np.full(8, number + 0.5))
        total = torch.zeros(8)
        for file in sorted(Path(folder).iterdir()):
            total = total * 0.5 + torch.as_tensor(np.load(file))
    work(total)


@differs("aten::lift_fresh", "data")
def what_the_first_run_left() -> None:
    cached = np.full(8, 2.0 if ran_before() else 1.0)
    work(torch.as_tensor(cached) - 1)


@differs("aten::mul.Tensor", "data")
def write_through_an_alias() -> None:
    x = torch.ones(8)
    y = x + 1
    x.numpy()[:] = time.time() % 97  # PyTorch does not see it
    work(x * y)


# ---- memory, threads, kernels ----


@differs("aten::add.Tensor", "uninitialised", needs="processes")
def memory_that_nobody_wrote_to() -> None:
    work(torch.empty(1000) + 1)


@differs("aten::mul.Tensor", "uninitialised", needs="processes")
def memory_written_to_in_part() -> None:
    x = torch.empty(1000)
    x[:500] = 1
    work(x * 2)


@differs("aten::sum", "rounding")
def number_of_threads() -> None:
    torch.manual_seed(0)
    rows = torch.randn(8, 100_000)
    before = torch.get_num_threads()
    torch.set_num_threads(1 if ran_before() else 2)
    work(torch.stack([row.sum() for row in rows]))
    torch.set_num_threads(before)


@differs("aten::mul.Tensor", "order")
def threads_that_write_to_one_buffer() -> None:
    buffer, late = torch.zeros(8), int(ran_before())

    def write(number: int) -> None:
        time.sleep(0.2 * (number == late))
        buffer.copy_(torch.full((8,), float(number)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(buffer * 2)


@differs("aten::add.Tensor", "order")
def results_as_threads_end() -> None:
    late = int(ran_before())

    def result(number: int) -> torch.Tensor:
        time.sleep(0.2 * (number == late))
        return torch.full((8,), number + 0.1).exp()

    total = torch.zeros(8)
    with ThreadPoolExecutor(2) as pool:
        for future in as_completed([pool.submit(result, number) for number in range(2)]):
            total = total * 0.5 + future.result()
    work(total)


@torch.library.custom_op("repeats::counting", mutates_args=())
def counting(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() + (2.0 if ran_before() else 1.0))


@differs("repeats::counting", "kernel")
def kernel_that_keeps_state() -> None:
    work(torch.ops.repeats.counting(torch.ones(8)))


@differs("aten::index_add", "rounding", "kernel", needs="gpu")
def index_add_on_a_gpu() -> None:
    torch.manual_seed(0)
    values, places = torch.randn(1_000_000, device="cuda"), torch.randint(8, (1_000_000,), device="cuda")
    work(torch.zeros(8, device="cuda").index_add(0, places, values))


@differs("aten::scatter_add", "rounding", "kernel", needs="gpu")
def scatter_add_on_a_gpu() -> None:
    torch.manual_seed(0)
    values, places = torch.randn(1_000_000, device="cuda"), torch.randint(8, (1_000_000,), device="cuda")
    work(torch.zeros(8, device="cuda").scatter_add(0, places, values))


if __name__ == "__main__":
    next(program for program in PROGRAMS if program.name == sys.argv[1]).run()
