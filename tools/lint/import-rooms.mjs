/**
 * ESLint rule for the rooms of an app: a folder may import only from the folders that a table lists for it. Imports
 * must not form a cycle of files, not even imports of types. The table must not have a cycle either, so that folders
 * cannot form one.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/** The repository's folder. `nx lint` runs ESLint in the project's folder. */
const REPOSITORY = join(import.meta.dirname, '../..');

const IMPORT = /(?:^|\n)(?:import|export)\s(?:[^;'"]*?\sfrom\s+)?['"](\.[^'"]+)['"]/g;

/** The cycles of a graph, as lists of nodes (Tarjan 1972). */
export function circlesOf(edges) {
  const [index, low, stack, circles] = [new Map(), new Map(), [], []];
  const visit = (node) => {
    index.set(node, index.size);
    low.set(node, index.get(node));
    stack.push(node);
    for (const next of edges.get(node) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node), low.get(next)));
    }
    if (low.get(node) !== index.get(node)) return;
    const circle = stack.splice(stack.indexOf(node));
    if (circle.length > 1 || edges.get(node)?.includes(node)) circles.push(circle);
  };
  for (const node of edges.keys()) if (!index.has(node)) visit(node);
  return circles;
}

/** Every file of a folder, with the files that it imports. */
function importGraph(root) {
  const files = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !/generated/.test(entry.parentPath))
    .map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    files.map((file) => {
      const text = readFileSync(file, 'utf8');
      return [file, [...text.matchAll(IMPORT)].map(([, path]) => join(dirname(file), path))];
    }),
  );
}

const graphs = new Map();
/** Computed once per run of ESLint. */
function circleOfFile(root, file) {
  if (!graphs.has(root)) graphs.set(root, circlesOf(importGraph(root)));
  return graphs.get(root).find((circle) => circle.includes(file));
}

/** Throws if the table names an unknown room, or has a cycle. */
export function checkTable(rooms) {
  for (const [room, allowed] of Object.entries(rooms)) {
    const unknown = allowed.find((name) => name !== '*' && !name.startsWith('../') && !(name in rooms));
    if (unknown !== undefined) throw new Error(`import-rooms: ${room} may import from ${unknown}, which is not a room`);
  }
  const edges = new Map(
    Object.entries(rooms).map(([room, allowed]) => [room, allowed.filter((name) => name in rooms)]),
  );
  const [circle] = circlesOf(edges);
  if (circle) throw new Error(`import-rooms: the rooms ${circle.join(', ')} import each other`);
}

export const importRooms = {
  meta: {
    type: 'problem',
    schema: [{ type: 'object' }],
    messages: {
      room: '{{from}} may import from {{allowed}}, and not from {{to}} (eslint.config.mjs has the table)',
      circle: 'this import closes a cycle: {{files}}',
    },
  },
  create(context) {
    const { root, rooms } = context.options[0];
    checkTable(rooms);
    const base = join(REPOSITORY, root);
    const roomOf = (path) => {
      const inside = relative(base, path).split(sep).join('/');
      const listed = Object.keys(rooms).find((room) => inside === room || inside.startsWith(`${room}/`));
      if (listed !== undefined) return listed;
      if (inside.startsWith('../')) return inside;
      return inside.includes('/') ? inside.split('/')[0] : '.';
    };
    const from = roomOf(context.filename);
    const isTest = /\.test\.tsx?$|\/testing\//.test(context.filename);
    // A test may import from every room.
    const allowed = isTest ? ['*'] : (rooms[from] ?? []);
    const check = (node) => {
      if (!node.source?.value.startsWith('.')) return;
      const target = join(dirname(context.filename), node.source.value);
      const to = roomOf(target);
      const anyRoom = allowed.includes('*') && (isTest || !to.startsWith('../'));
      if (to !== from && !allowed.includes(to) && !anyRoom)
        context.report({ node, messageId: 'room', data: { from, to, allowed: allowed.join(', ') || 'itself alone' } });
      const circle = circleOfFile(base, context.filename);
      if (circle?.includes(target))
        context.report({
          node,
          messageId: 'circle',
          data: { files: circle.map((file) => relative(base, file)).join(', ') },
        });
    };
    return { ImportDeclaration: check, ExportNamedDeclaration: check, ExportAllDeclaration: check };
  },
};
