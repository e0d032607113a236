"""Running real serving engines in tests, each in the environment that scripts/setup_engine.sh has made for it."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

from safetensors.torch import load_file, save_file
from ttap_command import TTAP

ROOT = Path(__file__).resolve().parents[2]


class Environment:
    programs = ROOT / "tests/serving"

    def __init__(self, name):
        self.python = ROOT / ".engines" / name / "bin/python"
        self.installed = (ROOT / ".engines" / name / "requirements-met").exists()

    def variables(self, **more):
        cache = ROOT / ".engines/cache"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TTAP_")}
        return kept | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CACHE_ROOT": str(cache / "vllm"),
            "SGLANG_USE_CPU_ENGINE": "1",
            "XDG_CACHE_HOME": str(cache),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            **more,
        }

    def run(self, *words, **more):
        done = subprocess.run(
            [str(word) for word in words], env=self.variables(**more), capture_output=True, text=True, timeout=800
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def recorded(self, directory, program, *words, options=(), **more):
        """Runs a program under `ttap run`; the tokens that it printed."""
        out = self.run(
            TTAP, "run", *options, "-o", directory, "--", self.python, self.programs / program, *words, **more
        )
        return json.loads(next(line for line in out.splitlines() if line.startswith("[[")))

    def saver(self, tmp_path_factory):
        """A function that saves a model by its name, once, and says where."""

        @functools.cache
        def save(name):
            directory = tmp_path_factory.mktemp(name)
            self.run(self.python, self.programs / "models.py", directory, name)
            return directory

        return save


def leaf_results(diff):
    """Which results of the reference's modules were compared, of all; attention is a function there."""
    results = [tensor for tensor in diff.tensors if tensor.verdict != "extra" and "@" not in tensor.key]
    results = [tensor for tensor in results if not tensor.key.endswith(".self_attn.attn")]
    return sum(tensor.verdict != "missing" for tensor in results), len(results)


def edited_copy(saved_model, to, *, config=(), swapped=None, rows=(3, 7)):
    """A saved model with other values in its configuration, or two rows of a weight swapped."""
    shutil.copytree(saved_model, to)
    if config:
        read = json.loads((to / "config.json").read_text())
        *way, last = config[0].split(".")
        holder = read
        for name in way:
            holder = holder[name]
        holder[last] = config[1]
        (to / "config.json").write_text(json.dumps(read))
    if swapped:
        weights = load_file(to / "model.safetensors")
        weights[swapped][list(rows)] = weights[swapped][list(rows[::-1])].clone()
        save_file(weights, to / "model.safetensors", metadata={"format": "pt"})
    return to
