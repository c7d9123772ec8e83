"""The results that the PTX manual defines for each form of table.py, computed in the most obvious way: with integers,
and with exact fractions that are rounded once. tensor.py has the matrix products.
"""

import hashlib
import math
import re
from fractions import Fraction

from floats import FORMATS, is_negative, number_of, order_of, rounded
from integers import (
    clamped,
    extended,
    field,
    highest,
    inserted,
    low24,
    register_bits,
    shift,
    signed,
    to_bits,
    truncated_division,
    width_of,
)
import tensor
from table import bit_pattern, inputs_of

FLOATS = ("f16", "bf16", "f32", "f64")


# --- integers ---------------------------------------------------------------------------------------------------------


def carry_chain(op, bits):
    """The low and high words of a sum, difference or product whose carry goes from low to high."""
    a, b, c, d = bits
    if op == "add":
        low = a + b
        return low, c + d + (low >> 32)
    if op == "sub":
        return a - b, c - d - (a < b)
    low = (a * b & 0xFFFFFFFF) + c
    return low, (a * b >> 32) + d + (low >> 32)


def mixed_carry_chain(ops, width, bits):
    """The results of sums and differences that share the carry flag. A difference adds b's complement, and 1 or the
    flag."""
    flag, results = 0, []
    for n, op in enumerate(op for op in ops if op != "cc"):
        a, b = bits[2 * n : 2 * n + 2]
        minus = op.startswith("sub")
        total = a + (b ^ ((1 << width) - 1) if minus else b) + (flag if op.endswith("c") else minus)
        flag = total >> width
        results.append(total % (1 << width))
    return results


def integer(op, kind, a):
    """The result of an integer operation. `a` has the operands as integers. None if `op` is not an integer
    operation."""
    name, _, rest = op.partition(".")
    width = width_of(kind)
    simple = {
        "add": lambda: a[0] + a[1],
        "sub": lambda: a[0] - a[1],
        "mul.lo": lambda: a[0] * a[1],
        "mul.hi": lambda: a[0] * a[1] >> width,
        "mul.wide": lambda: a[0] * a[1],
        "mad.lo": lambda: a[0] * a[1] + a[2],
        "mad.hi": lambda: (a[0] * a[1] >> width) + a[2],
        "mad.hi.sat": lambda: clamped((a[0] * a[1] >> width) + a[2], kind),
        "mad.wide": lambda: a[0] * a[1] + a[2],
        "add.sat": lambda: clamped(a[0] + a[1], kind),
        "sub.sat": lambda: clamped(a[0] - a[1], kind),
        "mul24.lo": lambda: low24(a[0], kind) * low24(a[1], kind),
        "mul24.hi": lambda: low24(a[0], kind) * low24(a[1], kind) >> 16,
        "mad24.lo": lambda: low24(a[0], kind) * low24(a[1], kind) + a[2],
        "mad24.hi": lambda: (low24(a[0], kind) * low24(a[1], kind) >> 16) + a[2],
        "min": lambda: min(a),
        "max": lambda: max(a),
        "div": lambda: truncated_division(a[0], a[1]),
        "rem": lambda: a[0] - truncated_division(a[0], a[1]) * a[1],
        "sad": lambda: a[2] + abs(a[0] - a[1]),
        "shr": lambda: shift(a[0], a[1], kind, False),
        "shl": lambda: shift(a[0], a[1], kind, True),
        "neg": lambda: -a[0],
        "abs": lambda: abs(a[0]),
        "and": lambda: a[0] & a[1],
        "or": lambda: a[0] | a[1],
        "xor": lambda: a[0] ^ a[1],
        "not": lambda: ~a[0],
        "cnot": lambda: int(a[0] == 0),
        "selp": lambda: a[0] if a[2] else a[1],
        "bfe": lambda: field(a[0], a[1], a[2], kind),
        "bfind": lambda: highest(a[0], kind, False),
        "bfind.shiftamt": lambda: highest(a[0], kind, True),
        "popc": lambda: bin(a[0]).count("1"),
        "clz": lambda: width - a[0].bit_length(),
        "brev": lambda: int(f"{a[0]:0{width}b}"[::-1], 2),
        "bfi": lambda: inserted(a, width),
        "bmsk.clamp": lambda: ((1 << min(a[1], 32)) - 1) << min(a[0], 32),
        "bmsk.wrap": lambda: ((1 << (a[1] & 31)) - 1) << (a[0] & 31),
        "szext.clamp": lambda: extended(a[0], a[1], kind),
        "szext.wrap": lambda: extended(a[0], a[1] & 31, kind),
    }
    return simple[op]() if op in simple else None


