"""The forms of PTX that are compared with a GPU: the operands and the PTX text of each form.

Each operand is given by its type. In `text`, {d0}, {d1} … are the registers that the form writes, and {a0}, {a1} …
those that it reads. Forms whose operation has no other forms bring their definition along; definitions.py defines the
rest.
"""

import dataclasses
import pathlib
import random
import struct
import sys
from collections.abc import Callable
from functools import partial

from integers import bits_of, differences, dot, nth_set, permuted, register_bits, shifted_pair

LANES = 64  # per block: two warps, unless a form needs more


@dataclasses.dataclass(frozen=True)
class Form:
    """One form, which becomes one entry of the generated module."""

    name: str
    text: str
    writes: tuple
    reads: tuple
    blocks: int = 1
    lanes: int = LANES
    # Allowed difference between two implementations, in ulps of the result. 0 means the same bits.
    ulps: int = 0
    # The results of one lane from the bits of its operands. None: definitions.py defines the form.
    definition: Callable | None = None
    # For each operand whose values are not drawn from its whole range: the name of the rule.
    ranges: tuple = ()


FORMS = []


def form(name, writes, reads, text="", **more):
    writes, reads = writes.split(), reads.split()
    if not text:
        names = [f"{{d{n}}}" for n in range(len(writes))] + [f"{{a{n}}}" for n in range(len(reads))]
        text = f"{name} {', '.join(names)};"
    FORMS.append(Form(name, text, tuple(writes), tuple(reads), **more))


# --- integers ---------------------------------------------------------------------------------------------------------

WIDTHS = ("16", "32", "64")
for w in WIDTHS:
    for s in ("u", "s"):
        t = s + w
        for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            form(f"{op}.{t}", t, f"{t} {t}")
        for op in ("mad.lo", "mad.hi"):
            form(f"{op}.{t}", t, f"{t} {t} {t}")
        for op in ("div", "rem"):
            form(f"{op}.{t}", t, f"{t} {t}:divisor")
        form(f"sad.{t}", t, f"{t} {t} {t}")
        form(f"shr.{t}", t, f"{t} u32:shift")
        if w != "64":
            wide = s + str(2 * int(w))
            form(f"mul.wide.{t}", wide, f"{t} {t}")
            form(f"mad.wide.{t}", wide, f"{t} {t} {wide}")
    form(f"neg.s{w}", f"s{w}", f"s{w}")
    form(f"abs.s{w}", f"s{w}", f"s{w}")
    b = "b" + w
    for op in ("and", "or", "xor"):
        form(f"{op}.{b}", b, f"{b} {b}")
    form(f"not.{b}", b, b)
    form(f"cnot.{b}", b, b)
    form(f"shl.{b}", b, f"{b} u32:shift")
    form(f"selp.{b}", b, f"{b} {b} pred")
for t in ("s32", "u32", "s64", "u64"):
    form(f"bfe.{t}", t, f"{t} u32:shift u32:shift")
    form(f"bfind.{t}", "u32", t)
    form(f"bfind.shiftamt.{t}", "u32", t)
for b in ("b32", "b64"):
    form(f"popc.{b}", "u32", b)
    form(f"clz.{b}", "u32", b)
    form(f"brev.{b}", b, b)
    form(f"bfi.{b}", b, f"{b} {b} u32:shift u32:shift")
for op in ("add.sat", "sub.sat"):
    form(f"{op}.s32", "s32", "s32 s32")
for s in ("u32", "s32"):
    for half in ("lo", "hi"):
        form(f"mul24.{half}.{s}", s, f"{s} {s}")
        form(f"mad24.{half}.{s}", s, f"{s} {s} {s}")
for a in ("s32", "u32"):
    for b in ("s32", "u32"):
        c = "u32" if a == b == "u32" else "s32"
        form(f"dp4a.{a}.{b}", c, f"b32 b32 {c}", definition=partial(dot, (a, b, c), (8, 0), (4, 8)))
        for half, first in (("lo", 0), ("hi", 2)):
            form(f"dp2a.{half}.{a}.{b}", c, f"b32 b32 {c}", definition=partial(dot, (a, b, c), (16, first), (2, 8)))
for lut in (0x00, 0x17, 0x6A, 0x80, 0x96, 0xCA, 0xE8, 0xFE):
    form(f"lop3.b32 {lut:#x}", "b32", "b32 b32 b32", f"lop3.b32 {{d0}}, {{a0}}, {{a1}}, {{a2}}, {lut:#x};")
for direction in "lr":
    for mode in ("wrap", "clamp"):
        name = f"shf.{direction}.{mode}.b32"
        form(name, "b32", "b32 b32 u32:shift", definition=partial(shifted_pair, f"{direction}.{mode}"))
for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
    name = f"prmt.b32.{mode}".rstrip(".")
    form(name, "b32", "b32 b32 b32", definition=partial(permuted, mode))
for mode in ("clamp", "wrap"):
    form(f"bmsk.{mode}.b32", "b32", "u32:shift u32:shift")
    for t in ("s32", "u32"):
        form(f"szext.{mode}.{t}", t, f"{t} u32:shift")
