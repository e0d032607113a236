"""What an engine does: the rows of several requests in one step."""

import tensortap as tap
import torch

PROMPTS = [[5, 9, 11, 3, 8], [7, 2, 6], [12, 4, 10, 9, 1, 13, 3]]
WIDTH, VOCABULARY = 16, 32


@torch.no_grad()
def run_packed(model, directory, chunks, padding=0, **options):
    """`chunks`: for each step, (request, first position, end) of every request."""
    with tap.record(model, directory, report=False, **options):
        for chunk in chunks:
            tokens = [token for request, first, end in chunk for token in PROMPTS[request][first:end]]
            positions = [place for _, first, end in chunk for place in range(first, end)]
            starts = [0]
            for _, first, end in chunk:
                starts.append(starts[-1] + end - first)
            pad = [0] * padding
            tap.batch(
                request_ids=[str(request) for request, _, _ in chunk],
                positions=torch.tensor(positions + pad),
                query_start=starts,
                token_ids=torch.tensor(tokens + pad),
            )
            model(torch.tensor(tokens + pad), torch.tensor(starts[1:]) - 1)


WHOLE = [(2, 0, 7), (0, 0, 5), (1, 0, 3)]
