/**
 * Compares the built-in operation with the Python references of FlashInfer-Bench definitions, for the fixture's
 * definition and every definition below $FLASHINFER_DEFINITIONS. Nothing else runs these references. Needs PyTorch; a
 * CPU is enough.
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { drawInputs, NORMAL } from '@flashcore/runner/testing';
import { parseProblem, problemCase, type ProblemCase } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { compiledReference } from '../support/reference.ts';

const LIMIT_MS = 240_000;
const FIXTURE = join(ROOT, 'apps/tui/src/problem-import/fixtures/gqa_paged_decode_h6_kv1_d128_ps64.json');
const folder = process.env['FLASHINFER_DEFINITIONS'];
const definitions = folder === undefined ? [FIXTURE] : globSync(`${folder}/**/{gqa,mla}_*.json`).toSorted();
const reference = await compiledReference();
const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

/** Prints each output as JSON, with NaN and infinities as Python writes them. */
const PROGRAM = `
import json, sys, torch
folder = sys.argv[1]
spec = json.load(open(folder + "/spec.json"))
scope = {}
exec(spec["reference"], scope)
known = {name for name in scope if callable(scope[name]) and getattr(scope[name], "__module__", None) is None}
run = scope.get("run") or [scope[name] for name in known if name.endswith("_reference")][0]
dtypes = {"bf16": torch.bfloat16, "int32": torch.int32}
inputs = {"sm_scale": spec["scale"]}
for tensor in spec["tensors"]:
    data = bytearray(open(folder + "/" + tensor["name"], "rb").read())
    inputs[tensor["name"]] = torch.frombuffer(data, dtype=dtypes[tensor["dtype"]]).reshape(tensor["dims"])
if "kv_indices" in inputs:
    inputs["kv_indices"] = inputs["kv_indices"][: int(inputs["kv_indptr"][-1])]
names = [name for name in spec["inputs"] if name in inputs]
for result in run(**{name: inputs[name] for name in names}):
    print(json.dumps([str(value) for value in result.double().flatten().tolist()]))
`;

/** Sequences with no keys, with part of a page, and with several pages. */
function caseOf(name: string): ProblemCase {
  const problem = parseProblem(readFileSync(join(home.path, 'problems', name, 'problem.yaml'), 'utf8'), name);
  const extents = { batch_size: 5, kv_len: 128, total_q: 24, total_kv: 90 };
  const given = Object.entries(extents).filter(([axis]) => problem.axes.some((each) => each.name === axis));
  return problemCase(problem, Object.fromEntries(given), 'bf16', new Set(['lse']));
}

/** The inputs and answers of the first seed with which most rows have a key. */
function drawn(of: ProblemCase) {
  for (let seed = 1; ; seed += 1) {
    const inputs = drawInputs(of, { seed: seed.toString(16), rule: NORMAL });
    const answers = reference.answers(inputs, of);
    const rows = answers.get('lse')!.want;
    if (rows.filter(Number.isFinite).length > rows.length / 2) return { inputs, answers };
  }
}

test.skipIf(missing('python3-torch')).each(definitions.map((file) => [basename(file, '.json'), file] as const))(
  '%s matches its reference',
  { timeout: LIMIT_MS },
  (name, file) => {
    expect(home.faTui(['problem', 'import', file, '--to', join(home.path, 'problems')]).exitCode).toBe(0);
    const of = caseOf(name);
    const { inputs, answers } = drawn(of);
    const work = join(home.path, 'inputs', name);
    mkdirSync(work, { recursive: true });
    const definition = JSON.parse(readFileSync(file, 'utf8')) as { reference: string; inputs: object };
    const tensors = of.tensors.filter((tensor) => tensor.direction === 'in');
    for (const tensor of tensors) writeFileSync(join(work, tensor.name), inputs[tensor.name]!);
    const spec = { reference: definition.reference, inputs: Object.keys(definition.inputs), tensors };
    writeFileSync(join(work, 'spec.json'), JSON.stringify({ ...spec, scale: of.values['scale'] }));
    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', PROGRAM, work], {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    });
    const results = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line || '[]') as string[]);
    expect([results.length, stderr]).toEqual([2, expect.any(String)]);
    const [output, lse] = [answers.get('output')!.want, answers.get('lse')!.want];
    const columns = output.length / lse.length;
    let compared = 0;
    for (const [row, total] of lse.entries()) {
      const got = Number(results[1]![row]!.replace('inf', 'Infinity'));
      // Some references compute 0 / 0 for a row without keys.
      if (Number.isNaN(got) || Number.isNaN(Number(results[0]![row * columns]))) {
        expect([name, row, total]).toEqual([name, row, -Infinity]);
        continue;
      }
      compared += 1;
      if (total === -Infinity) expect(got).toBe(-Infinity);
      else expect(Math.abs(got - total)).toBeLessThan(1e-3);
      for (let d = row * columns; d < (row + 1) * columns; d += 1)
        expect(Math.abs(Number(results[0]![d]) - output[d]!)).toBeLessThan(2 ** -8 * Math.abs(output[d]!) + 1e-4);
    }
    expect(compared).toBeGreaterThan(lse.length / 4);
  },
);