form("add.cc.u32", "u32 u32", "u32 u32 u32 u32", "add.cc.u32 {d0}, {a0}, {a1}; addc.u32 {d1}, {a2}, {a3};")
form("sub.cc.u32", "u32 u32", "u32 u32 u32 u32", "sub.cc.u32 {d0}, {a0}, {a1}; subc.u32 {d1}, {a2}, {a3};")
form(
    "mad.lo.cc.u32",
    "u32 u32",
    "u32 u32 u32 u32",
    "mad.lo.cc.u32 {d0}, {a0}, {a1}, {a2}; madc.hi.u32 {d1}, {a0}, {a1}, {a3};",
)
# Sums and differences share one carry flag. A sum that reads the flag shows the value that a difference leaves in it.
for w in ("u32", "u64"):
    four, six = " ".join([w] * 4), " ".join([w] * 6)
    form(f"add.cc.subc.{w}", f"{w} {w}", four, f"add.cc.{w} {{d0}}, {{a0}}, {{a1}}; subc.{w} {{d1}}, {{a2}}, {{a3}};")
    form(f"sub.cc.addc.{w}", f"{w} {w}", four, f"sub.cc.{w} {{d0}}, {{a0}}, {{a1}}; addc.{w} {{d1}}, {{a2}}, {{a3}};")
    form(
        f"sub.cc.subc.cc.addc.{w}",
        f"{w} {w} {w}",
        six,
        f"sub.cc.{w} {{d0}}, {{a0}}, {{a1}}; subc.cc.{w} {{d1}}, {{a2}}, {{a3}}; addc.{w} {{d2}}, {{a4}}, {{a5}};",
    )
form("slct.s32.s32", "s32", "s32 s32 s32")
form("slct.b32.f32", "b32", "b32 b32 f32")
for test in ("eq", "ne", "lt", "le", "gt", "ge"):
    for t in ("s16", "s32", "s64", "u32", "f32", "f64", "f16", "bf16"):
        form(f"setp.{test}.{t}", "pred", f"{t} {t}")
for test in ("lo", "ls", "hi", "hs"):
    form(f"setp.{test}.u32", "pred", "u32 u32")
for test in ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
    for t in ("f32", "f64", "f16", "bf16"):
        form(f"setp.{test}.{t}", "pred", f"{t} {t}")
form("setp.lt.and.s32", "pred pred", "s32 s32 pred", "setp.lt.and.s32 {d0}|{d1}, {a0}, {a1}, {a2};")
form("setp.ne.xor.f32", "pred pred", "f32 f32 pred", "setp.ne.xor.f32 {d0}|{d1}, {a0}, {a1}, {a2};")
form("setp.gt.or.u32 negated", "pred", "u32 u32 pred", "setp.gt.or.u32 {d0}, {a0}, {a1}, !{a2};")
form("set.lt.u32.s32", "u32", "s32 s32")
form("set.ge.f32.f32", "f32", "f32 f32")
form("set.gt.u32.f32", "u32", "f32 f32")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
for half in ("f16", "bf16"):
    for test in COMPARISONS:
        # The result is 1.0, or a 16-bit mask, for each half.
        for to in (half + "x2", "u32"):
            form(f"set.{test}.{to}.{half}x2", "b32", f"{half}x2 {half}x2")
        form(f"set.{test}.{half}.{half}", "b16", f"{half} {half}")
        form(f"set.{test}.u16.{half}", "b16", f"{half} {half}")
    for test in ("lt", "neu"):
        form(f"set.{test}.s32.{half}x2", "b32", f"{half}x2 {half}x2")
        form(f"set.{test}.s16.{half}", "b16", f"{half} {half}")
        for to in ("u32", "s32"):
            form(f"set.{test}.{to}.{half}", to, f"{half} {half}")
for test in ("gt", "leu"):
    form(f"set.{test}.ftz.f16x2.f16x2", "b32", "f16x2 f16x2")
    form(f"set.{test}.ftz.f16.f16", "b16", "f16 f16")

# Comparisons combined with a predicate.
for test, join, to, t in (
    ("lt", "and", "u32", "s32"),
    ("ge", "or", "f32", "f32"),
    ("ne", "xor", "u32", "f32"),
    ("gtu", "and", "s32", "f64"),
    ("lt", "and", "f16x2", "f16x2"),
    ("neu", "or", "u32", "f16x2"),
    ("le", "xor", "bf16x2", "bf16x2"),
    ("eq", "xor", "f16", "f16"),
    ("ge", "and", "u16", "bf16"),
):
    d = {"u16": "b16", "f16x2": "b32", "bf16x2": "b32"}.get(to, to)
    form(f"set.{test}.{join}.{to}.{t}", d, f"{t} {t} pred")
    name = f"set.{test}.{join}.{to}.{t}"
    form(f"{name} negated", d, f"{t} {t} pred", f"{name} {{d0}}, {{a0}}, {{a1}}, !{{a2}};")
for t in ("u16", "s16", "u64", "s64", "f64"):
    form(f"set.lt.u32.{t}", "u32", f"{t} {t}")
    form(f"set.ge.f32.{t}", "f32", f"{t} {t}")
form("set.ne.s32.b32", "s32", "b32:few b32:few")
form("set.eq.f32.b64", "f32", "b64:few b64:few")
for test in ("lt", "neu"):
    form(f"setp.{test}.ftz.f16", "pred", "f16 f16")
    form(f"setp.{test}.ftz.f32", "pred", "f32 f32")
    for t in ("f16x2", "bf16x2"):
        form(f"setp.{test}.{t}", "pred pred", f"{t} {t}", f"setp.{test}.{t} {{d0}}|{{d1}}, {{a0}}, {{a1}};")
    form(
        f"setp.{test}.and.f16x2",
        "pred pred",
        "f16x2 f16x2 pred",
        f"setp.{test}.and.f16x2 {{d0}}|{{d1}}, {{a0}}, {{a1}}, {{a2}};",
    )
