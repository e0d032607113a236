"""What both programs are asked: prompts of different lengths, as tokens."""


def prompts(count):
    return [[(7 * i + 3 * k * k + 5) % 300 + 3 for k in range(9 + (5 * i) % 11)] for i in range(count)]
