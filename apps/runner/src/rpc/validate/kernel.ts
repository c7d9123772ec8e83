import { isSha256, type GitState, type KernelReference, type Variant } from '@flashcore/shared/contract';
import { sourceTreeViolations } from '../../store/source-tree.ts';
import { checkKernelId, type Violations } from './violations.ts';

const MAX_PARAMETERS = 64;

/** `field` is the reference's place in the request; empty: the request itself. */
export function checkKernelReference(
  kernel: KernelReference | undefined,
  violations: Violations,
  field = 'kernel',
): void {
  const source = kernel?.source;
  const place = field === '' ? '' : `${field}.`;
  switch (source?.case) {
    case 'kernelId':
      checkKernelId(`${place}kernel_id`, source.value, violations);
      return;
    case 'tree':
      violations.addAll(sourceTreeViolations(source.value.files, `${place}tree.files`));
      checkGit(source.value.git, violations, `${place}tree.git`);
      return;
    case 'buildId':
      if (!isSha256(source.value))
        violations.add(`${place}build_id`, 'must be a BuildResult.build_id of 64 lower-case hexadecimal digits');
      return;
    default:
      violations.add(`${place}source`, 'must be set: a kernel_id, a tree or a build_id');
  }
}

/** Git's state is only shown, never used as a path or address. */
function checkGit(git: GitState | undefined, violations: Violations, field: string): void {
  if (!git) return;
  violations.text(`${field}.repository`, git.repository, 256);
  violations.text(`${field}.branch`, git.branch, 256);
  if (!/^[0-9a-f]{40,64}$/.test(git.commit)) violations.add(`${field}.commit`, 'must be 40 hexadecimal digits');
}

/** Checks a variant as far as possible without the manifest, which decides about names and values. */
export function checkVariant(variant: Variant | undefined, violations: Violations, field = 'variant'): void {
  if (!variant) return;
  const names = Object.keys(variant.parameters);
  violations.count(`${field}.parameters`, names, MAX_PARAMETERS);
  for (const name of names.slice(0, MAX_PARAMETERS)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name))
      violations.add(
        `${field}.parameters`,
        `must have C identifiers of at most 64 characters as names, has ${JSON.stringify(name.slice(0, 64))}`,
      );
  }
  violations.text(`${field}.config`, variant.config);
  if (variant.arch !== '' && !/^sm_[0-9]{2,3}[af]?$/.test(variant.arch))
    violations.add(
      `${field}.arch`,
      `must be an architecture such as sm_89, or empty, got ${JSON.stringify(variant.arch.slice(0, 64))}`,
    );
  if (variant.maxRegisters !== 0)
    violations.range(`${field}.max_registers`, variant.maxRegisters, {
      least: 16,
      most: 255,
      unit: "registers, or 0 for the manifest's",
    });
}