for t in ("s16x2", "u16x2"):
    for op in ("add", "min", "max"):
        form(f"{op}.{t}", "b32", "b32 b32")
for op in ("min", "max"):
    form(f"{op}.relu.s32", "s32", "s32 s32")
    form(f"{op}.relu.s16x2", "b32", "b32 b32")
for join in ("and", "or"):
    name = f"lop3.{join}.b32"
    form(f"{name} 0x6a", "b32 pred", "b32 b32 b32 pred", f"{name} {{d0}}|{{d1}}, {{a0}}, {{a1}}, {{a2}}, 0x6a, {{a3}};")
for width in "24":
    for kind in "us":
        for ending in ("", ".add"):
            name = f"vabsdiff{width}.{kind}32.{kind}32.{kind}32{ending}"
            form(
                name,
                "b32",
                "b32 b32 u32",
                f"{name} {{d0}}, {{a0}}, {{a1}}, {{a2}};",
                definition=partial(differences, kind, int(width), ending == ".add"),
            )
form("fns.b32", "b32", "b32 u32:lane s32:few", definition=nth_set)
form("mad.hi.sat.s32", "s32", "s32 s32 s32")
form("slct.ftz.b32.f32", "b32", "b32 b32 f32")
form("cvt.pack.sat.u4.s32.b32", "b32", "s32 s32 b32")
form("cvt.pack.sat.s4.s32.b32", "b32", "s32 s32 b32")
form("cvt.pack.sat.s8.s32.b32", "b32", "s32 s32 b32")
form("cvt.pack.sat.u2.s32.b32", "b32", "s32 s32 b32")
form("cvt.pack.sat.u16.s32", "b32", "s32 s32")
# The results tell whether global, shared and local memory are in the space.
for space, inside in (
    ("shared", (0, 1, 0)),
    ("global", (1, 0, 0)),
    ("local", (0, 0, 1)),
    ("const", (0, 0, 0)),
    ("param", (0, 0, 0)),
    ("shared::cluster", (0, 1, 0)),
):
    form(
        f"isspacep.{space}",
        "pred pred pred",
        "",
        "{{ .local .align 4 .b8 own[4]; .reg .b64 %at; "
        f"cvta.global.u64 %at, %in; isspacep.{space} {{d0}}, %at; "
        f"mov.u64 %at, tile; cvta.shared.u64 %at, %at; isspacep.{space} {{d1}}, %at; "
        f"mov.u64 %at, own; cvta.local.u64 %at, %at; isspacep.{space} {{d2}}, %at; }}}}",
        definition=partial(tuple, inside),
    )

# --- atomics ----------------------------------------------------------------------------------------------------------

# The memory of the first two operands serves as the atomics' memory. Each lane owns 16 bytes of it, and two operand
# registers make one word.
OWN = "bar.sync 0; {{ .reg .b64 %at; mul.wide.u32 %at, {tid}, 8; add.u64 %at, %at, %in; "


def vector(letter, first, count):
    names = ", ".join(f"{{{letter}{first + n}}}" for n in range(count))
    return f"{{{{{names}}}}}" if count > 1 else names


def atomic(name, t, count=1):
    """The old value for an atom, the new memory contents for a red."""
    d, width = vector("d", 0, count), {"f16": 16, "bf16": 16, "f64": 64}.get(t, 32)
    load = f"ld.global{'.v' + str(count) if count > 1 else ''}.b{width} {d}, [%at];"
    what = f"{d}, [%at]" if name.startswith("atom") else "[%at]"
    text = OWN + f"{name} {what}, {vector('a', 2, count)};" + (load if name.startswith("red") else "") + " }}"
    form(name, " ".join([t] * count), " ".join(["b64", "b64"] + [t] * count), text)


# --- floats -----------------------------------------------------------------------------------------------------------

for t in ("f32", "f64"):
    for mode in ("rn", "rz", "rm", "rp"):
        for op in ("add", "sub", "mul"):
            form(f"{op}.{mode}.{t}", t, f"{t} {t}")
        form(f"fma.{mode}.{t}", t, f"{t} {t} {t}")
        form(f"div.{mode}.{t}", t, f"{t} {t}")
        form(f"rcp.{mode}.{t}", t, t)
        form(f"sqrt.{mode}.{t}", t, t)
    for op in ("min", "max"):
        form(f"{op}.{t}", t, f"{t} {t}")
    for op in ("neg", "abs"):
        form(f"{op}.{t}", t, t)
    form(f"copysign.{t}", t, f"{t} {t}")
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        form(f"testp.{test}.{t}", "pred", t)
for op in ("add", "sub", "mul"):
    for more in ("ftz", "sat", "ftz.sat"):
        form(f"{op}.rn.{more}.f32", "f32", "f32 f32")
for more in ("ftz", "sat", "ftz.sat"):
    form(f"fma.rn.{more}.f32", "f32", "f32 f32 f32")
for op in ("div.rn", "min", "max", "div.approx", "div.full"):
    form(f"{op}.ftz.f32", "f32", "f32 f32", ulps=2 if "." in op and "rn" not in op else 0)
