"""Integers in registers, and the integer operations that take more than an expression."""

import re


def bits_of(kind):
    """Width of an operand in bits; 0 for a predicate."""
    if kind == "pred":
        return 0
    return int("".join(c for c in kind.split(":")[0].lstrip("befsu") if c.isdigit()) or 32)


def register_bits(kind):
    kind, _, rule = kind.partition(":")
    if kind == "pred":
        return 0
    if kind.endswith("x2") or kind.endswith("x4"):
        return 32
    return 32 if rule == "32" else bits_of(kind)


def width_of(kind):
    return int(re.sub(r"\D", "", kind.partition(":")[0]))


def signed(value, kind):
    """The integer that a register's bits represent."""
    width = width_of(kind)
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] == "s" and value >> (width - 1) else value


def clamped(value, kind):
    width = width_of(kind)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    return max(low, min(high, value))


def truncated_division(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def to_bits(value, kind):
    """The bits of an integer in a register, sign-extended if the register is wider than the type."""
    return value & ((1 << register_bits(kind)) - 1)


def shift(value, by, kind, left):
    width = width_of(kind)
    if left:
        return value << by if by < width else 0
    return value >> min(by, width)


def field(value, position, length, kind):
    width = width_of(kind)
    if width == 32:  # with 64 bits an H200 does not mask the operands
        position, length = position & 255, length & 255
    if length == 0:
        return 0
    raw = value & ((1 << width) - 1)
    sign = kind[0] == "s" and raw >> min(position + length - 1, width - 1) & 1
    out = 0
    for n in range(width):
        bit = raw >> (position + n) & 1 if n < length and position + n < width else int(sign)
        out |= bit << n
    return out


def inserted(operands, width):
    """bfi: b with `length` bits of a from bit `position` on."""
    a, b, position, length = operands
    if width == 32:
        position, length = position & 255, length & 255
    for n in range(min(length, width)):
        if position + n < width:
            b = b & ~(1 << (position + n)) | (a >> n & 1) << (position + n)
    return b


def highest(value, kind, amount):
    width = width_of(kind)
    raw = (~value if value < 0 else value) & ((1 << width) - 1)
    if raw == 0:
        return 0xFFFFFFFF
    at = raw.bit_length() - 1
    return width - 1 - at if amount else at


def permuted(mode, a, b, c):
    """prmt."""
    data = (b << 32 | a).to_bytes(8, "little")
    n = c & 3
    if mode == "":
        picks = [c >> 4 * k & 15 for k in range(4)]
    else:
        picks = {
            "f4e": [n + k for k in range(4)],
            "b4e": [(n - k) % 8 for k in range(4)],
            "rc8": [n] * 4,
            "ecl": [max(k, n) for k in range(4)],
            "ecr": [min(k, n) for k in range(4)],
            "rc16": [2 * (n & 1), 2 * (n & 1) + 1] * 2,
        }[mode]
    return sum((data[p & 7] if not p & 8 else (255 if data[p & 7] & 128 else 0)) << 8 * k for k, p in enumerate(picks))


def nth_set(mask, base, count):
    """fns: the position of the n-th set bit counting up from base, or down if the count is negative."""
    n = signed(count, "s32")
    if n == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    left, at = abs(n), base
    while 0 <= at < 32:
        left -= mask >> at & 1
        if left == 0 and mask >> at & 1:
            return at
        at += 1 if n > 0 else -1
    return 0xFFFFFFFF


def dot(kinds, parts_of_a, parts_of_b, *operands):
    """dp4a and dp2a: c plus the products of parts of a and b.

    `kinds` are the types of a, b and c. `parts_of_a` are the width of a's parts and the first part of b; `parts_of_b`
    are the number of products and the width of b's parts.
    """

    def part(x, n, kind, width):
        return signed(x >> n * width, kind[0] + str(width))

    a, b, c = operands
    width_a, first_b = parts_of_a
    count, width_b = parts_of_b
    products = (part(a, n, kinds[0], width_a) * part(b, first_b + n, kinds[1], width_b) for n in range(count))
    return signed(c, kinds[2]) + sum(products)


def low24(value, kind):
    return signed(value, kind[0] + "24")


def extended(value, length, kind):
    if length >= 32:
        return value
    return field(value, 0, length, kind) if length else 0


def shifted_pair(form, a, b, c):
    """shf. `form` is, for example, "l.clamp"."""
    c = min(c, 32) if "clamp" in form else c & 31
    both = b << 32 | a
    return both << c >> 32 if form.startswith("l") else both >> c


def differences(sign, count, adds, *operands):
    """vabsdiff: the absolute differences of `count` parts, or with `adds` their sum plus c."""
    a, b, c = operands
    width = 32 // count
    part = f"{sign}{width}"
    apart = [abs(signed(a >> at, part) - signed(b >> at, part)) for at in range(0, 32, width)]
    if adds:
        return c + sum(apart)
    return sum(x % (1 << width) << width * n for n, x in enumerate(apart))
