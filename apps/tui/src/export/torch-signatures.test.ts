/**
 * Runs the signatures of exported PyTorch files with Debian's PyTorch on the CPU. Attention in fp32 replaces the
 * launch, so that layouts, masks, caches, page tables and gradients are compared with the same formula.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manifestOfVariant, parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { entryOf } from '@flashcore/shared/text';
import { expect, onTestFinished, test } from 'vitest';
import type { ExportedKernel } from './exported-kernel.ts';
import { pagedDecodeFiles } from './flashinfer-decode.ts';
import { torchFile } from './torch-file.ts';
import { operatorProblem } from './torch-operator.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
const torchTest = test.skipIf(missing('python3-torch'));

type Parameters = Record<string, number>;

function exportedOf(kernel: string, given: Parameters = {}): ExportedKernel {
  const folder = path.join(ROOT, kernel);
  const manifest = parseManifest(readFileSync(path.join(folder, 'kernel.yaml'), 'utf8'), folder);
  const { parameters, dtype } = resolveVariant(manifest, { parameters: given }, undefined);
  return {
    manifest: manifestOfVariant(manifest, parameters),
    parameters,
    dtype,
    arch: 'sm_90a',
    cubins: [],
    sources: [],
    flags: [],
    origin: { buildId: 'ab'.repeat(32), label: '', compiler: '', runner: '', sourceDigest: '', job: '' },
    measured: [],
    license: undefined,
    verdict: undefined,
  };
}

/** The parts of PyTorch's interface that the files use but PyTorch 1.13 lacks. */
const PRELUDE = `
import math, sys, types
import torch
class Op:
    def __init__(self, body): self.body, self.backward = body, None
    def register_fake(self, body): return body
    def register_autograd(self, backward, setup_context): self.backward, self.setup = backward, setup_context
    def __call__(self, *inputs):
        if self.backward is None: return self.body(*inputs)
        op = self
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *given):
                out = op.body(*given)
                op.setup(ctx, given, out)
                return out
            @staticmethod
            def backward(ctx, *grads): return op.backward(ctx, *grads)
        return Function.apply(*inputs)
torch.library.custom_op = lambda name, mutates_args: Op
torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
torch.manual_seed(1)

def reference(q, k, v, mask=0, scale=None, window=-1, softcap=0.0):
    """O and LSE of q [H, S, D], k and v [Hkv, Skv, D]."""
    k, v = (each.float().repeat_interleave(q.shape[0] // k.shape[0], 0) for each in (k, v))
    scores = q.float() @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap: scores = softcap * torch.tanh(scores / softcap)
    own = torch.arange(q.shape[1])[:, None] + (k.shape[1] - q.shape[1] if mask == 2 else 0)
    key = torch.arange(k.shape[1])
    unseen = (key > own) | ((key < own - window) if window >= 0 else False)
    if mask: scores = scores.masked_fill(unseen, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v, torch.logsumexp(scores, -1)

def swap(*tensors): return [each.transpose(0, 1) for each in tensors]

def planned(tensors, given):
    """The kernel takes the case: its plan has launches."""
    assert _kernel.planned(tensors, given)[0]

def close(a, b, most=2e-3):
    assert a.shape == b.shape, (a.shape, b.shape)
    worst = (a.float() - b.float()).abs().max().item()
    assert worst < most, worst

def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except (ValueError, NotImplementedError) as error:
        return str(error)
    raise AssertionError("not refused")
`;

const run = (kernel: string, program: string): string[] => runFile(torchFile(exportedOf(kernel)), program);

