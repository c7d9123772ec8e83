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

/** FleetService as grpc-js wants it. */
export const fleetServiceDefinition = definitionOf(FleetService);

/** Largest file that goes between a pilot and its gateway, bytes. */
export const MAX_FILE_BYTES = 60 * 1024 * 1024;