for op in ("div.approx", "div.full"):
    form(f"{op}.f32", "f32", "f32 f32", ulps=2)
for op in ("min", "max"):
    for more in ("NaN", "xorsign.abs", "NaN.xorsign.abs", "ftz.NaN"):
        form(f"{op}.{more}.f32", "f32", "f32 f32")
for op in ("rcp.rn", "sqrt.rn", "neg", "abs"):
    form(f"{op}.ftz.f32", "f32", "f32")
for op in ("rcp", "sqrt", "rsqrt", "lg2", "ex2"):
    form(f"{op}.approx.f32", "f32", "f32", ulps=4)
    form(f"{op}.approx.ftz.f32", "f32", "f32", ulps=4)
for op in ("sin", "cos"):
    form(f"{op}.approx.f32", "f32", "f32:angle", ulps=-1)
    form(f"{op}.approx.ftz.f32", "f32", "f32:angle", ulps=-1)
form("tanh.approx.f32", "f32", "f32:small", ulps=-1)
form("rsqrt.approx.f64", "f64", "f64", ulps=-1)
form("rcp.approx.ftz.f64", "f64", "f64", ulps=-1)
for t in ("f16", "f16x2"):
    for op in ("neg", "abs"):
        form(f"{op}.ftz.{t}", t, t)
    for op in ("min", "max"):
        form(f"{op}.ftz.{t}", t, f"{t} {t}")
        form(f"{op}.ftz.NaN.{t}", t, f"{t} {t}")
for t in ("f16", "f16x2", "bf16", "bf16x2"):
    for op in ("min", "max"):
        for more in ("", ".NaN"):
            form(f"{op}{more}.xorsign.abs.{t}", t, f"{t} {t}")
    for op in ("add", "sub", "mul"):
        form(f"{op}.rn.{t}", t, f"{t} {t}")
    form(f"fma.rn.{t}", t, f"{t} {t} {t}")
    form(f"fma.rn.relu.{t}", t, f"{t} {t} {t}")
    for op in ("min", "max", "min.NaN", "max.NaN"):
        form(f"{op}.{t}", t, f"{t} {t}")
    for op in ("neg", "abs"):
        form(f"{op}.{t}", t, t)
    if t[0] == "f":
        for op in ("add", "sub", "mul"):
            form(f"{op}.sat.{t}", t, f"{t} {t}")
        form(f"fma.rn.sat.{t}", t, f"{t} {t} {t}")
        form(f"add.ftz.{t}", t, f"{t} {t}")
        form(f"ex2.approx.{t}", t, t, ulps=1)
    else:
        form(f"ex2.approx.ftz.{t}", t, t, ulps=1)
    form(f"tanh.approx.{t}", t, t, ulps=1)

# --- conversions ------------------------------------------------------------------------------------------------------

for t in ("f32", "f64", "f16"):
    for i in ("s16", "u16", "s32", "u32", "s64", "u64"):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            if mode in ("rni", "rzi") or i in ("s32", "u32"):
                form(f"cvt.{mode}.{i}.{t}", i, t)
        for mode in ("rn", "rz", "rm", "rp"):
            if mode == "rn" or i in ("s32", "u64"):
                form(f"cvt.{mode}.{t}.{i}", t, i)
    for i in ("s8", "u8"):
        form(f"cvt.rzi.{i}.{t}", i + ":32", t, f"cvt.rzi.{i}.{t} {{d0}}, {{a0}};")
for t in ("f32", "f64"):
    for mode in ("rni", "rzi", "rmi", "rpi"):
        form(f"cvt.{mode}.{t}.{t}", t, t)
form("cvt.rni.f16.f16", "f16", "f16")
form("cvt.sat.f32.f32", "f32", "f32")
form("cvt.ftz.f32.f32", "f32", "f32", "cvt.rni.ftz.f32.f32 {d0}, {a0};")
for mode in ("rn", "rz", "rm", "rp"):
    form(f"cvt.{mode}.f32.f64", "f32", "f64")
    form(f"cvt.{mode}.f16.f32", "f16", "f32")
    form(f"cvt.{mode}.f16.f64", "f16", "f64")
form("cvt.f32.f16", "f32", "f16")
form("cvt.f64.f16", "f64", "f16")
form("cvt.f64.f32", "f64", "f32")
form("cvt.f32.bf16", "f32", "bf16")
for mode in ("rn", "rz"):
    form(f"cvt.{mode}.bf16.f32", "bf16", "f32")
    form(f"cvt.{mode}.relu.bf16.f32", "bf16", "f32")
    form(f"cvt.{mode}.relu.f16.f32", "f16", "f32")
    for pair in ("f16x2", "bf16x2"):
        form(f"cvt.{mode}.{pair}.f32", pair, "f32 f32")
        form(f"cvt.{mode}.relu.{pair}.f32", pair, "f32 f32")
form("cvt.rna.tf32.f32", "b32", "f32")
form("cvt.rn.tf32.f32", "b32", "f32")
for eight in ("e4m3x2", "e5m2x2"):
    form(f"cvt.rn.satfinite.{eight}.f32", "b16", "f32 f32")
    form(f"cvt.rn.satfinite.relu.{eight}.f32", "b16", "f32 f32")
    form(f"cvt.rn.satfinite.{eight}.f16x2", "b16", "f16x2")
    form(f"cvt.rn.f16x2.{eight}", "f16x2", "b16")
    form(f"cvt.rn.relu.f16x2.{eight}", "f16x2", "b16")


