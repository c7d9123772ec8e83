/** Everything in a kernel folder: manifest, variants, launches, cases, gates, shapes; also the devices it runs on. */
export {
  type Cases,
  type Distribution,
  type InputKind,
  type Probes,
  casesOf,
  namedCase,
  parseCases,
  parseHeldOut,
  outputTolerances,
  toleranceOfOutput,
  toleranceProfile,
} from './cases.ts';
export { copiedKernel, notesSaySomething } from './copied-kernel.ts';
export {
  DTYPES,
  DTYPE_BYTES,
  ELEMENTS,
  type DtypeFacts,
  type Fill,
  type NumberFormat,
  TENSOR_DTYPES,
  type ElementDtype,
  type TensorDtype,
  bfloatBits,
  fillOf,
  isSmall,
  isTensorDtype,
  rangeOf,
  recordedDtype,
  smallBits,
  smallValues,
} from '../data/dtype.ts';
export {
  DATA_SHEETS,
  type DataSheet,
  archLimits,
  findDataSheet,
  occupancy,
  registersPerCta,
  arithmeticPeak,
  rooflineSeconds,
  sheetForBuild,
  tensorTflops,
  type Work,
} from './devices.ts';
export { type Estimate, estimateLatency } from './estimate.ts';
export { FEWEST_SAMPLES } from './gates/measure/benchmark.ts';
export { type Expression, evaluate, parseExpression, valueOr } from '../data/expression.ts';
export { CPP, CPP_HELPERS, PYTHON, PYTHON_HELPERS, expressionCode } from './expression-code.ts';
export type { GatesFile, Plan, PlannedGate, Requirements } from './gates/gate.ts';
export { evaluateGate, evaluateGroup, measureMetric } from './gates/evaluate-gates.ts';
export { parseGates } from './gates/gates-file.ts';
export type { GateContext } from './gates/measure/answer.ts';
export { loosenedGates } from './gates/plan-gates.ts';
export { METRICS, isCounter } from './gates/metrics.ts';
export {
  type GateNeeds,
  findPlan,
  gateNeeds,
  planMessage,
  plannedGates,
  shapesNamed,
  undecided,
} from './gates/plan-gates.ts';
export { kernelMessage } from './manifest.ts';
export {
  type LaunchPlan,
  type PlainArgument,
  type PlannedArgument,
  type PlannedLaunch,
  checkShape,
  planIfTaken,
  planLaunches,
  requireShape,
} from './launch-plan.ts';
export {
  type CaseValues,
  type ProblemCase,
  type TensorExtent,
  bytesOfTensor,
  elementsOfTensor,
  isPlainAttention,
  problemCase,
  symmetriesOfCase,
  tensorBytes,
} from '../problems/case-values.ts';
export {
  MAX_EXTENT,
  RANDOM,
  type AxisDraw,
  type Problem,
  type ProblemAxis,
  type ProblemSymmetry,
  type TensorRole,
  parseProblem,
  dtypeOfTensor,
} from '../problems/problem.ts';
export type { MutantChange, ProblemMutant, TensorAct } from '../problems/mutants.ts';
export type { DrawRule, OwnedRows } from '../problems/tensor-rules.ts';
export type { Operand } from '../problems/operands.ts';
export { ENTRY, PROBLEM_ID, type OperandAxis, type OperandName, type TableName } from '../problems/problem-schema.ts';
export {
  DEFAULT_PROBLEM,
  recordedProblem,
  PROBLEM_FILE,
  PROBLEMS_REMEDY,
  PROBLEMS_VARIABLE,
  BROUGHT_PATHS,
  addProblemFolders,
  addProjectProblems,
  problemFolders,
  broughtFiles,
  broughtFilesIn,
  casesSource,
  installedFile,
  installedProblem,
  installedProblems,
  isCurrentProblem,
  ownDefinition,
  referenceSource,
  PROBLEM_PROGRAMS,
  type ProblemProgram,
  type ReferenceSource,
  requireProblems,
} from '../problems/installed-problems.ts';
export {
  accumulateOf,
  dtypeParameters,
  inputsOf,
  layoutParameters,
  tensorParameters,
  layoutsOf,
  manifestOfVariant,
} from './manifest-value.ts';
export { MANIFEST_FILE, loadManifest, parseManifest, readManifestText } from './manifest.ts';
export {
  type Manifest,
  type ManifestArgument,
  type ManifestLaunch,
  type TensorName,
  argumentBytes,
} from './manifest-model.ts';
export { isCubinSource, isPtxSource, isSpelledEntry, isTritonSource, KERNEL_ID } from './manifest-schema.ts';
export {
  type ShapeFields,
  attention,
  attentionCase,
  caseBytes,
  caseFlops,
  caseViolations,
  formatCase,
  formatShape,
  isCaseName,
  isOnlyNamed,
  parseCase,
  parseShape,
  sameShape,
  shapeFields,
  scopeOfShape,
  shapeOf,
  valuesOf,
  shapeViolations,
  tensorElements,
} from './shape.ts';
export {
  MAX_TREE_BYTES,
  MAX_TREE_FILES,
  NOTES_FILE,
  isSourcePath,
  mayBeSource,
  originalsIn,
  originalsOfCubin,
  readSourceFile,
  readNotes,
  readSourceTree,
  codeDigest,
  treeDigest,
} from './source-tree.ts';
export { sha256Of } from '../contract/digest.ts';
export { draftOfTriton, type TritonFunction } from './triton-draft.ts';
export { TRITON_SCRATCH_ARGUMENTS } from './manifest.ts';
export { manifestOfCompiled, scratchBytesIn, sharedBytesIn, targetIn, tritonRequest, tritonTypes } from './triton.ts';
export { type ResolvedVariant, archMismatch, nearestOf, resolveVariant } from './variant.ts';
export { launchWaves } from './devices.ts';
export * as yamlFile from '../data/yaml-file.ts';
export { draftOfProblem } from './problem-draft.ts';
export { TO_FILL_IN, draftFiles, originalsOfPtx } from './ptx-draft.ts';
