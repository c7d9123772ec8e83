/**
 * The parts of an exported PyTorch file besides its operator, by problem: gradients, and the signatures of
 * FlashAttention and FlashInfer, so that a model needs to change only an import. `own` are the numbers that the kernel
 * takes.
 */
import { operatorCode, type Operator } from './torch-operator.ts';

interface Signatures {
  /** Lines of the file's docstring. */
  readonly about: (operator: Operator, backward?: PairedKernel) => string;
  /** Axes whose extents follow from others: an expression of `extents` and `tensors`. */
  readonly derivedAxes?: string;
  /** The problem of the backward pass, whose kernel can be in the same file as the forward pass's. */
  readonly backward?: string;
  readonly code: (operator: Operator, name: string, backward?: PairedKernel) => string;
}

/** The kernel of the backward pass, in a file that has both passes. */
export interface PairedKernel {
  readonly id: string;
  readonly operator: Operator;
}

const takes = ({ numbers, tensors }: Operator, name: string): boolean =>
  numbers.some((each) => each.name === name) || tensors.some((each) => each.argument === name);

/** The arguments of a call for the numbers that the kernel takes. `values` has the values by name. */
const passed = (operator: Operator, values: Readonly<Record<string, string>>): string =>
  Object.entries(values)
    .filter(([name]) => takes(operator, name))
    .map(([name, value]) => `, ${name}=${value}`)
    .join('');

/** Code that refuses arguments for which the kernel has no number. */
const refused = (operator: Operator, checks: Readonly<Record<string, string>>): string =>
  Object.entries(checks)
    .filter(([name]) => !takes(operator, name))
    .map(([, check]) => `    ${check}\n`)
    .join('');

const HELPERS = `def _neutral(**given):
    """Refuses arguments of the other library's signature that no launch here has."""
    for name, (value, neutral) in given.items():
        if value is not neutral and (isinstance(value, torch.Tensor) or value != neutral):
            raise NotImplementedError(f"{KERNEL}: {name} is not supported: must be {neutral!r}")


def _unknown(others):
    for name, value in others.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{KERNEL}: {name} is not supported")


def _mask(causal, window_size):
    """Whether a query sees no later keys, and how many before its own (-1: all)."""
    left, right = window_size
    causal = bool(causal) or right == 0
    if not causal and (left >= 0 or right > 0):
        raise NotImplementedError(f"{KERNEL}: window_size {window_size} without a causal mask is not supported")
    return causal, max(left, -1)
`;

