"""All sections: functions that measure something, named as their sections, in the order in which they run."""

from sections import (
    comparisons,
    device,
    exports,
    isolation,
    judging,
    ladder,
    languages,
    limits,
    nvidia_tools,
    problems,
    sdpa,
    several,
)

SECTIONS = {
    section.__name__: section
    for section in (
        device.host,
        device.conformance,
        device.primitives,
        ladder.kernels,
        sdpa.shapes,
        sdpa.parity,
        nvidia_tools.overlap,
        device.launch_options,
        nvidia_tools.sanitized,
        comparisons.aa,
        comparisons.alarms,
        comparisons.ab,
        comparisons.clock,
        comparisons.busy,
        comparisons.decide,
        ladder.accepted,
        problems.oracle,
        problems.problems,
        languages.languages,
        languages.triton,
        languages.triton_runs,
        sdpa.sdpa,
        ladder.edit,
        ladder.seconds,
        exports.exports,
        exports.exports_inline,
        exports.signatures,
        exports.processes,
        judging.faulty,
        judging.cheating,
        judging.corpus,
        isolation.box,
        isolation.owners,
        limits.limits,
        exports.torch_extension,
        several.several,
    )
}
# These sections run only on request.
ON_REQUEST = ["alarms", "several"]