def in_register(kind):
    """The register type that holds a type, because PTX has no 8-bit registers."""
    return kind if int(kind[1:]) > 8 else kind + ":32"


for a in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
    for d in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        if a == d:
            continue
        form(f"cvt.{d}.{a}", in_register(d), in_register(a), f"cvt.{d}.{a} {{d0}}, {{a0}};")
        if int(d[1:]) < int(a[1:]) or (d[0] == "u" and a[0] == "s") or (d[0] == "s" and a[0] == "u" and d[1:] == a[1:]):
            form(f"cvt.sat.{d}.{a}", in_register(d), in_register(a), f"cvt.sat.{d}.{a} {{d0}}, {{a0}};")
form("cvt.pack.sat.s16.s32", "b32", "s32 s32")
form("cvt.pack.sat.u8.s32.b32", "b32", "s32 s32 b32")

# --- warps ------------------------------------------------------------------------------------------------------------

for mode in ("up", "down", "bfly", "idx"):
    clamp = "0" if mode == "up" else "31"
    form(
        f"shfl.sync.{mode}.b32",
        "b32 pred",
        "b32 u32:lane",
        f"shfl.sync.{mode}.b32 {{d0}}|{{d1}}, {{a0}}, {{a1}}, {clamp}, 0xffffffff;",
    )
    segment = "0x1800" if mode == "up" else "0x1807"
    form(
        f"shfl.sync.{mode}.b32 of 8 lanes",
        "b32 pred",
        "b32 u32:lane",
        f"shfl.sync.{mode}.b32 {{d0}}|{{d1}}, {{a0}}, {{a1}}, {segment}, 0xffffffff;",
    )
for mode in ("all", "any", "uni"):
    form(f"vote.sync.{mode}.pred", "pred", "pred", f"vote.sync.{mode}.pred {{d0}}, {{a0}}, 0xffffffff;")
form("vote.sync.ballot.b32", "b32", "pred", "vote.sync.ballot.b32 {d0}, {a0}, 0xffffffff;")
for b in ("b32", "b64"):
    form(f"match.any.sync.{b}", "b32", f"{b}:few", f"match.any.sync.{b} {{d0}}, {{a0}}, 0xffffffff;")
    form(f"match.all.sync.{b}", "b32 pred", f"{b}:few", f"match.all.sync.{b} {{d0}}|{{d1}}, {{a0}}, 0xffffffff;")
for op, types in (("add", "us"), ("min", "us"), ("max", "us"), ("and", "b"), ("or", "b"), ("xor", "b")):
    for t in types:
        form(f"redux.sync.{op}.{t}32", f"{t}32", f"{t}32", f"redux.sync.{op}.{t}32 {{d0}}, {{a0}}, 0xffffffff;")
form("movmatrix.sync.aligned.m8n8.trans.b16", "b32", "b32")
# 2 warps x 4 matrices x 128 bytes.
STORE = "shl.b32 {s0}, {tid}, 4; mov.u32 {s1}, tile; add.u32 {s0}, {s0}, {s1}; st.shared.v4.b32 [{s0}], {{{a0}, {a1}, {a2}, {a3}}}; bar.sync 0;"
for n, out in ((1, "b32"), (2, "b32 b32"), (4, "b32 b32 b32 b32")):
    for trans in ("", ".trans"):
        into = "{{" + ", ".join(f"{{d{k}}}" for k in range(n)) + "}}"
        op = f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16"
        form(op, out, "b32 b32 b32 b32", STORE + f"{op} {into}, [{{s0}}];")
        from_ = into.replace("d", "a")
        op = f"stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16"
        form(
            op,
            "b32 b32 b32 b32",
            "b32 b32 b32 b32",
            STORE
            + f"{op} [{{s0}}], {from_}; bar.sync 0; ld.shared.v4.b32 {{{{{{d0}}, {{d1}}, {{d2}}, {{d3}}}}}}, [{{s0}}];",
        )

# --- caches -----------------------------------------------------------------------------------------------------------

for first in ("evict_last", "evict_normal", "evict_first", "evict_unchanged"):
    for fraction in ("1.0", "0.75", "0.5", "0.27", "0.01"):
        for second in ("", ".L2::evict_first", ".L2::evict_unchanged"):
            form(
                f"createpolicy.fractional.L2::{first}{second}.b64 {fraction}",
                "b64",
                "",
                f"createpolicy.fractional.L2::{first}{second}.b64 {{d0}}, {fraction};",
            )
form(
    "createpolicy.fractional.L2::evict_last.b64 and a load",
    "b32",
    "b32",
    "{{ .reg .b64 %policy; createpolicy.fractional.L2::evict_last.b64 %policy; "
    "ld.global.L2::cache_hint.b32 {d0}, [%in], %policy; }}",
)

RANGE = "min.u32 {s0}, {a1}, {a2}; max.u32 {s1}, {a1}, {a2}; max.u32 {s1}, {s1}, 1;"
for first in ("evict_last", "evict_normal", "evict_first", "evict_unchanged"):
    for second in ("", ".L2::evict_first", ".L2::evict_unchanged"):
        name = f"createpolicy.range.global.L2::{first}{second}.b64"
        form(
            name, "b64", "b64:address u32:size u32:size", f"{RANGE} {name} {{d0}}, [{{a0}}], {{s0}}, {{s1}};", blocks=4
        )
