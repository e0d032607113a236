"""What both programs are asked: prompts of different lengths, as tokens."""


def prompts(count, shared=0):
    """`shared`: so many tokens are the same at the beginning of all."""
    beginning = [(11 * k + 2 * k * k) % 290 + 8 for k in range(shared)]
    return [beginning + [(7 * i + 3 * k * k + 5) % 300 + 3 for k in range(9 + (5 * i) % 11)] for i in range(count)]
