/**
 * `fa-tui export --torch`: one Python file that makes a PyTorch operator of a kernel. The file contains the machine
 * code and launches it as the manifest says, with ctypes through the CUDA driver.
 */
import { deflateSync } from 'node:zlib';
import { type Fill, fillOf } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { dtypeNames } from './dtype-names.ts';
import {
  exportName,
  unverifiedNotice,
  verdictText,
  type ExportedCubin,
  type ExportedKernel,
} from './exported-kernel.ts';
import { pythonPlan } from './python-plan.ts';
import { BINDING } from './torch-binding.ts';
import { LAUNCHER } from './torch-launcher.ts';
import { operatorCode, operatorOf, operatorTables } from './torch-operator.ts';
import { SIGNATURES } from './torch-signatures.ts';

/** Returns the file's text. */
export function torchFile(kernel: ExportedKernel): string {
  const { manifest, parameters, dtype, arch, cubins, origin, flags } = kernel;
  const signatures = entryOf(SIGNATURES, manifest.problem.id);
  if (!signatures) throw new TypeError(`there are signatures for ${Object.keys(SIGNATURES).join(', ')}`);
  const operator = operatorOf(manifest);
  const name = `flashcore::${exportName(kernel)}`;
  const names = dtypeNames(dtype);
  const notice = unverifiedNotice(kernel);
  const fromDevice = Object.entries(manifest.parameters).filter(([, { ofDevice }]) => ofDevice !== undefined);
  const about = {
    kernel: manifest.id,
    title: manifest.title,
    variant: origin.label,
    flags: flags.join(' '),
    compiler: origin.compiler,
    build: origin.buildId,
    job: origin.job,
    source_digest: origin.sourceDigest,
    runner: origin.runner,
    verdict: verdictText(kernel),
    ...(notice !== undefined && { unverified: notice }),
  };
  return `"""${docText(`${manifest.id}: ${manifest.title}`)}
${notice === undefined ? '' : `\n${docText(notice)}.\n`}
A PyTorch operator in one file: the machine code for ${arch} is in it, so that it needs PyTorch and a CUDA driver and no
compiler. Written by fa-tui export; PROVENANCE says from which build.

${signatures.about.replaceAll('KERNEL_ID', manifest.id)}

Tensors are ${dtype} and contiguous, on one device, and begin at a multiple of 16 bytes. It runs on the current stream,
under torch.compile, and in a CUDA graph: call it once before the capture, which loads the module. Launches are prepared
once for each shape and set of addresses.
"""

import base64
import collections
import ctypes
import functools
import json
import math
import os
import subprocess
import sysconfig
import tempfile
import threading
import warnings
import zlib
from typing import Optional, Tuple

import torch

KERNEL = ${JSON.stringify(manifest.id)}
ARCH = ${JSON.stringify(arch)}
PARAMETERS = ${JSON.stringify(parameters)}
DTYPE = torch.${names.torch}
# What the kernel can be built for: least architecture, or the only one.
MIN_ARCH = ${JSON.stringify(manifest.minArch)}
EXACT_ARCH = ${manifest.exactArch ? 'True' : 'False'}
# Parameters that the build took from a device: multiprocessors.
OF_DEVICE = ${JSON.stringify(Object.fromEntries(fromDevice.map(([name, { values }]) => [name, values])))}
PROVENANCE = json.loads(${JSON.stringify(JSON.stringify(about))})
if "unverified" in PROVENANCE:
    warnings.warn(PROVENANCE["unverified"], stacklevel=2)
_ELEMENT_BYTES = ${names.bytes}
_TENSOR_MAP_TYPE = ${names.tensorMapNumber}


${pythonPlan(manifest, parameters)}

${operatorTables(operator)}
# Values that memory must have before each call, by name: bytes of an element, and its bits.
_WORKSPACE_FILLS = {${fillsText(manifest.workspace.map(({ name, initial }) => [name, initial]))}}
_OUTPUT_FILLS = {${fillsText(outputFills(kernel))}}


def _axes(extents, tensors):
    return ${signatures.axes ?? 'extents'}


${LAUNCHER}

${BINDING}

${operatorCode(operator, name)}

${signatures.code(operator, name)}

# Machine code, by zlib and then base85, with the entries that each has; None: all.
_CUBINS = (
${cubins.map(cubinText).join('\n')}
)
`;
}

const outputFills = ({ manifest: { problem, initialOutput }, dtype }: ExportedKernel): [string, Fill | undefined][] =>
  initialOutput === undefined
    ? []
    : problem.tensors
        .filter(({ direction, optional }) => direction === 'out' && !optional)
        .map(({ name, ownDtype }) => [name, fillOf(initialOutput, ownDtype ?? dtype)]);

const fillsText = (fills: readonly [name: string, Fill | undefined][]): string =>
  fills.flatMap(([name, fill]) => (fill ? [`${JSON.stringify(name)}: (${fill.bytes}, ${fill.bits})`] : [])).join(', ');

const cubinText = ({ entries, bytes }: ExportedCubin): string =>
  `    (\n${entries.length > 0 ? listText(entries) : '        None,'}\n        (\n${inLines(base85(deflateSync(bytes, { level: 9 })))}\n        ),\n    ),`;

const listText = (entries: readonly string[]): string => `        ${JSON.stringify(entries)},`;

/** Encoding for Python's base64.b85decode: RFC 1924's alphabet, four bytes in five digits. */
export function base85(bytes: Uint8Array): string {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~';
  const padding = (4 - (bytes.length % 4)) % 4;
  const padded = Buffer.concat([bytes, Buffer.alloc(padding)]);
  let text = '';
  for (let at = 0; at < padded.length; at += 4) {
    let word = padded.readUInt32BE(at);
    let digits = '';
    for (let digit = 0; digit < 5; ++digit) {
      digits = alphabet[word % 85]! + digits;
      word = Math.floor(word / 85);
    }
    text += digits;
  }
  return padding === 0 ? text : text.slice(0, -padding);
}

const LINE_CHARACTERS = 104;
const inLines = (text: string): string =>
  (text.match(new RegExp(`.{1,${LINE_CHARACTERS}}`, 'g')) ?? []).map((line) => `            "${line}"`).join('\n');

/** Text for the inside of a docstring. */
const docText = (text: string): string => text.replaceAll('\\', '/').replaceAll('"""', "'''");