form("createpolicy.cvt.L2.b64", "b64", "b64:policy")

for t in ("f32", "f64", "f16x2", "bf16x2"):
    half = ".noftz" if t.endswith("x2") else ""
    atomic(f"red.global.add{half}.{t}", t)
    atomic(f"atom.global.add{half}.{t}", t)
for t in ("f16", "bf16"):
    atomic(f"red.global.add.noftz.{t}", t)
for count in (2, 4):
    atomic(f"red.global.add.v{count}.f32", "f32", count)
    for t in ("f16x2", "bf16x2"):
        atomic(f"red.global.add.noftz.v{count}.{t}", t, count)
        atomic(f"red.global.max.noftz.v{count}.{t}", t, count)
atomic("atom.global.add.v4.f32", "f32", 4)
atomic("red.global.add.noftz.v8.bf16", "bf16", 8)
form(
    "red.shared.add.f32",
    "f32",
    "f32 f32",
    "shl.b32 {s0}, {tid}, 2; mov.u32 {s1}, tile; add.u32 {s0}, {s0}, {s1}; "
    "st.shared.f32 [{s0}], {a0}; red.shared.add.f32 [{s0}], {a1}; ld.shared.f32 {d0}, [{s0}];",
)

# --- tensor cores -----------------------------------------------------------------------------------------------------


def registers(first, count, letter):
    return "{{" + ", ".join(f"{{{letter}{first + n}}}" for n in range(count)) + "}}"


def mma(shape, types, counts, kinds, **more):
    """The form of an mma. `types`: those of D, A, B and C, as in the name. `counts`: their registers. `kinds`: the types
    from which the operands A, B and C are drawn."""
    nd, na, nb, nc = counts
    name = f"mma.sync.aligned.{shape}.row.col.{more.pop('mods', '')}{types}{more.pop('ending', '')}"
    text = f"{name} {registers(0, nd, 'd')}, {registers(0, na, 'a')}, {registers(na, nb, 'a')}, {registers(na + nb, nc, 'a')};"
    form(
        name + more.pop("note", ""),
        " ".join([kinds[2]] * nd),
        " ".join([kinds[0]] * na + [kinds[1]] * nb + [kinds[2]] * nc),
        text,
        blocks=8,
        **more,
    )


for k, na, nb in ((8, 2, 1), (16, 4, 2)):
    mma(f"m16n8k{k}", "f32.f16.f16.f32", (4, na, nb, 4), ("f16x2", "f16x2", "f32:product"), note=" of anything")
    mma(f"m16n8k{k}", "f32.f16.f16.f32", (4, na, nb, 4), ("f16x2:product", "f16x2:product", "f32:product"))
    mma(f"m16n8k{k}", "f16.f16.f16.f16", (2, na, nb, 2), ("f16x2:product", "f16x2:product", "f16x2:product"))
    mma(f"m16n8k{k}", "f32.bf16.bf16.f32", (4, na, nb, 4), ("bf16x2:product", "bf16x2:product", "f32:product"))
for k, na, nb in ((4, 2, 1), (8, 4, 2)):
    mma(f"m16n8k{k}", "f32.tf32.tf32.f32", (4, na, nb, 4), ("f32:product", "f32:product", "f32:product"))
for k, na, nb in ((16, 2, 1), (32, 4, 2)):
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            mma(f"m16n8k{k}", f"s32.{a}.{b}.s32", (4, na, nb, 4), ("b32", "b32", "s32"))
            mma(f"m16n8k{k}", f"s32.{a}.{b}.s32", (4, na, nb, 4), ("b32", "b32", "s32"), mods="satfinite.")
mma("m8n8k16", "s32.s8.s8.s32", (2, 1, 1, 2), ("b32", "b32", "s32"))
# For fp16 sums the engine truncates to fp32 first, so about one result in some thousands is off by one ulp.
for a in ("e4m3", "e5m2"):
    for b in ("e4m3", "e5m2"):
        mma("m16n8k32", f"f32.{a}.{b}.f32", (4, 4, 2, 4), (a + "x4:product", b + "x4:product", "f32:product"))
        mma("m16n8k16", f"f32.{a}.{b}.f32", (4, 2, 1, 4), (a + "x4:product", b + "x4:product", "f32:product"))
        mma("m16n8k32", f"f16.{a}.{b}.f16", (2, 4, 2, 2), (a + "x4:product", b + "x4:product", "f16x2:product"), ulps=1)
        mma("m16n8k16", f"f16.{a}.{b}.f16", (2, 2, 1, 2), (a + "x4:product", b + "x4:product", "f16x2:product"), ulps=1)
for a in ("s4", "u4"):
    for b in ("s4", "u4"):
        for shape, counts in (("m16n8k64", (4, 4, 2, 4)), ("m16n8k32", (4, 2, 1, 4)), ("m8n8k32", (2, 1, 1, 2))):
            mma(shape, f"s32.{a}.{b}.s32", counts, ("b32", "b32", "s32"))
        mma("m16n8k64", f"s32.{a}.{b}.s32", (4, 4, 2, 4), ("b32", "b32", "s32"), mods="satfinite.")
for op in ("xor", "and"):
    for shape, counts in (("m16n8k256", (4, 4, 2, 4)), ("m16n8k128", (4, 2, 1, 4)), ("m8n8k128", (2, 1, 1, 2))):
        mma(shape, "s32.b1.b1.s32", counts, ("b32", "b32", "s32"), ending=f".{op}.popc")
