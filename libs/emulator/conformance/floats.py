"""Floating-point formats: converts bits to numbers, and rounds numbers to bits, exactly."""

import dataclasses
import math
import struct
from fractions import Fraction


@dataclasses.dataclass(frozen=True)
class Format:
    exponent: int
    mantissa: int

    @property
    def bits(self):
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self):
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self):
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self):
        return (1 << (self.bits - 1)) - 1

    @property
    def largest(self):
        return self.infinity - 1


FORMATS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "tf32": Format(8, 10),
    "f32": Format(8, 23),
    "f64": Format(11, 52),
    "e5m2": Format(5, 2),
    "e4m3": Format(4, 3),
}


def number_of(bits, kind):
    """The value as a Python float, which represents every format exactly."""
    if kind == "f64":
        return struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    f = FORMATS[kind]
    sign = -1.0 if bits >> (f.bits - 1) & 1 else 1.0
    exponent, mantissa = bits >> f.mantissa & ((1 << f.exponent) - 1), bits & ((1 << f.mantissa) - 1)
    if kind == "e4m3" and bits & 0x7F == 0x7F:
        return math.nan
    if exponent == (1 << f.exponent) - 1 and kind != "e4m3":
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - f.bias - f.mantissa)
    return sign * math.ldexp(mantissa + (1 << f.mantissa), exponent - f.bias - f.mantissa)


def is_negative(x):
    return math.copysign(1.0, x) < 0


def divided(magnitude, exponent):
    """Divides by 2^exponent in integers, because Fraction's division is ten times as slow. Returns whole, 2 * rest,
    divisor.
    """
    over, under = magnitude.numerator << max(-exponent, 0), magnitude.denominator << max(exponent, 0)
    whole, rest = divmod(over, under)
    return whole, 2 * rest, under


def rounded(value, kind, mode="rn", *, negative_zero=False, flush=False, saturate_finite=False):
    """The bits of a number (a Fraction, or a float that may be infinite or NaN) in a format. rn rounds ties to even,
    rna away from zero."""
    f = FORMATS[kind]
    top = 0x7E if kind == "e4m3" else f.largest
    sign_bit = 1 << (f.bits - 1)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return f.nan
        sign = sign_bit if value < 0 else 0
        return sign | (top if saturate_finite else f.infinity)
    if isinstance(value, float):
        negative_zero = negative_zero or (value == 0 and is_negative(value))
    exact = Fraction(value)
    if exact == 0:
        return sign_bit if negative_zero else 0
    sign, magnitude = (sign_bit if exact < 0 else 0), abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if divided(magnitude, exponent)[0] == 0:
        exponent -= 1
    exponent = max(exponent, 1 - f.bias)
    whole, twice_rest, divisor = divided(magnitude, exponent - f.mantissa)
    up = {
        "rn": twice_rest > divisor or (twice_rest == divisor and whole & 1),
        "rna": twice_rest >= divisor,
        "rz": False,
        "rm": bool(sign) and twice_rest > 0,
        "rp": not sign and twice_rest > 0,
    }[mode]
    whole += up
    if flush and magnitude < Fraction(2) ** (1 - f.bias) and whole < 1 << f.mantissa:
        return sign
    bits = whole + ((exponent + f.bias - 1) << f.mantissa)
    if bits > top:
        to_largest = saturate_finite or mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and sign)
        bits = top if to_largest else f.infinity
    return sign | bits


def order_of(bits, kind):
    """The position of a number in the order of the representable numbers. Neighbors differ by 1."""
    f = FORMATS[kind]
    magnitude = bits & ((1 << (f.bits - 1)) - 1)
    return -magnitude if bits >> (f.bits - 1) & 1 else magnitude