/** The lines that the program prints. */
function runFile(exported: string, program: string): string[] {
  const folder = mkdtempSync(path.join(tmpdir(), 'fc-signatures-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'program.py');
  writeFileSync(file, `${PRELUDE}\n${exported}\n${program}`);
  const { status, stdout, stderr } = spawnSync('/usr/bin/python3', [file], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return stdout.trimEnd().split('\n');
}

const ATTENTION = `
def _run(q, k, v, out, causal, scale, *forms):
    planned({"q": q, "k": k, "v": v, "out": out}, {"causal": causal, "scale": scale, **dict(zip(("window", "softcap"), forms))})
    for b in range(len(q)): out[b] = reference(q[b], k[b], v[b], int(causal), scale, *forms)[0]
`;

torchTest.each<Parameters>([{}, { BSHD: 1 }])(
  'flash_attn_func of flashcore_v12 with %o is attention in the other layout, and its mask ends at the last key',
  { timeout: 60_000 },
  (parameters) => {
    const printed = runFile(
      torchFile(exportedOf('kernels/flashcore_v12', parameters)),
      `${ATTENTION}
for H, Hkv, S, Skv in ((8, 8, 64, 64), (8, 2, 64, 64), (8, 2, 32, 100), (4, 1, 1, 77)):
    q, k, v = torch.randn(2, S, H, 64), torch.randn(2, Skv, Hkv, 64), torch.randn(2, Skv, Hkv, 64)
    for causal in (False, True):
        out = flash_attn_func(q, k, v, causal=causal)
        assert out.is_contiguous()
        close(out, torch.stack([reference(*swap(*each), 2 if causal else 0)[0].transpose(0, 1) for each in zip(q, k, v)]))
close(flash_attn_func(q, k, v, 0.3)[0], reference(*swap(q[0], k[0], v[0]), scale=0.3)[0].transpose(0, 1))
formed = flash_attn_func(q, k, v, causal=True, window_size=(4, 0), softcap=20.0)
close(formed[0], reference(*swap(q[0], k[0], v[0]), 2, window=4, softcap=20.0)[0].transpose(0, 1))
print(refused(flash_attn_func, q, k, v, 0.0))
print(refused(flash_attn_func, q, k, v, dropout_p=0.1))
print(refused(flash_attn_func, q, k, v, window_size=(4, 4)))
print(refused(flash_attn_func, q, k, v, sinks=q))
print(refused(flash_attn_func, torch.randn(1, 9, 4, 64), k[:1, :8], v[:1, :8], causal=True))
`,
    );
    expect(printed).toEqual([
      'flashcore_v12: softmax_scale is 0; FlashAttention 2 has dropout_p in this place: name the arguments',
      'flashcore_v12: dropout_p is not supported: must be 0.0',
      'flashcore_v12: window_size (4, 4) without a causal mask is not supported',
      'flashcore_v12: sinks is not supported',
      'flashcore_v12 does not take B=1, H=4, S=9, D=64, causal=2, Hkv=1, Skv=8, Dv=64, window=-1, softcap=0: it requires causal != 2 || Skv >= S, because every row has to see a key',
    ]);
  },
);

torchTest('a kernel without windows or capped logits refuses them', { timeout: 60_000 }, () => {
  const printed = run(
    'kernels/flashcore_v10',
    `
q = torch.randn(1, 8, 4, 64)
print(refused(flash_attn_func, q, q, q, causal=True, window_size=(4, 0)))
print(refused(flash_attn_func, q, q, q, softcap=20.0))
`,
  );
  expect(printed).toEqual([
    'flashcore_v10: window_size is not supported: must be -1',
    'flashcore_v10: softcap is not supported: must be 0.0',
  ]);
});

torchTest(
  'gradients equal those of autograd, and FlashAttention computes them where its mask is the same',
  { timeout: 60_000 },
  () => {
    const printed = run(
      'kernels/flashcore_v12',
      `${ATTENTION}
def gradients(call, dtype=torch.float32):
    leaves = [torch.randn(shape, generator=torch.Generator().manual_seed(index)).to(dtype).requires_grad_()
              for index, shape in enumerate(((2, H, S, 64), (2, Hkv, Skv, 64), (2, Hkv, Skv, 64)))]
    above = torch.randn((2, H, S, 64), generator=torch.Generator().manual_seed(9)).to(dtype)
    return torch.autograd.grad(call(*leaves), leaves, above)
def expected(q, k, v): return torch.stack([reference(*each, mask)[0] for each in zip(q, k, v)])
cases = ((4, 4, 16, 16, 0), (4, 2, 16, 16, 1), (4, 2, 8, 20, 2), (4, 1, 8, 20, 1), (4, 4, 20, 8, 1))
for H, Hkv, S, Skv, mask in cases:
    for ours, theirs in zip(gradients(lambda q, k, v: attention(q, k, v, mask)), gradients(expected)): close(ours, theirs, 1e-4)
_MOST_SCORES = 1  # a head at a time
for ours, theirs in zip(gradients(lambda q, k, v: attention(q, k, v, mask)), gradients(expected)): close(ours, theirs, 1e-4)

# FlashAttention is a GPU's: these take its place, with its arguments, and a mask that ends at the last key.
calls = []
def forward(q, k, v, dropout, masked, *, scale):
    calls.append([list(k.shape), masked])
    return "out", "lse", 1, 2, 3, 4, "seed", "offset", None
def backward(grad, q, k, v, out, lse, a, b, c, d, dropout, masked, seed, offset, *, scale):
    assert (out, lse, a, b, c, d, dropout, seed, offset) == ("out", "lse", 1, 2, 3, 4, 0.0, "seed", "offset")
    return _gradients_by_definition(grad, q, k, v, 2 if masked else 0, scale)
torch.ops.aten = types.SimpleNamespace(_scaled_dot_product_flash_attention=forward, _scaled_dot_product_flash_attention_backward=backward)
for H, Hkv, S, Skv, mask in cases:
    for ours, theirs in zip(gradients(lambda q, k, v: attention(q, k, v, mask), torch.bfloat16), gradients(expected)): close(ours, theirs, 0.1)
print(calls)
`,
    );
    // The last case has rows below the last key, for which FlashAttention's mask differs.
    expect(printed).toEqual([
      '[[[2, 4, 16, 64], False], [[2, 2, 16, 64], True], [[2, 2, 20, 64], True], [[2, 1, 8, 64], True]]',
    ]);
  },
);

torchTest.each<[forward: string, parameters: Parameters, backward: string, ofBackward: Parameters]>([
  ['kernels/flashcore_v12', { WRITE_LSE: 1 }, 'backward_hopper', {}],
  ['kernels/flashcore_v12', { WRITE_LSE: 1, BSHD: 1 }, 'backward_hopper', { BSHD: 1 }],
  ['kernels/flashcore_v12', { WRITE_LSE: 1 }, 'backward_mma', {}],
  ['examples/kernels/gqa_rows', { WRITE_LSE: 1 }, 'backward_rows', {}],
])(
  '%s with %o uses the backward kernel %s, or plain operations for cases that it does not take, and the gradients are correct',
  { timeout: 60_000 },
  (forward, parameters, backward, ofBackward) => {
    const printed = runFile(
      torchFile({
        ...exportedOf(forward, parameters),
        backward: exportedOf(`examples/kernels/${backward}`, ofBackward),
      }),
      `
calls = []
bshd = ${parameters['BSHD'] ? 'True' : 'False'}
def own(tensor): return tensor.transpose(1, 2).contiguous().transpose(1, 2) if bshd else tensor

def _run(q, k, v, out, lse, causal, scale, *forms):
    given = {"causal": causal, "scale": scale, **dict(zip(("window", "softcap"), forms))}
    assert _kernel.planned({"q": q, "k": k, "v": v, "out": out, "lse": lse}, given)[0]
    for b in range(len(q)): out[b], lse[b] = reference(q[b], k[b], v[b], int(causal), scale, *forms)

def _backward_run(q, k, v, out, lse, d_out, dq, dk, dv, causal, scale):
    """From O and LSE, as the kernel computes them."""
    named = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "d_out": d_out, "dq": dq, "dk": dk, "dv": dv}
    assert _backward_kernel.planned(named, {"causal": causal, "scale": scale})[0]
    assert all((each.transpose(1, 2) if bshd and each.dim() == 4 else each).is_contiguous() for each in named.values())
    calls.append(list(q.shape))
    shared, rows, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    scale = scale or 1 / math.sqrt(q.shape[-1])
    K, V = (each.repeat_interleave(shared, 1) for each in (k, v))
    own = torch.arange(rows)[:, None] + (keys - rows if causal == 2 else 0)
    scores = q @ K.transpose(-1, -2) * scale
    if causal: scores = scores.masked_fill(torch.arange(keys) > own, -math.inf)
    weights = torch.exp(scores - lse[..., None])
    d_scores = weights * (d_out @ V.transpose(-1, -2) - (d_out * out).sum(-1, keepdim=True)) * scale
    dq.copy_(d_scores @ K)
    dk.copy_((d_scores.transpose(-1, -2) @ q).unflatten(1, (-1, shared)).sum(2))
    dv.copy_((weights.transpose(-1, -2) @ d_out).unflatten(1, (-1, shared)).sum(2))

def gradients(call, case):
    H, Hkv, S, Skv, *_ = case
    leaves = [own(torch.randn(shape, generator=torch.Generator().manual_seed(index))).requires_grad_()
              for index, shape in enumerate(((2, H, S, 64), (2, Hkv, Skv, 64), (2, Hkv, Skv, 64)))]
    return torch.autograd.grad(call(*leaves), leaves, torch.randn((2, H, S, 64), generator=torch.Generator().manual_seed(9)))
def expected(case, scale=None): return gradients(lambda q, k, v: torch.stack([reference(*each, case[4], scale)[0] for each in zip(q, k, v)]), case)

numbers = [usual for name, usual in (("window", -1), ("softcap", 0.0)) if name in attention.__code__.co_varnames]
taken = ((4, 4, 16, 16, 0), (4, 2, 16, 16, 1), (4, 2, 8, 20, 2), (4, 1, 8, 20, 1), (4, 4, 20, 8, 1))
for case in taken:
    calls.clear()
    for scale in (None, 0.3):
        wanted = expected(case, scale)
        # By the operator, as under torch.compile, and by the eager function.
        ways = (lambda q, k, v: attention(q, k, v, case[4], scale), lambda q, k, v: _Attention.apply(False, q, k, v, case[4], scale, *numbers),
                lambda q, k, v: _Attention.apply(True, *(each.transpose(1, 2) for each in (q, k, v)), case[4], scale, *numbers).transpose(1, 2))
        for way in ways:
            for ours, theirs in zip(gradients(way, case), wanted): close(ours, theirs, 1e-4)
    assert len(calls) == 2 * len(ways), calls
    if case[4] == 1 and case[2] != case[3]: continue
    swapped = lambda q, k, v: flash_attn_func(*(each.transpose(1, 2) for each in (q, k, v)), causal=case[4] != 0).transpose(1, 2)
    for ours, theirs in zip(gradients(swapped, case), expected(case)): close(ours, theirs, 1e-4)
calls.clear()
# Sums over more rows than a key's gradient can have in the problem: its definition instead.
case = (8, 1, 40, 9, 0)
for ours, theirs in zip(gradients(attention, case), expected(case)): close(ours, theirs, 2e-4)
torch.use_deterministic_algorithms(True)
for ours, theirs in zip(gradients(attention, taken[0]), expected(taken[0])): close(ours, theirs, 1e-4)
torch.use_deterministic_algorithms(False)
assert calls == [], calls
# A gradient that is expanded, or begins in the middle of 16 bytes.
q, k, v = (own(torch.randn(1, 2, 8, 64)).requires_grad_() for _ in range(3))
attention(q, k, v).sum().backward()
shifted = torch.ones(2 * 8 * 64 + 1)[1:].view(1, 2, 8, 64)
for one, other in zip(torch.autograd.grad(attention(q, k, v), (q, k, v), shifted), (q.grad, k.grad, v.grad)): close(one, other, 1e-6)
with torch.no_grad(): close(attention(q, k, v)[0], reference(q[0], k[0], v[0])[0])
print(calls)
print(refused(flash_attn_func, q, k, v, deterministic=True))
print(refused(lambda: attention(q, k, v, True, window=3).sum().backward()))
`,
    );
    const id = path.basename(forward);
    expect(printed).toEqual([
      '[[1, 2, 8, 64], [1, 2, 8, 64]]',
      `${id}: deterministic is not supported: must be False`,
      `${id}: a window or a softcap has no gradient here`,
    ]);
  },
);

torchTest('packed sequences have the signatures of FlashAttention and FlashInfer', { timeout: 60_000 }, () => {
  const printed = run(
    'examples/kernels/varlen_rows',
    `
def _run(q, k, v, offsets, out, lse, causal, scale, window, softcap):
    planned({"q": q, "k": k, "v": v, "offsets": offsets, "out": out, "lse": lse},
            {"causal": causal, "scale": scale, "window": window, "softcap": softcap})
    for a, b in zip(offsets.tolist(), offsets.tolist()[1:]):
        o, l = reference(*swap(q[a:b], k[a:b], v[a:b]), int(causal), scale, window)
        out[a:b], lse[:, a:b] = o.transpose(0, 1), l
q, k, v = torch.randn(50, 8, 64), torch.randn(50, 2, 64), torch.randn(50, 2, 64)
offsets = torch.tensor([0, 7, 7, 30, 50], dtype=torch.int32)
def expected(mask, window): return [reference(*swap(q[a:b], k[a:b], v[a:b]), mask, window=window) for a, b in ((0, 7), (7, 30), (30, 50))]
def outs(found): return torch.cat([o.transpose(0, 1) for o, _ in found])
close(flash_attn_varlen_func(q, k, v, offsets, offsets, 23, 23, causal=True, window_size=(5, -1)), outs(expected(1, 5)))
wrapper = BatchPrefillWithRaggedKVCacheWrapper(torch.empty(1), "NHD")
wrapper.plan(offsets, offsets, 8, 2, 64, causal=False)
out, lse = wrapper.run(q, k, v, return_lse=True)
close(out, outs(expected(0, -1)))
close(lse, torch.cat([l.T for _, l in expected(0, -1)]) / math.log(2))
print(refused(flash_attn_varlen_func, q, k, v, offsets, offsets.clone()))
print(refused(attention, q, k, v[:, :, :32].contiguous(), offsets))
`,
  );
  expect(printed).toEqual([
    'varlen_rows: queries and keys must be the same tokens: pass one tensor of offsets for both',
    'varlen_rows: v is [50, 2, 32]: must be [T, Hkv, D] with T=50, Hkv=2, D=64',
  ]);
});

torchTest.each([
  ['decode_mma', '', 'rows = lambda k, v, b, n: (k[b, :n], v[b, :n])'],
  [
    'decode_paged',
    ', block_table=table',
    'rows = lambda k, v, b, n: tuple(each[table[b].long()].flatten(0, 1)[:n] for each in (k, v))',
  ],
])('a decoding loop over %s appends keys to its cache and attends to them', { timeout: 60_000 }, (id, more, rows) => {
  const printed = run(
    `examples/kernels/${id}`,
    `
paged = ${more === '' ? 'False' : 'True'}
B, H, Hkv, D, page = 3, 8, 2, 64, 8
table = torch.randperm(18)[:15].int().view(3, 5)
full_k, full_v = torch.randn(B, 40, Hkv, D), torch.randn(B, 40, Hkv, D)
shape = (18, page, Hkv, D) if paged else (B, 40, Hkv, D)
kc, vc = torch.zeros(shape), torch.zeros(shape)
${rows}
def _run(q, k, v, lengths, *others):
    named = {"q": q, "k": k, "v": v, "lengths": lengths}
    if paged: named["table"], *others = others
    out, lse, scale, window, softcap = others
    planned({**named, "out": out, "lse": lse}, {"scale": scale, "window": window, "softcap": softcap})
    for b, n in enumerate(lengths.tolist()):
        o, l = reference(*swap(q[b], *rows(k, v, b, n)), 2, scale, window)
        out[b], lse[b] = o.transpose(0, 1), l
lengths = torch.tensor([0, 1, 17], dtype=torch.int32)
def write(to):
    for b, n in enumerate(to.tolist()):
        for place in range(n):
            at = (table[b, place // page].long(), place % page) if paged else (b, place)
            kc[at], vc[at] = full_k[b, place], full_v[b, place]
write(lengths)
for step in range(6):
    S = 1 + step % 2
    q = torch.randn(B, S, H, D)
    new = [torch.stack([full[b, n : n + S] for b, n in enumerate(lengths.tolist())]) for full in (full_k, full_v)]
    out, lse = flash_attn_with_kvcache(q, kc, vc, *new, cache_seqlens=lengths, causal=True, return_softmax_lse=True${more})
    lengths += S
    for b, n in enumerate(lengths.tolist()):
        o, l = reference(*swap(q[b], full_k[b, :n], full_v[b, :n]), 2)
        close(out[b], o.transpose(0, 1)); close(lse[b], l)
q = torch.randn(B, 1, H, D)
if paged:
    pages = [(n + page - 1) // page for n in lengths.tolist()]
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1), "NHD")
    wrapper.plan(torch.tensor([0, *pages]).cumsum(0).int(), torch.cat([table[b, :n] for b, n in enumerate(pages)]),
                 (lengths - 1) % page + 1, H, Hkv, D, page)
    out, lse = wrapper.run(q[:, 0], (kc, vc), return_lse=True)
    print(refused(wrapper.run, q[:, 0], kc))
else:
    found = [single_decode_with_kv_cache(q[b, 0], *rows(kc, vc, b, n), return_lse=True) for b, n in enumerate(lengths.tolist())]
    out, lse = (torch.stack(each) for each in zip(*found))
    print(refused(single_decode_with_kv_cache, q[0, 0], kc[0], vc[0], "HND"))
for b, n in enumerate(lengths.tolist()):
    o, l = reference(*swap(q[b], full_k[b, :n], full_v[b, :n]))
    close(out[b], o[:, 0]); close(lse[b], l[:, 0] / math.log(2))
print(refused(flash_attn_with_kvcache, torch.randn(B, 2, H, D), kc, vc${more}))
`,
  );
  expect(printed).toEqual([
    id === 'decode_mma'
      ? "decode_mma: kv_layout is not supported: must be 'NHD'"
      : 'decode_paged: paged_kv_cache must be a tuple of K and V: pages of one tensor are not contiguous',
    `${id}: 2 queries must be causal=True: the last one sees the last key`,
  ]);
});

interface Solution {
  definition: string;
  spec: Record<string, unknown>;
  sources: { path: string; content: string }[];
}

torchTest.each(['decode_hopper_paged', 'decode_mma_paged', 'decode_paged'])(
  'solutions of %s compute what their definitions in the data set of FlashInfer-Bench say',
  { timeout: 120_000 },
  (id) => {
    const files = pagedDecodeFiles(exportedOf(`examples/kernels/${id}`, { BF16: 1 }));
    const texts = Object.entries(files).map(([file, text]) => [file, JSON.parse(text)] as const);
    const solutions = texts.flatMap(([file, json]) => (file.startsWith('solutions/') ? [json as Solution] : []));
    expect([solutions.length, texts.length]).toEqual([17, 34]);
    const printed = ['gqa_paged_decode_h6_kv1_d128_ps64', 'gqa_paged_decode_h32_kv8_d128_ps1'].flatMap((name) => {
      const { spec, sources } = solutions.find(({ definition }) => definition === name)!;
      expect(spec).toMatchObject({ entry_point: 'main.py::run', destination_passing_style: false });
      const definition = files[`definitions/gqa_paged/${name}.json`]!;
      return runFile(
        sources[0]!.content,
        `
def _run(q, k, v, lengths, table, out, lse, scale, window, softcap):
    planned({"q": q, "k": k, "v": v, "lengths": lengths, "table": table, "out": out, "lse": lse},
            {"scale": scale, "window": window, "softcap": softcap})
    for b, n in enumerate(lengths.tolist()):
        rows = [each[table[b].long()].flatten(0, 1)[:n] for each in (k, v)]
        o, l = reference(*swap(q[b], *rows), 2, scale, window)
        out[b], lse[b] = o.transpose(0, 1), l
definition = json.loads(${JSON.stringify(JSON.stringify(JSON.parse(definition)))})
value = {axis: each["value"] for axis, each in definition["axes"].items() if each["type"] == "const"}
H, Hkv, D, page = (value[axis] for axis in ("num_qo_heads", "num_kv_heads", "head_dim", "page_size"))
lengths = torch.tensor([3, 0, 2 * page + 1, page], dtype=torch.int32)
pages = (lengths + page - 1) // page
kv_indptr = torch.nn.functional.pad(pages.cumsum(0), (1, 0)).int()
kv_indices = torch.randperm(12)[: int(pages.sum())].int()
q = torch.randn(4, H, D, dtype=torch.bfloat16)
k_cache, v_cache = (torch.randn(12, page, Hkv, D, dtype=torch.bfloat16) for _ in range(2))
given = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "kv_indptr": kv_indptr, "kv_indices": kv_indices}
if page > 1: given["kv_last_page_len"] = (lengths - 1) % page + 1
assert list(definition["inputs"]) == [*given, "sm_scale"]
scope = {}
exec(definition["reference"], scope)
want = scope["run"](*given.values(), 0.2)
# As FlashInfer-Bench calls it.
out, lse = run(*given.values(), 0.2)
assert list(definition["outputs"]) == ["output", "lse"] and out.dtype == torch.bfloat16 and lse.dtype == torch.float32
close(out, want[0], 2e-2)
seen = lengths > 0
close(lse[seen], want[1][seen])
assert (lse[~seen] == -math.inf).all() and (want[1][~seen] == -math.inf).all()
# As trace_apply calls it.
if page > 1:
    del given["kv_last_page_len"]
    print(refused(lambda: run(**given, return_lse=False)))
else:
    assert torch.equal(run(**given, sm_scale=0.2, return_lse=False), out)
    assert torch.equal(run(**given, sm_scale=0.2, return_lse=True)[1], lse)
    print("trace_apply")
`,
      );
    });
    expect(printed).toEqual([
      `${id}: kv_last_page_len is missing, and last pages are rarely full: pass it, or use pages of one row`,
      'trace_apply',
    ]);
  },
);

test('a kernel of paged decoding that is not bf16 has no solution in FlashInfer-Bench', () => {
  expect(() => pagedDecodeFiles(exportedOf('examples/kernels/decode_paged'))).toThrow(
    '--flashinfer: decode_paged takes fp16',
  );
});

torchTest(
  "the operator's arguments and error messages have the problem's names of tensors and axes",
  { timeout: 60_000 },
  () => {
    const printed = run(
      'examples/kernels/rmsnorm',
      `
def _run(X, W, Y):
    assert _kernel.planned({"X": X, "W": W, "Y": Y}, {})[0][0].grid == (X.shape[0], 1, 1)
    Y.copy_(X / torch.sqrt(X.square().mean(1, keepdim=True) + 1e-5) * W)
X, W = torch.randn(5, 96), torch.randn(96)
want = X / torch.sqrt(X.square().mean(1, keepdim=True) + 1e-5) * W
close(rmsnorm(X, W), want)
Y = torch.empty_like(X)
rmsnorm_out(X, W, Y)
close(Y, want)
print(refused(rmsnorm, X, W[:64].clone()))
`,
    );
    expect(printed).toEqual(['rmsnorm: W is [64]: must be [N] with N=96']);
  },
);

torchTest('a tensor must have the extent that the kernel fixes', { timeout: 60_000 }, () => {
  const { manifest, ...rest } = exportedOf('examples/kernels/rmsnorm');
  const dims = manifest.problem.tensors[0]!.dims.slice(0, 1).map((dim) => ({ ...dim, text: '96' }));
  const tensors = manifest.problem.tensors.map((tensor) => (tensor.name === 'W' ? { ...tensor, dims } : tensor));
  const exported = torchFile({ ...rest, manifest: { ...manifest, problem: { ...manifest.problem, tensors } } });
  const printed = runFile(
    exported,
    `
X = torch.empty(5, 96)
print(_kernel.extents({"X": X, "W": torch.empty(96), "Y": X}))
print(refused(_kernel.extents, {"X": X, "W": torch.empty(64), "Y": X}))
`,
  );
  expect(printed).toEqual(["{'rows': 5, 'N': 96}", 'rmsnorm: W is [64]: must be [96]']);
});

torchTest('a problem is refused if one of its names has another meaning in the exported file', () => {
  const exported = exportedOf('examples/kernels/rmsnorm');
  const { problem } = exported.manifest;
  const [names = ''] = runFile(
    '',
    `
import symtable
def names(scope):
    for child in scope.get_children():
        for symbol in child.get_symbols():
            if symbol.is_global() or child.get_name() == "_run":
                yield symbol.get_name()
        yield from names(child)
file = symtable.symtable(${JSON.stringify(torchFile(exported))}, "file", "exec")
print(*{*names(file), *(each.get_name() for each in file.get_symbols())})
`,
  );
  const own = new Set([problem.id, ...['op', 'out', 'out_op'].map((end) => `${problem.id}_${end}`), 'X', 'W', 'Y']);
  const needed = names.split(' ').filter((name) => !own.has(name));
  expect(needed).toEqual(expect.arrayContaining(['torch', 'max', 'key', '_kernel']));
  expect(
    needed.filter((id) => operatorProblem({ ...exported.manifest, problem: { ...problem, id } }) === undefined),
  ).toEqual([]);
});

torchTest(
  "outputs have their tensors' own dtypes, and errors name the tensor on another device or at a wrong address",
  { timeout: 60_000 },
  () => {
    const { manifest, ...rest } = exportedOf('examples/kernels/rmsnorm');
    const own = { X: 'int32', W: 'fp32' } as const;
    const tensors = manifest.problem.tensors.map((tensor) => ({ ...tensor, ownDtype: entryOf(own, tensor.name) }));
    const printed = runFile(
      torchFile({ ...rest, manifest: { ...manifest, problem: { ...manifest.problem, tensors } } }),
      `
X, W = torch.zeros(5, 96, dtype=torch.int32), torch.zeros(96)
Y = _new_outputs(X, W)
print(Y.dtype is DTYPE, list(Y.shape))
def on(device, tensor, address=4096):
    held = types.SimpleNamespace(dtype=tensor.dtype, shape=tensor.shape, device=torch.device(device))
    held.dim, held.numel, held.is_contiguous, held.data_ptr = tensor.dim, tensor.numel, tensor.is_contiguous, lambda: address
    return held
print(refused(_kernel.prepare, {"X": on("cuda:0", X), "W": on("cuda:1", W), "Y": on("cuda:0", Y)}, {}))
print(refused(_kernel.prepare, {"X": on("cuda:0", X, 4100), "W": on("cuda:0", W, 4100), "Y": on("cuda:0", Y)}, {}))
`,
    );
    expect(printed).toEqual([
      'True [5, 96]',
      'rmsnorm: W is on cuda:1: must be on cuda:0, as X is',
      'rmsnorm: W begins at 0x1004: must begin at a multiple of 16 bytes; call .clone()',
    ]);
  },
);

torchTest('a backward pass returns its three gradients, by the names of the problem', { timeout: 60_000 }, () => {
  const printed = run(
    'examples/kernels/backward_rows',
    `
def _run(Q, K, V, O, LSE, dO, dQ, dK, dV, causal, scale):
    for place, tensor in enumerate((dQ, dK, dV)): tensor.fill_(place)
Q, K = torch.randn(1, 4, 8, 64), torch.randn(1, 2, 16, 64)
found = attention_backward(Q, K, K, Q, torch.randn(1, 4, 8), Q, scale=0.1)
print([(list(each.shape), each.mean().item()) for each in found])
`,
  );
  expect(printed).toEqual(['[([1, 4, 8, 64], 0.0), ([1, 2, 16, 64], 1.0), ([1, 2, 16, 64], 2.0)]']);
});