# --- floats -----------------------------------------------------------------------------------------------------------


def flushed(x):
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def sum_of(terms, mode):
    """Returns the exact sum, and whether a sum of 0 is -0."""
    if any(math.isnan(x) for x in terms) or (math.inf in terms and -math.inf in terms):
        return math.nan, False
    for x in terms:
        if math.isinf(x):
            return x, False
    exact = sum((Fraction(x) for x in terms), Fraction(0))
    all_negative = all(x == 0 and is_negative(x) for x in terms)
    opposite = mode == "rm" and not all(x == 0 and not is_negative(x) for x in terms)
    return exact, all_negative or opposite


def product_of(a, b):
    """Returns the exact product, and whether its sign is negative (also for 0). inf times 0 is NaN."""
    if math.isinf(a) or math.isinf(b) or math.isnan(a) or math.isnan(b):
        return a * b, False
    return Fraction(a) * Fraction(b), is_negative(a) != is_negative(b)


def fused_of(a, b, c, mode):
    product, negative = product_of(a, b)
    if isinstance(product, float) or not math.isfinite(c):
        return (product if isinstance(product, float) else 0.0) + c, False
    total = product + Fraction(c)
    if total:
        return total, False
    if product:
        return total, mode == "rm"
    same = negative == is_negative(c) if c == 0 else True
    return total, negative if same else mode == "rm"


def quotient_of(a, b):
    negative = is_negative(a) != is_negative(b)
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or (a == 0 and b == 0):
        return math.nan, False
    if math.isinf(a) or b == 0:
        return -math.inf if negative else math.inf, False
    return (Fraction(0) if math.isinf(b) else Fraction(a) / Fraction(b)), negative


def root_of(x, kind, mode):
    """A number that rounds like the root: the root cut to more digits than any format has, then a digit 1 if
    inexact."""
    if math.isnan(x) or x < 0:
        return math.nan, False
    if x == 0 or math.isinf(x):
        return x, is_negative(x)
    scaled = Fraction(x) * Fraction(4) ** 1200
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = whole * whole == scaled
    return Fraction(2 * whole + (not exact), 2) / Fraction(2) ** 1200, False


def smaller_or_larger(op, a, b, with_nan):
    if math.isnan(a) or math.isnan(b):
        return math.nan if with_nan or (math.isnan(a) and math.isnan(b)) else (b if math.isnan(a) else a)
    if a == b == 0:
        negative = (is_negative(a) or is_negative(b)) if op == "min" else (is_negative(a) and is_negative(b))
        return -0.0 if negative else 0.0
    return min(a, b) if op == "min" else max(a, b)


def near(function, domain=lambda x: True):
    """Makes the definition of an approximated function from its exact value, computed in double."""

    def value(x):
        if math.isnan(x) or not domain(x):
            return math.nan
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.copysign(math.inf, x) if x == 0 else math.nan

    return value


APPROXIMATIONS = {
    "sin": near(math.sin),
    "cos": near(math.cos),
    "tanh": near(math.tanh),
    "ex2": near(lambda x: 2.0**x if x < 2000 else math.inf),
    "lg2": near(lambda x: -math.inf if x == 0 else math.log2(x), lambda x: x >= 0),
    "rcp": near(lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x),
    "sqrt": near(math.sqrt, lambda x: x >= 0),
    "rsqrt": near(lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x), lambda x: x >= 0),
}

TESTS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED_TESTS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def holds(test, a, b, kind):
    if kind in FLOATS:
        unordered = math.isnan(a) or math.isnan(b)
        if test in ("num", "nan"):
            return unordered == (test == "nan")
        if test.endswith("u") and test[:-1] in TESTS:
            return unordered or TESTS[test[:-1]](a, b)
        return not unordered and TESTS[test](a, b)
    return TESTS[UNSIGNED_TESTS.get(test, test)](a, b)


