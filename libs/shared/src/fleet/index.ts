/** The contract between a gateway and its pilots. */
import { definitionOf } from '../client/grpc.ts';
import { FleetService } from '../generated/flashcore/fleet/v1/fleet_pb.js';

export * from '../generated/flashcore/fleet/v1/fleet_pb.js';

/** FleetService in grpc-js' form. */
export const fleetServiceDefinition = definitionOf(FleetService);

/** Maximum size of a file between a pilot and its gateway, in bytes. */
export const MAX_FILE_BYTES = 60 * 1024 * 1024;