for k in (8, 16, 4):
    counts = {4: (4, 2, 1, 4), 8: (4, 4, 2, 4), 16: (4, 8, 4, 4)}[k]
    mma(f"m16n8k{k}", "f64.f64.f64.f64", counts, ("f64:product", "f64:product", "f64:product"), mods="")
mma("m8n8k4", "f64.f64.f64.f64", (2, 1, 1, 2), ("f64:product", "f64:product", "f64:product"))


# B has 8 columns of 32 bytes, in two pieces of 8 rows of 16 bytes. The first 64 lanes write its words.
WGMMA = (
    "shl.b32 {s0}, {tid}, 2; mov.u32 {s1}, tile; add.u32 {s0}, {s0}, {s1}; st.shared.b32 [{s0}], {a4}; "
    "fence.proxy.async; bar.sync 0; {{ .reg .b64 %matrix; .reg .b32 %low; shr.u32 %low, {s1}, 4; "
    "cvt.u64.u32 %matrix, %low; or.b64 %matrix, %matrix, 0x1000080000; "
)


def wgmma(depth, types, kinds, ending=""):
    d, a, _ = types.split(".")
    count = 2 if d == "f16" else 4
    name = f"wgmma.mma_async.sync.aligned.m64n8k{depth}.{types}{ending}"
    moves = " ".join(f"mov.b32 {{d{n}}}, {{a{5 + n}}};" for n in range(count))
    scales = {"s32": "1"}.get(d, "1, 1, 1, 0" if depth == 16 else "1, 1, 1")
    text = (
        f"{WGMMA}{moves} wgmma.fence.sync.aligned; "
        f"{name} {registers(0, count, 'd')}, {registers(0, 4, 'a')}, %matrix, {scales}; "
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }}"
    )
    form(
        name,
        " ".join([kinds[2]] * count),
        " ".join([kinds[0]] * 4 + [kinds[1]] + [kinds[2]] * count),
        text,
        # The engine truncates sums to fp32 before it rounds them to fp16, so about one result in 4,096 is off by one
        # ulp.
        ulps=1 if (d, a) == ("f16", "f16") else 0,
        blocks=8,
        lanes=128,
    )


for a in ("f16", "bf16"):
    wgmma(16, f"f32.{a}.{a}", (a + "x2:product", a + "x2:product", "f32:product"))
wgmma(16, "f16.f16.f16", ("f16x2:product", "f16x2:product", "f16x2:product"))
wgmma(8, "f32.tf32.tf32", ("f32:product", "f32:product", "f32:product"))
for a in ("e4m3", "e5m2"):
    for b in ("e4m3", "e5m2"):
        wgmma(32, f"f32.{a}.{b}", (a + "x4:product", b + "x4:product", "f32:product"))
        wgmma(32, f"f16.{a}.{b}", (a + "x4:product", b + "x4:product", "f16x2:product"))
for a in ("s8", "u8"):
    for b in ("s8", "u8"):
        for ending in ("", ".satfinite"):
            wgmma(32, f"s32.{a}.{b}", ("b32", "b32", "s32"), ending=ending)


# --- inputs -----------------------------------------------------------------------------------------------------------

SPECIAL = {
    "f16": (0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3800, 0x3555),
    "bf16": (0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F00, 0x3EAB),
    "f32": (
        0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
        0xFF800000, 0x7FC00000, 0x3F000000, 0x4F000000, 0xCF000000, 0x4F800000, 0x40490FDB, 0x3FC00000, 0x40200000,
    ),
    "f64": (
        0, 1 << 63, 1, (1 << 63) + 1, 0xFFFFFFFFFFFFF, 1 << 52, 0x3FF << 52, 0xBFF << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF << 52,
        0xFFF << 52, 0x7FF8 << 48, 0x3FE << 52, 0x43E << 52, 0xC3E << 52, 0x41E << 52, 0x3FF8 << 48, 0x4004 << 48,
    ),
}  # fmt: skip


def bit_pattern(value, kind):
    """The bits of a Python float as f16, bf16 (truncated), f32 or f64."""
    if kind == "f16":
        return struct.unpack("<H", struct.pack("<e", value))[0]
    if kind == "f64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits >> 16 if kind == "bf16" else bits


def moderate(rng):
    """A number between 2^-8 and 2^8, of either sign."""
    return (rng.getrandbits(20) / 2**20 + 0.5) * 2.0 ** (rng.getrandbits(4) - 8) * (1 if rng.getrandbits(1) else -1)


def product(rng, block, kind):
    """A random factor of a matrix product. The spread of magnitudes depends on the block."""
    spread = (0, 2, 4, 8)[block % 4] if kind != "f64" else 2
    return (rng.getrandbits(24) / 2**24 - 0.5) * 2.0 ** (rng.getrandbits(8) % (2 * spread + 1) - spread)