def has_property(test, bits, kind):
    f = FORMATS[kind]
    magnitude = bits & ((1 << (f.bits - 1)) - 1)
    return {
        "finite": magnitude < f.infinity,
        "infinite": magnitude == f.infinity,
        "number": magnitude <= f.infinity,
        "notanumber": magnitude > f.infinity,
        # An H200 counts 0 as normal.
        "normal": magnitude == 0 or 1 << f.mantissa <= magnitude < f.infinity,
        "subnormal": 0 < magnitude < 1 << f.mantissa,
    }[test]


def float_operation(mods, kind, bits):
    """The result for one element. `bits` are the operands' bits. None if the operation is not defined here."""
    op, flags = mods[0], set(mods[1:])
    mode = next((m for m in ("rz", "rm", "rp") if m in flags), "rn")
    sign = 1 << (FORMATS[kind].bits - 1)
    ftz = "ftz" in flags and kind != "f16"
    if op in ("neg", "abs") and "ftz" not in flags:
        return bits[0] ^ sign if op == "neg" else bits[0] & ~sign
    if op == "copysign":
        return bits[1] & ~sign | bits[0] & sign
    x = [number_of(b, kind) for b in bits]
    if ftz or (kind == "f16" and "ftz" in flags):
        limit = 2.0**-126 if kind == "f32" else 2.0**-14
        x = [math.copysign(0.0, v) if abs(v) < limit else v for v in x]
    negative = False
    if op in ("neg", "abs"):
        value = -x[0] if op == "neg" else abs(x[0])
    elif op in ("add", "sub"):
        value, negative = sum_of([x[0], x[1] if op == "add" else -x[1]], mode)
    elif op == "mul":
        value, negative = product_of(x[0], x[1])
    elif op == "fma":
        value, negative = fused_of(x[0], x[1], x[2], mode)
    elif op in ("min", "max"):
        value = smaller_or_larger(op, *[abs(v) if "abs" in flags else v for v in x], "NaN" in flags)
        if "xorsign" in flags and not math.isnan(value):
            value = math.copysign(value, -1.0 if (bits[0] ^ bits[1]) & sign else 1.0)
    elif op == "div":
        value, negative = quotient_of(x[0], x[1])
        if "approx" in flags and 2.0**126 < abs(x[1]) < math.inf and math.isfinite(x[0]):
            value = Fraction(0)
    elif "approx" in flags and op in APPROXIMATIONS:
        value = APPROXIMATIONS[op](x[0])
    elif op == "rcp":
        value, negative = quotient_of(1.0, x[0])
    elif op == "sqrt":
        value, negative = root_of(x[0], kind, mode)
    else:
        return None
    if "sat" in flags:
        value = 0.0 if isinstance(value, float) and math.isnan(value) else min(max(value, 0), 1)
        negative = False
        if value == 0:
            return 0
    if "relu" in flags and not (isinstance(value, float) and math.isnan(value)) and (value < 0 or value == 0):
        return 0
    return rounded(value, kind, mode, negative_zero=negative, flush="ftz" in flags)


def joined(join, truth, p):
    """Combines the comparison's result with the predicate, if there is one."""
    if p is None:
        return truth
    return {"and": truth and p, "or": truth or p, "xor": truth != p}[join]


def set_of(mods, bits, p):
    """The result of set: 1.0 or a mask as wide as the result if the comparison holds, else 0. Pairs set each half
    separately."""
    test, join, to, kind = mods[1], mods[2], mods[-2], mods[-1]
    pair = kind.endswith("x2")
    part, width = (kind[:-2], 16) if pair else (kind, register_bits(to))
    truth = bit_pattern(1.0, to.removesuffix("x2")) if to in (kind, "f32") else (1 << width) - 1
    result = 0
    for n in (0, 1) if pair else (0,):
        given = [b >> 16 * n & 0xFFFF if pair else b for b in bits[:2]]
        numbers = [number_of(b, part) if part in FLOATS else signed(b, part) for b in given]
        if "ftz" in mods:
            numbers = [0.0 if abs(x) < 2.0**-14 else x for x in numbers]
        if joined(join, holds(test, *numbers, part), p):
            result |= truth << 16 * n
    return result