const attentionAbout = (operator: Operator, backward?: PairedKernel): string => {
  const lse = takes(operator, 'lse') ? ', lse' : '';
  return `    from KERNEL_ID import attention, flash_attn_func
    o = attention(q, k, v, causal=True)
    attention_out(q, k, v, o${lse}, causal=True)  # into a tensor of yours
    o = attention(q, k, v, scale=0.1)       # in the place of 1 / sqrt(D)
    o = flash_attn_func(q, k, v, softmax_scale=None, causal=True)  # [B, S, H, D], as FlashAttention's

attention takes q and o as [B, H, S, D], k and v as [B, Hkv, Skv, D]${
    isRowsFirst(operator) ? ', all of which lie in memory as [B, S, H, D]: views of\nwhat a projection writes' : ''
  }. causal=1 or True: query i sees keys 0 to i, as in
PyTorch's SDPA; causal=2: 0 to i + Skv - S, as in FlashAttention. ${
    isRowsFirst(operator)
      ? 'flash_attn_func copies nothing.'
      : `flash_attn_func copies each tensor into the other
layout, which costs a read and a write of q, k, v and o${
          operator.tensors.some(({ layout }) => layout)
            ? ''
            : '; a kernel that reads and writes [B, S, H, D] spares that'
        }.`
  } Gradients: ${
    backward
      ? `the backward pass is
${backward.id}; for cases that it does not take, and where torch.use_deterministic_algorithms() is on, it is
PyTorch's FlashAttention.`
      : `the forward pass is this kernel, and the backward
pass is PyTorch's FlashAttention, which computes the forward pass once more for its sums of weights.`
  }`;
};

/** True if Q, K, V and O have FlashAttention's memory layout. */
const isRowsFirst = ({ tensors }: Operator): boolean =>
  tensors.every(({ dims, layout }) => dims.length !== 4 || layout?.join(', ') === BSHD);

const BSHD = '0, 2, 1, 3';

/** Turns a tensor of [B, S, H, D] into [B, H, S, D] with the memory layout of the operator's `argument`. */
function placed(name: string, { tensors }: Operator, argument = name): string {
  const layout = tensors.find((each) => each.argument === argument)!.layout;
  if (layout?.join(', ') === BSHD) return `${name}.contiguous().transpose(1, 2)`;
  const inverse = layout?.map((_, dim) => layout.indexOf(dim));
  const moved = layout
    ? `.permute(${layout.join(', ')}).contiguous().permute(${inverse!.join(', ')})`
    : '.contiguous()';
  return `${name}.transpose(1, 2)${moved}`;
}

/** Code for the end of flash_attn_func: the call of the operator, and the return of its result. */
function flashCall(operator: Operator): string {
  const layouts = operator.tensors.some(({ layout }) => layout);
  const inputs = ['q', 'k', 'v'].map((each) =>
    layouts ? placed(each, operator) : `${each}.transpose(1, 2).contiguous()`,
  );
  return `    if not torch.compiler.is_compiling() and _is_differentiated(q, k, v) and _is_plain(q, k, v):
        return _Attention.apply(True, q, k, v, mask, softmax_scale${operator.numbers
          .slice(2)
          .map((each) => `, ${each.name}`)
          .join('')})
    q, k, v = ${inputs.join(', ')}
    out = attention(q, k, v, mask, softmax_scale${passed(operator, { window: 'window', softcap: 'softcap' })})
    return out.transpose(1, 2).contiguous()`;
}

const attentionCode = (operator: Operator, name: string, backward?: PairedKernel): string => `${operatorCode(
  operator,
  name,
  {
    recorded: (passed) => `_Attention.apply(False, ${passed})`,
    result: ['out'],
  },
)}

${HELPERS}

def flash_attn_func(
    q,
    k,
    v,
    softmax_scale=None,
    causal=False,
    *,
    dropout_p=0.0,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    **others,
):
    """FlashAttention's signature: q and the result [B, S, H, D], k and v [B, Skv, Hkv, D]; the mask ends at the last key.
    ${
      isRowsFirst(operator)
        ? 'Copies nothing but tensors that are not contiguous.'
        : "Copies the four tensors to and from the kernel's layout, except where S, or H, is 1."
    }"""
    if softmax_scale == 0:
        raise ValueError(f"{KERNEL}: softmax_scale is 0; FlashAttention 2 has dropout_p in this place: name the arguments")
    _neutral(
        dropout_p=(dropout_p, 0.0),
        alibi_slopes=(alibi_slopes, None),
        deterministic=(deterministic, False),
        return_attn_probs=(return_attn_probs, False),
    )
    _unknown(others)
    causal, window = _mask(causal, window_size)
${refused(operator, { window: '_neutral(window_size=(window, -1))', softcap: '_neutral(softcap=(softcap, 0.0))' })}    mask = 2 if causal and q.shape[1] != k.shape[1] else int(causal)
${flashCall(operator)}


_MOST_SCORES = 1 << 26