def one_float(rng, kind, rule, block):
    if rule == "product":
        return bit_pattern(product(rng, block, kind), kind)
    if rule == "angle":
        return bit_pattern((rng.getrandbits(24) / 2**23 - 1) * 3.140625, kind)
    if rule == "small":
        return bit_pattern((rng.getrandbits(24) / 2**23 - 1) * 4, kind)
    choice = rng.getrandbits(3)
    special = SPECIAL[kind]
    if choice < 2:
        return special[rng.getrandbits(16) % len(special)]
    if choice < 6:
        return bit_pattern(moderate(rng), kind)
    return rng.getrandbits({"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[kind])


def one_value(rng, index, kind, block):
    kind, _, rule = kind.partition(":")
    if kind == "pred":
        return rng.getrandbits(1) if index >= 32 else int(rng.getrandbits(3) > 0)
    if kind.endswith("x2"):
        part = kind[:-2]
        return one_float(rng, part, rule, block) | one_float(rng, part, rule, block) << 16
    if kind.endswith("x4"):
        # Draws only finite fp8 values: in e4m3 0x7f is NaN, and in e5m2 infinity and NaN start at 0x7c.
        top = 0x7E if kind.startswith("e4m3") else 0x7B
        span = (0x20, 0x40, top, top)[block % 4]
        low = 0x38 - min(span // 2, 0x38)
        count = min(span, top + 1 - low)
        return sum((low + rng.getrandbits(8) % count | rng.getrandbits(1) << 7) << 8 * n for n in range(4))
    if kind in SPECIAL:
        return one_float(rng, kind, rule, block)
    width = 32 if rule == "32" else bits_of(kind)
    if rule == "shift":
        return rng.getrandbits(3) and rng.getrandbits(7) or rng.getrandbits(32)
    if rule == "address":  # an address of 47 bits, aligned to a random power of two
        return rng.getrandbits(47) >> (shift := rng.getrandbits(5)) << shift
    if rule == "size":
        return rng.getrandbits(32) >> rng.getrandbits(4)
    if rule == "policy":  # a policy as createpolicy.fractional makes it, sometimes random bits
        policy = (0x10 | rng.getrandbits(3)) << 56 | rng.getrandbits(4) << 52
        return rng.getrandbits(64) if rng.getrandbits(3) == 0 else policy
    if rule == "lane":
        return rng.getrandbits(5)
    if rule == "few":
        return rng.getrandbits(2) if index < 32 else 7
    choice = rng.getrandbits(3)
    if choice == 0:
        edges = (0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1, 2)
        value = edges[rng.getrandbits(16) % len(edges)]
    elif choice == 1:
        value = rng.getrandbits(4)
    else:
        value = rng.getrandbits(width)
    if rule == "divisor" and value == 0:
        value = 3
    return value


def inputs_of(each):
    """The inputs as [block][operand][lane]. They are the same on every machine."""
    rng = random.Random(each.name)
    return [
        [[one_value(rng, lane, kind, block) for lane in range(each.lanes)] for kind in each.reads]
        for block in range(each.blocks)
    ]


# --- PTX --------------------------------------------------------------------------------------------------------------


def entry_of(number, each):
    """Each thread reads 8 bytes per operand from [block][operand][lane] and writes 8 bytes per result."""
    lines = [f".visible .entry form{number}(.param .u64 in, .param .u64 out)", "{"]
    lines += ["  .reg .b64 %in, %out;", "  .reg .b32 %lane, %block, %at, %scratch<2>;"]
    names = {"tid": "%lane", "s0": "%scratch0", "s1": "%scratch1"}
    for letter, kinds in (("d", each.writes), ("a", each.reads)):
        for n, kind in enumerate(kinds):
            width = register_bits(kind)
            lines.append(f"  .reg .{'pred' if width == 0 else 'b' + str(width)} %{letter}{n};")
            names[f"{letter}{n}"] = f"%{letter}{n}"
    if any(kind == "pred" for kind in each.reads + each.writes):
        lines.append("  .reg .b32 %truth;")
    lines += ["  ld.param.u64 %in, [in];", "  ld.param.u64 %out, [out];"]
    lines += ["  mov.u32 %lane, %tid.x;", "  mov.u32 %block, %ctaid.x;"]
    for base, count in (("%in", len(each.reads)), ("%out", len(each.writes))):
        lines.append(f"  mad.lo.u32 %at, %block, {each.lanes * count}, %lane;")
        lines.append(f"  mad.wide.u32 {base}, %at, 8, {base};")
    for n, kind in enumerate(each.reads):
        width = register_bits(kind)
        place = f"[%in+{8 * each.lanes * n}]"
        if width:
            lines.append(f"  ld.global.b{width} %a{n}, {place};")
        else:
            lines += [f"  ld.global.b32 %truth, {place};", f"  setp.ne.u32 %a{n}, %truth, 0;"]
    lines.append("  " + each.text.format(**names))
    for n, kind in enumerate(each.writes):
        width = register_bits(kind)
        place = f"[%out+{8 * each.lanes * n}]"
        if width:
            lines.append(f"  st.global.b{width} {place}, %d{n};")
        else:
            lines += [f"  selp.u32 %truth, 1, 0, %d{n};", f"  st.global.b32 {place}, %truth;"]
    return "\n".join([*lines, "  ret;", "}"])


def module_of(forms, target="sm_90a"):
    shared = ".shared .align 16 .b8 tile[1024];"
    entries = [entry_of(number, each) for number, each in enumerate(forms)]
    return "\n".join([".version 8.7", f".target {target}", ".address_size 64", shared, *entries]) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--apart"]:
        for form_number, one in enumerate(FORMS):
            pathlib.Path(sys.argv[2], f"form{form_number}.ptx").write_text(module_of([one]), encoding="utf8")
    else:
        print(module_of(FORMS), end="")
