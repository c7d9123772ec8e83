import { create } from '@bufbuild/protobuf';
import {
  FindMissingSourcesResponseSchema,
  type FindMissingSourcesRequest,
  type FindMissingSourcesResponse,
} from '@flashcore/shared/contract';
import { MAX_TREE_FILES } from '@flashcore/shared/kernels';
import { sourceFileViolations } from '../store/source-tree.ts';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { Violations } from './validate/violations.ts';

/** Returns the source files that the runner does not have yet. */
export const findMissingSources =
  ({ sources }: Services): UnaryHandler<FindMissingSourcesRequest, FindMissingSourcesResponse> =>
  ({ files }) => {
    const violations = new Violations();
    violations.count('files', files, MAX_TREE_FILES);
    files
      .slice(0, MAX_TREE_FILES)
      .forEach((file, index) => violations.addAll(sourceFileViolations(file, `files[${index}]`)));
    violations.throwIfAny();
    return create(FindMissingSourcesResponseSchema, { missingSha256: sources.findMissing(files) });
  };