def policy_of(name, fraction):
    """The bits of a cache policy. The manual calls them opaque; these are the bits that ptxas produces for an H200."""
    first, second = (re.findall(r"L2::evict_(\w+)", name) + ["unchanged"])[:2]
    kind = 0x10 | {"unchanged": 0, "first": 2, "last": 4, "normal": 6}[first] | (second == "first")
    return kind << 56 | (math.ceil(16 * fraction) - 1) << 52


# --- conversions ------------------------------------------------------------------------------------------------------

WHOLE = {
    "rni": lambda x: round(x),  # Python rounds ties to even
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def to_integer(x, kind, mode, source):
    """Converts to an integer. NaN becomes 0, but in conversions from f64 or to 64 bits it becomes the highest bit."""
    if math.isnan(x):
        return -1 << (width_of(kind) - 1) if width_of(kind) == 64 or source == "f64" else 0
    if math.isinf(x):
        return clamped((1 << 70) if x > 0 else -(1 << 70), kind)
    return clamped(WHOLE[mode](Fraction(x)), kind)


def conversion(mods, d, sources, bits):
    flags = mods[1:-2] if len(mods) > 3 else mods[1:-2]
    to, source = mods[-2], mods[-1]
    mode = next((m for m in ("rn", "rz", "rm", "rp", "rna") if m in flags), "rn")
    relu = "relu" in flags
    if mods[1] == "pack":
        return packed_integers(mods, bits)
    if to in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2"):
        part = to[:-2]
        width = FORMATS[part].bits
        if source == "f32":  # the first operand goes to the upper half
            values = [number_of(bits[1], "f32"), number_of(bits[0], "f32")]
        elif source == "f16x2":
            values = [number_of(bits[0] & 0xFFFF, "f16"), number_of(bits[0] >> 16, "f16")]
        else:
            values = [number_of(bits[0] & 0xFF, source[:-2]), number_of(bits[0] >> 8 & 0xFF, source[:-2])]
        if relu:
            values = [x if math.isnan(x) else max(x, 0.0) + 0.0 for x in values]
        return sum(
            rounded(x, part, mode, saturate_finite="satfinite" in flags) << width * n for n, x in enumerate(values)
        )
    if to == "tf32":
        return rounded(number_of(bits[0], "f32"), "tf32", mode) << 13
    if source in FLOATS:
        x = number_of(bits[0], source)
        if "ftz" in flags:
            x = flushed(x)
        if to not in FORMATS:
            return to_bits(to_integer(x, to, flags[0], source), d)
        if flags and flags[0] in WHOLE and math.isfinite(x):
            whole = WHOLE[flags[0]](Fraction(x))
            return rounded(Fraction(whole), to, negative_zero=is_negative(x))
        if "sat" in flags:
            x = 0.0 if math.isnan(x) else min(max(x, 0.0), 1.0) + 0.0
        if relu and not math.isnan(x):
            x = max(x, 0.0) + 0.0
        return rounded(x, to, mode)
    value = signed(bits[0], source)
    if to in FORMATS:
        return rounded(Fraction(value), to, mode)
    value = clamped(value, to) if "sat" in flags else signed(value, to)
    return to_bits(value, d)


def packed_integers(mods, bits):
    a, b = signed(bits[0], "s32"), signed(bits[1], "s32")
    width = width_of(mods[3])
    a, b = (clamped(x, mods[3]) % (1 << width) for x in (a, b))
    above = bits[2] << 2 * width if len(bits) > 2 else 0
    return (above | a << width | b) & 0xFFFFFFFF


# --- warps ------------------------------------------------------------------------------------------------------------


def shuffled(name, values, by):
    segment = 24 if "of 8" in name else 0
    clamp = 0 if ".up" in name else (7 if segment else 31)
    results, inside = [], []
    for lane in range(32):
        b = by[lane] & 31
        last, first = (lane & segment) | (clamp & ~segment), lane & segment
        if ".up" in name:
            source = lane - b
            valid = source >= last
        else:
            source = {"down": lane + b, "bfly": lane ^ b, "idx": first | (b & ~segment)}[name.split(".")[2]]
            valid = source <= last
        results.append(values[source] if valid else values[lane])
        inside.append(int(valid))
    return [results, inside]


def warp_operation(name, given):
    """The results of one warp, one list per result. None if the operation is not an operation of a warp."""
    parts = name.split(".")
    if parts[0] == "shfl":
        return shuffled(name, given[0], given[1])
    if parts[0] == "vote":
        truths = [bool(x) for x in given[0]]
        if "ballot" in parts:
            return [[sum(t << n for n, t in enumerate(truths))] * 32]
        return [[int({"all": all(truths), "any": any(truths), "uni": len(set(truths)) == 1}[parts[2]])] * 32]
    if parts[0] == "match":
        same = [sum((other == x) << n for n, other in enumerate(given[0])) for x in given[0]]
        if parts[1] == "any":
            return [same]
        all_same = len(set(given[0])) == 1
        return [[0xFFFFFFFF if all_same else 0] * 32, [int(all_same)] * 32]
    if parts[0] == "redux":
        kind = parts[3]
        values = [signed(x, kind) for x in given[0]]
        total = values[0]
        for x in values[1:]:
            total = {
                "add": total + x,
                "min": min(total, x),
                "max": max(total, x),
                "and": total & x,
                "or": total | x,
                "xor": total ^ x,
            }[parts[2]]
        return [[to_bits(total, kind)] * 32]
    if parts[0] == "movmatrix":
        return [words_of(transposed(matrix_of(given[0])))]
    return None


def matrix_of(words):
    """An 8 x 8 matrix of 16-bit elements: lane 4 r + c has columns 2 c and 2 c + 1 of row r."""
    return [[words[4 * r + c // 2] >> 16 * (c & 1) & 0xFFFF for c in range(8)] for r in range(8)]


def words_of(matrix):
    return [matrix[n // 4][2 * (n % 4)] | matrix[n // 4][2 * (n % 4) + 1] << 16 for n in range(32)]


def transposed(matrix):
    return [list(column) for column in zip(*matrix, strict=True)]


def row_of(words):
    """The eight 16-bit elements of four words."""
    return [words[c // 2] >> 16 * (c & 1) & 0xFFFF for c in range(8)]


def matrix_access(name, given):
    """ldmatrix or stmatrix of one warp. Lane n gives the address of row n, where it has stored its four words
    before."""
    count = int(name.split(".x")[1][0])
    rows = [row_of([given[n][lane] for n in range(4)]) for lane in range(32)]
    if name.startswith("ldmatrix"):
        results = []
        for n in range(count):
            matrix = rows[8 * n : 8 * n + 8]
            results.append(words_of(transposed(matrix) if ".trans" in name else matrix))
        return results
    for n in range(count):
        matrix = matrix_of(given[n])
        rows[8 * n : 8 * n + 8] = transposed(matrix) if ".trans" in name else matrix
    return [[rows[lane][2 * n] | rows[lane][2 * n + 1] << 16 for lane in range(32)] for n in range(4)]


# --- atomics ----------------------------------------------------------------------------------------------------------


def combined(op, kind, old, value):
    part, count = parts_of(kind)
    width = FORMATS[part].bits
    result = 0
    for n in range(count):
        a, b = (number_of(x >> n * width & ((1 << width) - 1), part) for x in (old, value))
        if op == "add":
            number, negative = sum_of([a, b], "rn")
        else:
            number, negative = smaller_or_larger(op, a, b, False), False
        result |= rounded(number, part, negative_zero=negative) << n * width
    return result


def flushed_f32(bits):
    """The bits of an f32. A subnormal is replaced by zero with the same sign."""
    return bits if bits >> 23 & 0xFF else bits & 0x80000000


def atomic_of(each, given):
    """Results as [result][lane]: the old values for an atom, the new contents of memory for a red."""
    parts = each.name.split(".")
    kind, op = each.writes[0], "add" if "add" in parts else "max"
    count, width = len(each.writes), register_bits(kind) // 8
    if "shared" in parts:
        return [[combined(op, kind, old, value) for old, value in zip(*given, strict=True)]]
    memory = b"".join(value.to_bytes(8, "little") for operand in given[:2] for value in operand)
    results = [[] for _ in range(count)]
    for lane in range(each.lanes):
        for n in range(count):
            at = 16 * lane + n * width
            old = int.from_bytes(memory[at : at + width], "little")
            value = given[2 + n][lane]
            if kind == "f32" and count > 1:
                added = combined(op, kind, flushed_f32(old), flushed_f32(value))
                results[n].append(old if parts[0] == "atom" else flushed_f32(added))
                continue
            results[n].append(old if parts[0] == "atom" else combined(op, kind, old, value))
    return results


# --- all --------------------------------------------------------------------------------------------------------------


def lane_operation(each, bits):
    """The results of one lane; None if the form is not defined here."""
    if each.definition is not None:
        results = each.definition(*bits)
        return [
            x & ((1 << (register_bits(kind) or 1)) - 1)
            for x, kind in zip(results if isinstance(results, tuple) else (results,), each.writes, strict=True)
        ]
    name = each.name.split(" ")[0]
    mods = name.split(".")
    kind = mods[-1]
    if mods[0] == "cvt":
        mods = each.text.split(" ")[0].split(".")
        result = conversion(mods, each.writes[0], each.reads, bits)
        return None if result is None else [result]
    if mods[0] in ("setp", "set"):
        test = mods[1]
        p = None
        if len(bits) > 2:
            p = bool(bits[2]) != ("negated" in each.name)
        if mods[0] == "set":
            return [set_of(mods, bits, p)]
        if kind.endswith("x2"):  # one predicate per half
            halves = [[number_of(b >> s & 0xFFFF, kind[:-2]) for b in bits[:2]] for s in (0, 16)]
            return [int(joined(mods[2], holds(test, *numbers, kind[:-2]), p)) for numbers in halves]
        numbers = [number_of(b, kind) if kind in FLOATS else signed(b, kind) for b in bits[:2]]
        if "ftz" in mods:
            least = 2.0**-126 if kind == "f32" else 2.0**-14
            numbers = [0.0 if abs(x) < least else x for x in numbers]
        truth = holds(test, *numbers, kind)
        return [int(joined(mods[2], x, p)) for x in (truth, not truth)][: len(each.writes)]
    if mods[0] == "createpolicy" and mods[1] != "fractional":
        return [bits[0]] if mods[1] == "cvt" else None
    if mods[0] == "createpolicy":
        return [policy_of(name, float(each.name.split(" ")[1]))] if "and a load" not in each.name else [bits[0]]
    if mods[0] == "testp":
        return [int(has_property(mods[1], bits[0], kind))]
    if mods[0] == "lop3":
        table = int(each.name.split(" ")[1], 16)
        a, b, c = bits[:3]
        d = sum((table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | c >> n & 1) & 1) << n for n in range(32))
        return [d] if len(bits) == 3 else [d, int(joined(mods[1], d != 0, bool(bits[3])))]
    if mods[-1] in ("s16x2", "u16x2", "s32") and (mods[-1] != "s32" or "relu" in mods):
        part = mods[-1].removesuffix("x2")
        result = 0
        for at in range(0, 32, width_of(part)):
            x, y = (signed(b >> at, part) for b in bits)
            value = {"add": x + y, "min": min(x, y), "max": max(x, y)}[mods[0]]
            result |= (max(value, 0) if "relu" in mods else value) % (1 << width_of(part)) << at
        return [result]
    if mods[-1] == "addc" or mods[-1] == "subc":
        return mixed_carry_chain(mods, width_of(kind), bits)
    if mods[-2:-1] == ["cc"]:
        return [to_bits(x, "u32") for x in carry_chain(mods[0], bits)]
    if mods[0] == "slct":
        c = number_of(bits[2], "f32") if kind == "f32" else signed(bits[2], "s32")
        c = flushed(c) if "ftz" in mods else c
        return [bits[0] if c >= 0 else bits[1]]
    if kind in FLOATS:
        result = float_operation(mods[:-1], kind, bits)
        return None if result is None else [result]
    if kind.endswith("x2") and kind[:-2] in FLOATS:
        halves = [float_operation(mods[:-1], kind[:-2], [b >> s & 0xFFFF for b in bits]) for s in (0, 16)]
        return None if None in halves else [halves[0] | halves[1] << 16]
    numbers = [
        signed(b, k) if k.partition(":")[0] not in ("pred",) else b for b, k in zip(bits, each.reads, strict=True)
    ]
    result = integer(".".join(mods[:-1]), kind, numbers)
    return None if result is None else [to_bits(result, each.writes[0])]


def by_warps(each, given, operation):
    results = []
    for first in range(0, each.lanes, 32):
        part = operation(each.name, [lanes[first : first + 32] for lanes in given])
        if part is None:
            return None
        results.append(part)
    return [sum((part[n] for part in results), []) for n in range(len(each.writes))]


def answer_of(each):
    """Results as [block][result][lane]. None if the form has no definition here."""
    answer = []
    for given in inputs_of(each):
        op = each.name.split(".")[0]
        if op in ("atom", "red"):
            results = atomic_of(each, given)
        elif op == "wgmma":
            results = tensor.warpgroup_product_of(each.name, given)
        elif op in ("shfl", "vote", "match", "redux", "movmatrix"):
            results = by_warps(each, given, warp_operation)
        elif op in ("ldmatrix", "stmatrix"):
            results = by_warps(each, given, matrix_access)
        elif op == "mma":
            results = by_warps(each, given, tensor.product_of)
        else:
            lanes = [lane_operation(each, [operand[lane] for operand in given]) for lane in range(each.lanes)]
            results = None if None in lanes else [list(column) for column in zip(*lanes, strict=True)]
        if results is None:
            return None
        answer.append(results)
    return answer


def parts_of(kind):
    """The type of the floats in a register, and how many the register has."""
    kind = kind.partition(":")[0]
    if kind.endswith("x2"):
        return kind[:-2], 2
    return (kind, 1) if kind in FLOATS else (None, 1)


def differs(got, want, kind, ulps):
    if got == want:
        return False
    part, count = parts_of(kind)
    if part is None:
        return True
    width = FORMATS[part].bits
    for n in range(count):
        a, b = got >> n * width & ((1 << width) - 1), want >> n * width & ((1 << width) - 1)
        x, y = number_of(a, part), number_of(b, part)
        if math.isnan(x) or math.isnan(y):
            if math.isnan(x) != math.isnan(y):
                return True
        elif ulps < 0:
            if x != y and not abs(x - y) <= abs(y) * 2.0**-10 + 2.0**-20:
                return True
        elif abs(order_of(a, part) - order_of(b, part)) > ulps:
            return True
    return False


DIGEST = "sha256:"  # no stored answer begins with this


def digest(each, answer):
    """A digest that is the same for equal results. Only for forms that allow no difference."""
    values = [
        [_comparable(value, kind) for value in lanes]
        for results in answer
        for kind, lanes in zip(each.writes, results, strict=True)
    ]
    return DIGEST + hashlib.sha256(repr(values).encode()).hexdigest()[:32]


def _comparable(value, kind):
    part, count = parts_of(kind)
    if part is None:
        return value
    width = FORMATS[part].bits
    parts = [value >> n * width & ((1 << width) - 1) for n in range(count)]
    return ["nan" if math.isnan(number_of(each, part)) else order_of(each, part) for each in parts]


def difference(each, got, want):
    """Describes the first result that differs by more than the form allows, or returns None. All NaNs count as
    equal."""
    for block, (results, wanted) in enumerate(zip(got, want, strict=True)):
        for n, kind in enumerate(each.writes):
            for lane in range(each.lanes):
                if differs(results[n][lane], wanted[n][lane], kind, each.ulps):
                    given = [f"{operand[lane]:#x}" for operand in inputs_of(each)[block]]
                    return (
                        f"block {block} lane {lane} result {n}: {results[n][lane]:#x}, wanted {wanted[n][lane]:#x}"
                        f" of {', '.join(given[:4])}"
                    )
    return None