def _gradients(grad, q, k, v, causal, scale):
    """dq, dk and dv, by PyTorch's FlashAttention where it has the case, else by their definition in fp32."""
    queries, keys = q.shape[2], k.shape[2]
    if causal == 1 and keys > queries:  # no query sees the others, which have no gradient
        dq, *seen = _gradients(grad, q, k[:, :, :queries], v[:, :, :queries], 1, scale)
        return (dq, *(torch.nn.functional.pad(each, (0, 0, 0, keys - queries)) for each in seen))
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale
    # FlashAttention's mask ends at the last key.
    same_mask = causal == 0 or queries == keys or (causal == 2 and keys >= queries)
    if q.dtype is torch.float32 or q.shape[3] % 8 != 0 or q.shape[3] > 256 or q.shape[3] != v.shape[3] or not same_mask:
        return _gradients_by_definition(grad, q, k, v, causal, scale)
    aten, masked = torch.ops.aten, causal != 0
    out, lse, *plan, seed, offset, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, masked, scale=scale)
    return aten._scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, lse, *plan, 0.0, masked, seed, offset, scale=scale
    )


def _gradients_by_definition(grad, q, k, v, causal, scale):
    shared = q.shape[1] // k.shape[1]
    queries, keys = q.shape[2], k.shape[2]
    hidden = None
    if causal:
        last = torch.arange(queries, device=q.device)[:, None] + (keys - queries if causal == 2 else 0)
        hidden = torch.arange(keys, device=q.device)[None, :] > last
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    # A slice of the heads at a time, because scores take queries times keys.
    some = max(1, _MOST_SCORES // (shared * queries * keys))
    for batch in range(q.shape[0]):
        for head in range(0, k.shape[1], some):
            of_k = (batch, slice(head, head + some))
            of_q = (batch, slice(head * shared, (head + some) * shared))
            grouped = [each[of_q].float().unflatten(0, (-1, shared)) for each in (q, grad)]
            (query, d_out), key, value = grouped, k[of_k].float()[:, None], v[of_k].float()[:, None]
            scores = query @ key.transpose(-1, -2) * scale
            if hidden is not None:
                scores.masked_fill_(hidden, -math.inf)
            # A query that sees no key has no gradient.
            weights = torch.softmax(scores, -1).nan_to_num_(0.0)
            d_weights = d_out @ value.transpose(-1, -2)
            d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * scale
            dq[of_q] = (d_scores @ key).flatten(0, 1).to(q.dtype)
            dk[of_k] = (d_scores.transpose(-1, -2) @ query).sum(1).to(k.dtype)
            dv[of_k] = (weights.transpose(-1, -2) @ d_out).sum(1).to(v.dtype)
    return dq, dk, dv


${backward ? pairedGradients(backward) : ''}
@torch.library.custom_op("${name}_backward", mutates_args=())
def attention_backward_op(
${savedNames(backward)
  .map((each) => `    ${each}: torch.Tensor,\n`)
  .join('')}    d_out: torch.Tensor,
    causal: int,
    scale: Optional[float],
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dq, dk, dv = ${gradientsCall(backward)}
    return dq.contiguous(), dk.contiguous(), dv.contiguous()


@attention_backward_op.register_fake
def _(${savedNames(backward).join(', ')}, d_out, causal, scale):
    return tuple(torch.empty_like(each, memory_format=torch.contiguous_format) for each in (q, k, v))


def _save(ctx, inputs, output):
    q, k, v, ctx.causal, ctx.scale, *ctx.others = inputs
${backward ? '    out, lse = output\n' : ''}    ctx.save_for_backward(${savedNames(backward).join(', ')})


def _has_gradient(others):
    if others != ${JSON.stringify(otherNumbers(operator)).replaceAll('"', '')}:
        raise NotImplementedError(f"{KERNEL}: a window or a softcap has no gradient here")


def _backward(ctx, d_out${takes(operator, 'lse') ? ', d_lse' : ''}):
    _has_gradient(ctx.others)
    dq, dk, dv = attention_backward_op(*ctx.saved_tensors, ${ofGradient(operator, 'd_out')}, ctx.causal, ctx.scale)
    return dq, dk, dv${', None'.repeat(operator.numbers.length)}


attention_op.register_autograd(_backward, setup_context=_save)


class _Attention(torch.autograd.Function):
    """The same for eager calls, without the dispatcher's time. rows_first: tensors are [B, S, H, D]."""

    @staticmethod
    def forward(ctx, rows_first, q, k, v, causal, scale, *others):
        if rows_first:
            q, k, v = ${['q', 'k', 'v'].map((each) => placed(each, operator)).join(', ')}
        ${outputNames(operator)} = _new_outputs(q, k, v)
${
  isRowsFirst(operator)
    ? `        if rows_first:  # a result may not be a view that was made in here
            result = torch.empty_like(out.transpose(1, 2), memory_format=torch.contiguous_format)
            out = result.transpose(1, 2)
`
    : ''
}        if not _kernel.fast(q, k, v, ${outputNames(operator)}, causal, scale, *others):
            _run(q, k, v, ${outputNames(operator)}, causal, scale, *others)
        ctx.rows_first, ctx.causal, ctx.scale, ctx.others = rows_first, causal, scale, [*others]
${
  isRowsFirst(operator)
    ? `        out = result if rows_first else out
        ctx.save_for_backward(${savedNames(backward).join(', ')})
        return out`
    : `        ctx.save_for_backward(${savedNames(backward).join(', ')})
        # A copy also where there is one row or head: a result may not be a view that was made in here.
        return out.transpose(1, 2).clone(memory_format=torch.contiguous_format) if rows_first else out`
}

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out):
        _has_gradient(ctx.others)
        ${savedNames(backward).join(', ')} = ctx.saved_tensors
${isRowsFirst(operator) && backward ? '        out = out.transpose(1, 2) if ctx.rows_first else out\n' : ''}        d_out = ${placed('d_out', operator, 'out')} if ctx.rows_first else ${ofGradient(operator, 'd_out')}
        causal, scale = ctx.causal, ctx.scale
        found = ${gradientsCall(backward)}
        if ctx.rows_first:
            found = (each.transpose(1, 2) for each in found)
        return None, *found${', None'.repeat(operator.numbers.length)}
`;

/** The gradient of the result, with the memory layout of the result. */
const ofGradient = (operator: Operator, name: string): string =>
  operator.tensors.some(({ layout }) => layout)
    ? placed(`${name}.transpose(1, 2)`, operator, 'out')
    : `${name}.contiguous()`;

/** Values of the numbers after the mask and the scale in a call with gradients. */
const otherNumbers = ({ numbers }: Operator): string[] => numbers.slice(2).map(({ usual }) => usual);

const outputNames = ({ tensors }: Operator): string =>
  tensors
    .filter(({ out }) => out)
    .map(({ argument }) => argument)
    .join(', ');

/** Tensors that the forward pass keeps for the backward pass. */
const savedNames = (backward: PairedKernel | undefined): string[] =>
  backward ? ['q', 'k', 'v', 'out', 'lse'] : ['q', 'k', 'v'];

const gradientsCall = (backward: PairedKernel | undefined): string =>
  backward ? '_kernel_gradients(q, k, v, out, lse, d_out, causal, scale)' : '_gradients(d_out, q, k, v, causal, scale)';

/** The code of _kernel_gradients: the backward kernel, or PyTorch for cases that the kernel does not take. */
function pairedGradients({ operator: { tensors, numbers } }: PairedKernel): string {
  const [ins, outs] = [false, true].map((out) =>
    tensors.filter((each) => each.out === out).map(({ argument }) => argument),
  ) as [string[], string[]];
  const given = numbers.map(({ name }) => name);
  const all = [...ins, ...outs, ...given].join(', ');
  return `
@functools.lru_cache(maxsize=1024)
def _backward_takes(shapes, numbers):
    """Whether the backward kernel takes a case, for which it is enough to know the shapes."""
    shaped = {name: torch.empty(shape, device="meta") for name, shape in shapes}
    try:
        _backward_kernel.planned(shaped, dict(numbers))
    except ValueError:
        return False
    return True


def _kernel_gradients(q, k, v, out, lse, d_out, causal, scale):
    if d_out.data_ptr() % 16 != 0:
        d_out = d_out.clone()
    if not torch.are_deterministic_algorithms_enabled():
        ${outs.join(', ')} = _backward_new_outputs(${ins.join(', ')})
        if _backward_kernel.fast(${all}):
            return dq, dk, dv
        named = {${[...ins, ...outs].map((each) => `"${each}": ${each}`).join(', ')}}
        shapes = tuple((name, tensor.shape) for name, tensor in named.items())
        if _backward_takes(shapes, (${given.map((each) => `("${each}", ${each}), `).join('')})):
            _backward_run(${all})
            return dq, dk, dv
    return _gradients(d_out, q, k, v, causal, scale)

`;
}

const lseOnly = (operator: Operator): boolean => takes(operator, 'lse');
/** The results of `attention` as out and lse. lse is None if the kernel does not write it. */
const outAndLse = (operator: Operator, call: string): string =>
  lseOnly(operator) ? `    out, lse = ${call}` : `    out, lse = ${call}, None`;

const LSE_CHECK = `def _with_lse(out, lse, wanted, factor=1.0):
    if wanted and lse is None:
        raise NotImplementedError(f"{KERNEL} does not write the logarithm of the sum of weights")
    return (out, lse * factor) if wanted else out


# FlashInfer's logarithms are to base 2.
_LOG2_E = 1.0 / math.log(2.0)
`;

const VARLEN_ABOUT = `    from KERNEL_ID import flash_attn_varlen_func
    o = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest, causal=True)

