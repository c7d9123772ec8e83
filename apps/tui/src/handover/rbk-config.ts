/**
 * `rbk_config.yaml`: a benchmark request in the format of the lab notes. A setting that this program can't follow is
 * refused by name.
 */
import { yamlFile, type TensorDtype } from '@flashcore/shared/kernels';

const { strict, text, integer, flag, listOf, oneOf } = yamlFile;

const MOST_EXTENT = 1_000_000;

/** Names of dtypes in rbk_config.yaml. */
const DTYPES = {
  fp16: 'fp16',
  float16: 'fp16',
  half: 'fp16',
  bf16: 'bf16',
  bfloat16: 'bf16',
  fp32: 'fp32',
  float32: 'fp32',
} as const satisfies Record<string, TensorDtype>;
const dtypeName = oneOf(Object.keys(DTYPES) as [keyof typeof DTYPES]);

const shapeSchema = strict({
  name: text().optional(),
  batch_size: integer(1, MOST_EXTENT),
  num_heads: integer(1, MOST_EXTENT),
  seq_len: integer(1, MOST_EXTENT),
  head_dim: integer(1, MOST_EXTENT),
  causal: flag().default(false),
  dtype: dtypeName.optional(),
});

const configSchema = strict({
  warmups: integer(0, 1_000_000).optional(),
  iterations: integer(1, 1_000_000).optional(),
  dtype: dtypeName.default('fp16'),
  output_dir: text().default('.'),
  save_json: flag().default(true),
  save_csv: flag().default(false),
  save_markdown: flag().default(true),
  shapes: listOf(shapeSchema),
});

interface RbkShape {
  readonly name: string;
  /** Shape in the form of --shape. */
  readonly shape: string;
}

export interface RbkConfig {
  /** Dtype of Q, K, V and O on every shape. */
  readonly dtype: TensorDtype;
  /** Requested warm-ups. The runner warms up by its own protocol instead, and the report says so. */
  readonly warmups: number | undefined;
  readonly iterations: number | undefined;
  readonly outputFolder: string;
  readonly saves: { readonly json: boolean; readonly csv: boolean; readonly markdown: boolean };
  readonly shapes: readonly RbkShape[];
}

/** `file` is the name in messages. Errors: INVALID_MANIFEST with file, line and key. */
export function parseRbkConfig(yaml: string, file: string): RbkConfig {
  const parsed = yamlFile.parseYamlFile(yaml, file, configSchema);
  const { value } = parsed;
  const dtypes = value.shapes.map(({ dtype = value.dtype }) => DTYPES[dtype]);
  const faults = [
    ...(value.shapes.length === 0 ? [{ key: ['shapes'], message: 'must have at least one shape' }] : []),
    ...dtypes.flatMap((dtype, at) =>
      dtype === dtypes[0]
        ? []
        : [
            {
              key: ['shapes', at, 'dtype'],
              message: `must be ${dtypes[0]}, as the first shape's, got ${dtype}: write a file for each dtype`,
            },
          ],
    ),
  ];
  if (faults.length > 0) throw parsed.refuse(faults);
  return {
    dtype: dtypes[0]!,
    warmups: value.warmups,
    iterations: value.iterations,
    outputFolder: value.output_dir,
    saves: { json: value.save_json, csv: value.save_csv, markdown: value.save_markdown },
    shapes: value.shapes.map(({ name, batch_size, num_heads, seq_len, head_dim, causal }) => {
      const shape = `${batch_size}x${num_heads}x${seq_len}x${head_dim}${causal ? 'c' : ''}`;
      return { name: name ?? shape, shape };
    }),
  };
}
