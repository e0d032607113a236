"""The graphs of torch.compile: every node recorded, and compiled graphs held against interpreted ones."""