Sequences are packed, one after another: q and o [T, H, D], k and v [T, Hkv, D], and cu_seqlens says where each begins
(int32, one more than there are). Queries and keys are of the same tokens. BatchPrefillWithRaggedKVCacheWrapper has
FlashInfer's signature. There is no backward.`;

const varlenCode = (operator: Operator, name: string): string => `${operatorCode(operator, name)}

${HELPERS}

${LSE_CHECK}

def _packed_attention(q, k, v, offsets, causal, scale, window, softcap):
${refused(operator, { window: '_neutral(window=(window, -1))', softcap: '_neutral(softcap=(softcap, 0.0))' })}    return attention(q, k, v${[
  ...(takes(operator, 'lengths') ? [', lengths=offsets.diff()'] : []),
  ...(takes(operator, 'offsets') ? [', offsets=offsets'] : []),
].join('')}${passed(operator, { causal: 'causal', scale: 'scale', window: 'window', softcap: 'softcap' })})


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q=None,
    max_seqlen_k=None,
    *,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    **others,
):
    """FlashAttention's signature. The longest lengths are not needed."""
    _neutral(dropout_p=(dropout_p, 0.0), alibi_slopes=(alibi_slopes, None), return_attn_probs=(return_attn_probs, False))
    _unknown(others)
    _same_tokens(cu_seqlens_q, cu_seqlens_k)
    causal, window = _mask(causal, window_size)
${outAndLse(operator, '_packed_attention(q, k, v, cu_seqlens_q, causal, softmax_scale, window, softcap)')}
    return out


def _same_tokens(queries, keys):
    if queries is not keys and queries.data_ptr() != keys.data_ptr():
        raise NotImplementedError(f"{KERNEL}: queries and keys must be the same tokens: pass one tensor of offsets for both")


class BatchPrefillWithRaggedKVCacheWrapper:
    """FlashInfer's signature, for queries and keys of the same tokens. It needs no workspace buffer."""

    def __init__(self, float_workspace_buffer=None, kv_layout="NHD", use_cuda_graph=False, **others):
        _neutral(kv_layout=(kv_layout, "NHD"))
        self._planned = None

    def plan(
        self,
        qo_indptr,
        kv_indptr,
        num_qo_heads,
        num_kv_heads,
        head_dim_qk,
        head_dim_vo=None,
        custom_mask=None,
        packed_custom_mask=None,
        causal=False,
        pos_encoding_mode="NONE",
        use_fp16_qk_reduction=False,
        window_left=-1,
        logits_soft_cap=None,
        sm_scale=None,
        **others,
    ):
        _neutral(
            custom_mask=(custom_mask, None),
            packed_custom_mask=(packed_custom_mask, None),
            pos_encoding_mode=(pos_encoding_mode, "NONE"),
        )
        _same_tokens(qo_indptr, kv_indptr)
        self._planned = qo_indptr, causal, sm_scale, window_left, logits_soft_cap or 0.0

    def run(self, q, k, v, return_lse=False):
        offsets, *given = self._planned
    ${outAndLse(operator, '_packed_attention(q, k, v, offsets.to(q.device), *given)')}
        return _with_lse(out, None if lse is None else lse.transpose(0, 1), return_lse, _LOG2_E)
`;

