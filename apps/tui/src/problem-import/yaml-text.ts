/** Makes the texts of problem.yaml and cases.yaml. */
import { plainLine, wrapped } from '@flashcore/shared/text';
import { Document, isCollection, isMap, isPair, visit } from 'yaml';

export type Plain = Record<string, unknown>;

/** Maximum line length, the same as in the installed problems. */
const WIDTH = 120;

/** YAML in which an entry takes one line if it fits. */
export function yamlText(content: Plain, comments: readonly string[]): string {
  const document = new Document(content, { aliasDuplicateObjects: false });
  visit(document, {
    Collection(_, node, path) {
      const values = node.items.map((item) => (isPair(item) ? item.value : item));
      node.flow = path.filter(isCollection).length >= 2 && !values.every(isMap);
    },
  });
  const text = document.toString({ lineWidth: WIDTH });
  return `${comments
    // A line break in a foreign name would end the comment, and the rest of the name would be a key.
    .flatMap((comment) => wrapped(plainLine(comment.replaceAll(/\s+/g, ' ')), WIDTH - 2))
    .map((line) => `# ${line}\n`)
    .join('')}${text}`;
}
