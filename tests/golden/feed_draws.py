"""Writes feed_draws.txt: draws by weights, by an independent reading of docs/feed.md.

Run: python3 tests/golden/feed_draws.py > tests/golden/feed_draws.txt
Each line: seed epoch, then the weights, a colon, and the samples drawn, position by position.
"""

from fractions import Fraction
from math import ceil

from feed_order import below, stream

DRAW = 6


def whole_numbers(weights):
    """The weights as whole numbers, whose sum is at most 2^63."""
    largest = Fraction(max(weights))
    scale = Fraction(1)  # the power of two that brings the largest into [1/2, 1)
    while largest * scale >= 1:
        scale /= 2
    while largest * scale < Fraction(1, 2):
        scale *= 2
    scale *= 2 ** (63 - len(weights).bit_length())
    return [ceil(Fraction(weight) * scale) for weight in weights]


def draws(weights, seed, epoch, count):
    wholes = whole_numbers(weights)
    for position in range(count):
        at = below(sum(wholes), stream(seed, DRAW, epoch, position))
        sample = 0
        while at >= wholes[sample]:
            at -= wholes[sample]
            sample += 1
        yield sample


if __name__ == "__main__":
    for seed, epoch, weights in [
        (0, 0, [1.0, 2.0, 3.0]),
        (0, 1, [1.0, 2.0, 3.0]),
        (2**64 - 1, 2**32 - 1, [0.0, 0.1, 0.0, 0.7, 1e-300, 0.2, 0.0]),
        (7, 3, [5e-324]),
        (7, 3, [1.7e308, 1.7e308, 1e308]),
        (3, 5, [1 / (n + 1) for n in range(100)]),
        (4, 0, [(n * 7 % 31) * 0.1 for n in range(1000)]),
    ]:
        texts = [weight.hex() for weight in weights]
        print(seed, epoch, *texts, ":", *draws(weights, seed, epoch, 200))
