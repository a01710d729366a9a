"""Writes feed_order.txt: the orders of epochs, by an independent reading of docs/feed.md.

Run: python3 tests/golden/feed_order.py > tests/golden/feed_order.txt
Each line is "seed epoch lanes group_bytes repeats : samples", with the epoch's samples in the order
of their positions.
"""

M32, M64 = 2**32 - 1, 2**64 - 1
CHUNK_ORDER, GROUP_ORDER = 2, 3


def philox(c, k):
    c, k = list(c), list(k)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def stream(seed, purpose, a, b):
    key = philox([purpose, 0, 0, 0], [seed & M32, seed >> 32])[:2]
    block = 0
    while True:
        words = philox([block & M32, ((b >> 32) << 16) + (block >> 32), b & M32, a], key)
        yield words[0] | words[1] << 32
        yield words[2] | words[3] << 32
        block += 1


def below(bound, numbers):
    while True:  # Lemire's method: the high half of a product; biased low halves are refused
        product = next(numbers) * bound
        if product & M64 >= 2**64 % bound:
            return product >> 64


def shuffle(items, numbers):
    for left in range(len(items), 1, -1):
        at = below(left, numbers)
        items[left - 1], items[at] = items[at], items[left - 1]


def order(chunks, seed, epoch, lanes, group_bytes, repeats):
    """Returns the samples of an epoch; `chunks` holds (samples, bytes) of each chunk."""
    firsts = [sum(n for n, _ in chunks[:i]) for i in range(len(chunks))]
    numbers = list(range(len(chunks)))
    shuffle(numbers, stream(seed, CHUNK_ORDER, epoch, 0))
    line = [
        (firsts[c] + i, chunks[c][1] // max(chunks[c][0], 1))
        for c in numbers
        for i in range(chunks[c][0])
    ]
    total = len(line)
    budget_full = max(group_bytes, sum(b for _, b in chunks) // len(chunks))
    lanes = min(lanes, total)
    out = [None] * total
    at = 0
    for lane in range(lanes):
        size = -(-(total - lane) // lanes)
        lane_line, at = line[at : at + size], at + size
        groups, used = [[]], 0
        for sample, size_bytes in lane_line:
            budget = budget_full // lanes * (lane + 1) if len(groups) == 1 else budget_full
            if groups[-1] and used + size_bytes > budget:
                groups.append([])
                used = 0
            groups[-1].append(sample)
            used += size_bytes
        shuffled = []
        for number, group in enumerate(groups):
            shuffle(group, stream(seed, GROUP_ORDER, epoch, lane << 24 | number))
            shuffled += group
        out[lane::lanes] = shuffled
    for position in range(total, total + repeats):
        lane_samples = out[position % lanes : total : lanes]
        out.append(lane_samples[(position // lanes) % len(lane_samples)])
    return out


SLOT = 2048
SAMPLES = [40, 7, 0, 33, 64, 1, 51, 29, 38, 60, 45, 12, 57, 44, 20]

if __name__ == "__main__":
    for seed, epoch, lanes, group_bytes, repeats in [
        (0, 0, 8, 40000, 0),
        (0, 1, 8, 40000, 0),
        (7, 0, 8, 1, 0),
        (2**63 + 5, 3, 3, 200000, 0),
        (1, 2, 1, 10**9, 0),
        (1, 2, 1000, 10**9, 0),
        (3, 1, 8, 40000, 3),
        (3, 1, 8, 40000, 1200),
        (4, 0, 1, 10**9, 7),
    ]:
        samples = order([(n, n * SLOT) for n in SAMPLES], seed, epoch, lanes, group_bytes, repeats)
        print(seed, epoch, lanes, group_bytes, repeats, ":", *samples)
