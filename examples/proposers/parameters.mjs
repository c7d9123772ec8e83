// A proposer without a model. It changes one build-time parameter or one marked constant of the base and, when all of
// these have been tried, two together. It is deterministic: the same request gets the same proposal. It proposes
// nothing that was already tried on this base or gave the same code.
//
//   fa-tui evolve fa_s512_v3_wmma --proposer "node examples/proposers/parameters.mjs" --trials 20
//
// A constant is marked in the source, with the values that it may have:
//   constexpr int UNROLL = 4;  // evolve: 2, 4, 8
import { readFileSync } from 'node:fs';

const request = JSON.parse(readFileSync(0, 'utf8'));
if (request.protocol !== 'flashcore-proposer 1') {
  console.error(`this proposer speaks flashcore-proposer 1, not ${request.protocol}`);
  process.exit(1);
}
const { base, task, seed, insights } = request;

/** mulberry32: each call returns a number in [0, 1). */
function generator(state) {
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

const current = Object.fromEntries(
  task.parameters.map(({ name, default: value }) => [name, base.parameters[name] ?? value]),
);
const parameterMoves = task.parameters.flatMap(({ name, values, about }) =>
  values
    .filter((value) => value !== current[name])
    .map((value) => ({
      target: name,
      name: `${name} ${current[name]} -> ${value}`,
      thought: `${name} (${about}): ${value} in place of ${current[name]}`,
      change: ({ parameters, files }) => ({ parameters: { ...parameters, [name]: value }, files }),
    })),
);

const MARKED = /^(.*\bconstexpr\s+int\s+(\w+)\s*=\s*)(-?\d+)(\s*;\s*\/\/ evolve:\s*)(-?\d+(?:\s*,\s*-?\d+)*)/gm;
const constantMoves = Object.entries(base.files).flatMap(([path, text]) =>
  [...text.matchAll(MARKED)].flatMap(([line, before, name, value, mark, values]) =>
    values
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== value)
      .map((each) => ({
        target: `${path} ${name}`,
        name: `${name} ${value} -> ${each}`,
        thought: `the constant ${name} of ${path}: ${each} in place of ${value}`,
        change: ({ parameters, files }) => ({
          parameters,
          files: { ...files, [path]: (files[path] ?? text).replace(line, `${before}${each}${mark}${values}`) },
        }),
      })),
  ),
);

const whole = (parameters) =>
  JSON.stringify(task.parameters.map(({ name, default: value }) => [name, parameters[name] ?? value]));
const triedSets = new Set(insights.tried.map(({ parameters }) => whole(parameters)));
const triedHere = new Set(insights.tried.filter(({ parents }) => parents[0] === base.trial).map(({ name }) => name));

/** The proposal that makes these changes together, and whether the proposal is new. */
function proposal(moves) {
  const { parameters, files } = moves.reduce((made, { change }) => change(made), {
    parameters: { ...current },
    files: {},
  });
  const name = moves.map((move) => move.name).join(', ');
  const isNew = Object.keys(files).length > 0 ? !triedHere.has(name) : !triedSets.has(whole(parameters));
  return { isNew, name, thought: moves.map((move) => move.thought).join('; '), parameters, files };
}

// A single change shows its own effect, so pairs come only after all single changes.
const singles = [...parameterMoves, ...constantMoves];
const doubles = singles.flatMap((one, index) =>
  singles.slice(index + 1).flatMap((other) => (one.target === other.target ? [] : [[one, other]])),
);
const newOnes = (all) => all.map(proposal).filter(({ isNew }) => isNew);
const fresh = newOnes(singles.map((move) => [move]));
const left = fresh.length > 0 ? fresh : newOnes(doubles);
if (left.length === 0) {
  console.error('every change of one or two parameters or constants of this base was tried');
  process.exit(1);
}
const { name, thought, parameters, files } = left[Math.floor(generator(seed)() * left.length)];
console.log(JSON.stringify({ name, thought, parameters, ...(Object.keys(files).length > 0 && { files }) }));
