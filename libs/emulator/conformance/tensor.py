"""mma.sync: which lane and register hold each element, and how an H200 adds the products."""

import math
import re
from fractions import Fraction

from floats import number_of, rounded

# Elements per register and bits per element, by type.
PACKED = {"f16": (2, 16), "bf16": (2, 16), "tf32": (1, 32), "e4m3": (4, 8), "e5m2": (4, 8)}
PACKED |= {"s8": (4, 8), "u8": (4, 8), "s4": (8, 4), "u4": (8, 4), "b1": (32, 1), "f64": (1, 64)}
ACCUMULATORS = ("f16", "f32", "f64", "s32")
LEAST_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -14, "e5m2": -14}


def element_of(bits, kind):
    if kind in ("s8", "u8", "s4", "u4", "b1"):
        width = PACKED[kind][1]
        return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits
    if kind == "tf32":
        return number_of(bits >> 13, kind)  # the hardware ignores the lower bits
    return number_of(bits, kind)


def operand_of(registers, kind, rows):
    """[row][depth] of A, or [column][depth] of B, which has 8 columns. A lane holds part of row or column lane / 4."""
    count, width = PACKED[kind]
    halves = rows // 8
    matrix = [[0] * (len(registers) // halves * 4 * count) for _ in range(rows)]
    for n, words in enumerate(registers):
        for lane, word in enumerate(words):
            for e in range(count):
                bits = word >> width * e & ((1 << width) - 1)
                row, at = lane // 4 + 8 * (n % halves), n // halves * 4 * count + lane % 4 * count + e
                matrix[row][at] = element_of(bits, kind)
    return matrix


def exponent_of(x, least):
    return max(math.frexp(x)[1] - 1, least)


def fused_sum(pairs, c, least, kept=25):
    """The exact sum of the products and c, each of them first truncated at 2^-kept of the largest term's exponent."""
    # A factor has at most 12 bits, so a double holds each product exactly.
    terms = [(exponent_of(a, least) + exponent_of(b, least), a * b) for a, b in pairs if a and b]
    if c:
        terms.append((exponent_of(c, -126), c))
    if not terms:
        return Fraction(0)
    last = max(exponent for exponent, _ in terms) - kept
    return sum(math.trunc(math.ldexp(value, -last)) for _, value in terms) * Fraction(2) ** last


def plain_sum(pairs, c):
    """The sum if some operand is infinite or NaN."""
    for x, y in pairs:
        c += x * y
    return c


def sum_of(pairs, c, kinds, is_asynchronous=False):
    """The bits of one element of D."""
    d, a, b = kinds
    if d == "s32":
        return c + sum(x * y for x, y in pairs)
    if d == "f64":
        for x, y in pairs:
            c = number_of(rounded(Fraction(x) * Fraction(y) + Fraction(c), "f64"), "f64")
        return rounded(c, "f64")
    factors = [x for pair in pairs for x in pair] + [c]
    if not all(math.isfinite(x) for x in factors):
        return rounded(plain_sum(pairs, c), d)
    if a in ("e4m3", "e5m2") and is_asynchronous:
        total = fused_sum(pairs, c, -14, kept=13)
        if d == "f16":
            return rounded(total, d)
        unit = Fraction(2) ** (math.frexp(total)[1] - 14)
        return rounded(math.trunc(total / unit) * unit, d)
    if a in ("e4m3", "e5m2"):
        # Sums the products of the lower two bytes of each register, then those of the upper two, and adds c last.
        total, mode = 0.0, "rz" if d == "f32" else "rn"
        for part in (0, 2):
            chosen = [pair for n, pair in enumerate(pairs) if n % 4 in (part, part + 1)]
            total = number_of(rounded(fused_sum(chosen, total, -14), d, mode), d)
            if math.isinf(total):
                return rounded(total + c, d)
        return rounded(Fraction(total) + Fraction(c), d)
    if d == "f16" and is_asynchronous:
        return rounded(fused_sum(pairs, c, LEAST_EXPONENT[a]), "f16")
    total = rounded(fused_sum(pairs, c, LEAST_EXPONENT[a]), "f32", "rz")
    return total if d == "f32" else rounded(number_of(total, "f32"), "f16")


def warpgroup_product_of(name, given):
    """The product of a warpgroup: each warp has 16 rows of A and of the accumulators. The first two warps wrote B."""
    right = [given[4][:32], given[4][32:64]]
    results = []
    for first in range(0, 128, 32):
        own = [lanes[first : first + 32] for lanes in given]
        results.append(product_of(name, own[:4] + right + own[5:]))
    return [sum((part[n] for part in results), []) for n in range(len(results[0]))]


def product_of(name, given):
    """The results of one warp, as [result][lane]."""
    shape = re.search(r"m(\d+)n8k(\d+)", name)
    rows, depth = int(shape.group(1)), int(shape.group(2))
    rows = min(rows, 16)  # rows per warp
    types = [part for part in name.split(".") if part in PACKED or part in ACCUMULATORS]
    d, a, b = types[:3]
    c = types[3] if len(types) > 3 else d
    differ = ".xor.popc" in name
    na = rows * depth // 32 // PACKED[a][0]
    nb = 8 * depth // 32 // PACKED[b][0]
    left, right = operand_of(given[:na], a, rows), operand_of(given[na : na + nb], b, 8)
    results = []
    for n, words in enumerate(given[na + nb :]):
        lanes = []
        for lane, word in enumerate(words):
            parts = 2 if c == "f16" else 1
            bits = 0
            for e in range(parts):
                place = parts * n + e
                row, column = lane // 4 + 8 * (place // 2), lane % 4 * 2 + place % 2
                raw = word >> 16 * e & 0xFFFF if c == "f16" else word
                start = (raw - (1 << 32) if raw >> 31 else raw) if c == "s32" else number_of(raw, c)
                pairs = list(zip(left[row], right[column], strict=True))
                if differ:
                    pairs = [(x ^ y, 1) for x, y in pairs]
                value = sum_of(pairs, start, (d, a, b), name.startswith("wgmma"))
                if d == "s32":
                    value = max(-(1 << 31), min((1 << 31) - 1, value)) if "satfinite" in name else value
                    value &= 0xFFFFFFFF
                bits |= value << 16 * e
            lanes.append(bits)
        results.append(lanes)
    return results
