/**
 * References whose text was read and compared with the operation, as SHA-256 of their normal form (referenceDigest), by
 * op_type and storage of queries. They are the attention and gemm references in the last data set in FlashInfer-Bench's
 * repository (flashinfer-ai/flashinfer-bench ecafa9c2, flashinfer_trace), and six from FlashInfer's dumps
 * (flashinfer-ai/flashinfer fb28d724, tests/trace/fi_trace_out). Attention references have a causal mask that ends at
 * the last key, or no mask if each sequence has one query. Rows without a key are 0 with an LSE of minus infinity, or
 * not defined. LSE has base 2.
 */
export const KNOWN_REFERENCES: Readonly<Record<string, ReadonlySet<string>>> = {
  'gqa_paged one each': new Set([
    // gqa_paged_decode_h16_kv2_d128_ps1 and 3 more
    'd7f9e54649b0e966c22669c8c52f907bd0a623e3a47a8c37ad6328d2b769cd5c',
    // gqa_paged_decode_h16_kv2_d128_ps64 and 2 more
    'c4499c662425e7aef4815fe966a6f1c4230f601368b179662ac32ac879e10530',
    // gqa_paged_decode_h20_kv4_d128_ps1 and 3 more
    '2b3a60de00dceefe7ae6031f60b1eb4f2ac9127af087e0d8d4974906a3854ec8',
    // gqa_paged_decode_h20_kv4_d128_ps64 and 3 more
    '2279cc2ba61048d2216b05ef7c66a98af48c929e40aa5c76d0d5df86e8676598',
    // gqa_paged_decode_h6_kv1_d128_ps1
    'ba98a8d2b7ae92b57e837f6a2cad3dfb4ee55c2c0ad8e893210c492447463292',
    // gqa_paged_decode_h6_kv1_d128_ps64
    'f899b08791c8178713b6bfacbf0c4d6a298d039a7dda3854895b70a90c213ddd',
    // gqa_paged_decode_h32_kv8_d128_ps16 and 1 more (a dump)
    '8423d7fdcba12777ff36c9d0112d21c543326ebd1d362a1d51ff901914a1a785',
  ]),
  'gqa_paged packed': new Set([
    // gqa_paged_prefill_causal_h16_kv1_d128_ps64 and 6 more
    'e41ddc7871c2472d9eedb4232a131dc2daea89e8c0e3699a4e59436aad10ab97',
    // gqa_paged_prefill_causal_h16_kv2_d128_ps1 and 6 more
    'df0a6b905d6a38673ab44f030e47df871e9ccfae3441358b88ee41963f24ab42',
    // gqa_paged_prefill_causal_h24_kv4_d128_ps1 and 1 more
    '075045b8a4dc5e3e25b28ddadd5d7dd80bb113fd6d2c585a01f44509afa9f887',
    // gqa_paged_prefill_causal_h32_kv4_d128_ps64
    '669f7268714187da6ee591f7b49c9c95c532d899c3056ce7a2aa5976a60abe54',
    // gqa_paged_prefill_causal_h40_kv10_d128_ps1
    '3f3663c5755b302b450be689bdfd36eeb4b4f31059242c1bf3a14cd0de9de51e',
    // gqa_paged_prefill_causal_h5_kv1_d128_ps64
    '7900453a6f1d6600ee7b44181b21c07b1058c62b200dac9187b027a92ef9d3b0',
    // gqa_paged_prefill_causal_h6_kv1_d128_ps64
    '3ee7e7fa19508b66da6a6d1d7ed6648ca42587e042f54b32085f5a3bdaf32e42',
    // gqa_paged_prefill_h32_kv8_d128_ps16 (a dump)
    'b40ae19f500308209fd2f08f10af0ea2c20932edfb1068951cefa7936401af3c',
  ]),
  'gqa_ragged packed': new Set([
    // gqa_ragged_prefill_causal_h16_kv2_d128 and 7 more
    'c006530c0cbe5930eb0293051e69ed58aaba580553c00ac924ff3a660cb09f8e',
    // gqa_ragged_prefill_causal_h5_kv1_d128
    '083145991ac4b336062d820b5132188d669b2679eeb82ecd253b8fc2c05e50d4',
    // gqa_ragged_h32_kv8_d128 (a dump)
    '55f78d80451eba0434cbbc7f81244a5b77af8d8de9df834a16896d609686266c',
  ]),
  'mla_paged one each': new Set([
    // mla_paged_decode_h16_ckv512_kpe64_ps1
    '09e02382a78beb8a45a2fcfe3ea14c115c371d5e1c64514ae56e718f7b0a510a',
    // mla_paged_decode_h16_ckv512_kpe64_ps64
    '71b98c4d8bfa2df5bdf58562d799caa9d4afb6c8b80cf59b3f42f31b830bc7fd',
    // mla_paged_decode_h8_ckv512_kpe64_ps1
    'bdce162f530831cc8971dcf0abbe1bdf04f5ee98b46ceed0d1052326def4f61a',
    // mla_paged_decode_h16_ckv512_kpe64_ps1 and 1 more (a dump)
    'b7b7ef598b56198e4fc152352928b1d53f05475c9b58d06929a58402169a5b94',
  ]),
  'mla_paged packed': new Set([
    // mla_paged_prefill_causal_h16_ckv512_kpe64_ps1
    '90b3c01ae2a627914d61d0e2189150a848efd76c79b252f272416b1f37eb899d',
    // mla_paged_prefill_causal_h16_ckv512_kpe64_ps64
    'e61656f60d1ee0a47680f02f8cf9e408cc45134ac46df6f7462f8e788dc128cd',
    // mla_paged_prefill_causal_h8_ckv512_kpe64_ps1
    '2c5263e88caf4fbf2b1ff0e607950db08802978ba70e607cc97faa72fc523346',
  ]),
  'mla_ragged packed': new Set([
    // mla_ragged_prefill_causal_h16_qk192_vo128 and 1 more
    'fd393aac47d9d267ea1a4335f3d79a85904672fa2d73662a93d957214fd5325a',
  ]),
  gemm: new Set([
    // gemm_n10240_k8192 and 31 more
    'edcb7459197b88adf19421244626463edf587f5100eaaffcd0b41d45b96a5dc1',
  ]),
};
