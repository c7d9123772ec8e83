/** Prints the names of the counters that a profile asks ncu for, as JSON:  node counter-names.js sm_89 */
import { countersOf } from '@flashcore/runner/testing';

const [arch] = process.argv.slice(2);
if (!arch) throw new Error('Give an architecture, for example sm_89');
console.log(JSON.stringify(countersOf('gates', arch)));
