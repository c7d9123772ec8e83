/** The contract between a gateway and its pilots. */
import { definitionOf } from '../client/grpc.ts';
import { FleetService } from '../generated/flashcore/fleet/v1/fleet_pb.js';

export {
  type Assignment,
  AssignmentSchema,
  type AttachRequest,
  AttachRequestSchema,
  type AttachResponse,
  AttachResponseSchema,
  type Compilation,
  CompilationSchema,
  type ReadBuildRequest,
  ReadBuildRequestSchema,
  type ReadBuildResponse,
  ReadBuildResponseSchema,
  type ReadSourceRequest,
  type ReadSourceResponse,
  ReadSourceResponseSchema,
  ReadSourceRequestSchema,
  type Register,
  type Registered,
  RegisterSchema,
  type StoreArtifactRequest,
  StoreArtifactRequestSchema,
  type StoreArtifactResponse,
  StoreArtifactResponseSchema,
} from '../generated/flashcore/fleet/v1/fleet_pb.js';

export { FleetService };

/** FleetService in grpc-js' form. */
export const fleetServiceDefinition = definitionOf(FleetService);

/** Maximum size of a file between a pilot and its gateway, in bytes. */
export const MAX_FILE_BYTES = 60 * 1024 * 1024;