const decodeCode =
  (paged: boolean) =>
  (operator: Operator, name: string): string => `${operatorCode(operator, name)}

${HELPERS}

${LSE_CHECK}

def _of_cache(q, k, v, lengths, ${paged ? 'table, ' : ''}scale, window, softcap):
${refused(operator, { window: '_neutral(window=(window, -1))', softcap: '_neutral(softcap=(softcap, 0.0))' })}    return attention(q, k, v${[
    'lengths',
    'table',
  ]
    .filter((name) => takes(operator, name))
    .map((name) => `, ${name}=${name}`)
    .join('')}${passed(operator, { scale: 'scale', window: 'window', softcap: 'softcap' })})


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    *,
    cache_seqlens=None,
${paged ? '    block_table=None,\n' : ''}    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    return_softmax_lse=False,
    num_splits=0,
    rotary_interleaved=True,
    **others,
):
    """FlashAttention's signature: q and the result [B, S, H, D], ${
      paged ? 'pages of the cache [pages, page, Hkv, D], block_table [B, n]' : 'the cache [B, Skv, Hkv, D]'
    }. New k and v, where given, are
    written behind cache_seqlens first. cache_seqlens is int32; in a CUDA graph it is read at each replay."""
    _unknown(others)
    if q.shape[1] > 1 and not causal:
        raise NotImplementedError(f"{KERNEL}: {q.shape[1]} queries must be causal=True: the last one sees the last key")
    # Without a right end the mask of a single query is that of the last key.
    _, window = _mask(True, window_size)
    if not isinstance(cache_seqlens, torch.Tensor):
        rows = ${paged ? 'block_table.shape[1] * k_cache.shape[1]' : 'k_cache.shape[1]'} if cache_seqlens is None else cache_seqlens
        cache_seqlens = torch.full((q.shape[0],), rows, dtype=torch.int32, device=q.device)
    if k is not None:
        at = cache_seqlens.long()[:, None] + torch.arange(k.shape[1], device=q.device)
${
  paged
    ? `        page = block_table.gather(1, at // k_cache.shape[1]).long()
        k_cache[page, at % k_cache.shape[1]] = k
        v_cache[page, at % k_cache.shape[1]] = v`
    : `        sequence = torch.arange(k.shape[0], device=q.device)[:, None]
        k_cache[sequence, at] = k
        v_cache[sequence, at] = v`
}
        cache_seqlens = cache_seqlens + k.shape[1]
${outAndLse(operator, `_of_cache(q, k_cache, v_cache, cache_seqlens, ${paged ? 'block_table, ' : ''}softmax_scale, window, softcap)`)}
    return _with_lse(out, lse, return_softmax_lse)

${paged ? pagedWrapper(operator) : singleDecode(operator)}`;

const singleDecode = (operator: Operator): string => `
def single_decode_with_kv_cache(
    q,
    k,
    v,
    kv_layout="NHD",
    pos_encoding_mode="NONE",
    use_tensor_cores=False,
    q_scale=None,
    k_scale=None,
    v_scale=None,
    window_left=-1,
    logits_soft_cap=None,
    sm_scale=None,
    rope_scale=None,
    rope_theta=None,
    return_lse=False,
):
    """FlashInfer's signature: q [H, D], k and v [Skv, Hkv, D]."""
    _neutral(
        kv_layout=(kv_layout, "NHD"),
        pos_encoding_mode=(pos_encoding_mode, "NONE"),
        q_scale=(q_scale, None),
        k_scale=(k_scale, None),
        v_scale=(v_scale, None),
    )
    lengths = torch.full((1,), k.shape[0], dtype=torch.int32, device=q.device)
${outAndLse(operator, '_of_cache(q[None, None], k[None], v[None], lengths, sm_scale, window_left, logits_soft_cap or 0.0)')}
    return _with_lse(out[0, 0], None if lse is None else lse[0, :, 0], return_lse, _LOG2_E)
`;

const pagedWrapper = (operator: Operator): string => `
class BatchDecodeWithPagedKVCacheWrapper:
    """FlashInfer's signature. plan() makes a page table of the lists, and waits for the longest one's length; run()
    only launches. In a CUDA graph use flash_attn_with_kvcache, whose block_table keeps its address."""

    def __init__(self, float_workspace_buffer=None, kv_layout="NHD", use_cuda_graph=False, use_tensor_cores=False, **others):
        _neutral(kv_layout=(kv_layout, "NHD"), use_cuda_graph=(use_cuda_graph, False))
        self._planned = None

    def plan(
        self,
        indptr,
        indices,
        last_page_len,
        num_qo_heads,
        num_kv_heads,
        head_dim,
        page_size,
        pos_encoding_mode="NONE",
        window_left=-1,
        logits_soft_cap=None,
        q_data_type=None,
        kv_data_type=None,
        data_type=None,
        sm_scale=None,
        **others,
    ):
        _neutral(pos_encoding_mode=(pos_encoding_mode, "NONE"))
        indptr, last_page_len = (each.to(indices.device).long() for each in (indptr, last_page_len))
        pages = indptr.diff()
        places = torch.arange(max(1, int(pages.max())), device=indices.device)
        of_list = indptr[:-1, None] + places
        table = indices[of_list.clamp(max=len(indices) - 1)] * (places < pages[:, None])
        lengths = torch.where(pages > 0, (pages - 1) * page_size + last_page_len, 0)
        self._planned = lengths.int(), table.int(), sm_scale, window_left, logits_soft_cap or 0.0

    def run(self, q, paged_kv_cache, return_lse=False):
        if isinstance(paged_kv_cache, torch.Tensor):
            raise NotImplementedError(f"{KERNEL}: paged_kv_cache must be a tuple of K and V: pages of one tensor are not contiguous")
        k, v = paged_kv_cache
    ${outAndLse(operator, '_of_cache(q[:, None], k, v, *self._planned)')}
        return _with_lse(out[:, 0], None if lse is None else lse[:, :, 0], return_lse, _LOG2_E)
`;

const decodeAbout = (paged: boolean): string => `    from KERNEL_ID import flash_attn_with_kvcache
    o = flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths${paged ? ', block_table=table' : ''})

q and o are [B, S, H, D], S at most 8, whose last query sees the last key; ${
  paged
    ? 'pages of the cache [pages, page, Hkv, D], of which table [B, n] says whose they are'
    : 'the cache is [B, Skv, Hkv, D]'
}.
lengths is int32 on the device: a CUDA graph reads it at each replay, so that lengths may grow.
${paged ? 'BatchDecodeWithPagedKVCacheWrapper' : 'single_decode_with_kv_cache'} has FlashInfer's signature. There is no backward.`;

/** The problem of decoding over a paged cache. */
export const PAGED_DECODE = 'attention_decode_paged';

/** The signatures by problem. The file of a problem that is not listed has only the operator. */
export const SIGNATURES: Readonly<Record<string, Signatures>> = {
  attention: { about: attentionAbout, backward: 'attention_backward', code: attentionCode },
  attention_varlen: { about: () => VARLEN_ABOUT, code: varlenCode },
  attention_decode: { about: () => decodeAbout(false), code: decodeCode(false) },
  [PAGED_DECODE]: {
    about: () => decodeAbout(true),
    derivedAxes: '{**extents, "Skv": tensors["table"].shape[1] * extents["page"]}',
    code: decodeCode(true),
  },
};
