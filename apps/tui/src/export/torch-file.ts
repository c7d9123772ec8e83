import { DTYPES } from '@flashcore/shared/kernels';
/**
 * `fa-tui export --torch`: one Python file that makes a PyTorch operator of a kernel. The file contains the machine
 * code and launches it as the manifest says, with ctypes through the CUDA driver.
 */
import { deflateSync } from 'node:zlib';
import { entryOf } from '@flashcore/shared/text';
import {
  exportName,
  unverifiedNotice,
  verdictText,
  type ExportedCubin,
  type ExportedKernel,
} from './exported-kernel.ts';
import { planFunction, pythonPlan } from './python-plan.ts';
import { BINDING } from './torch-binding.ts';
import { LAUNCHER } from './torch-launcher.ts';
import { ATTENTION_NAMES, kernelTables, operatorAbout, operatorCode, operatorOf, runCode } from './torch-operator.ts';
import { SIGNATURES, type PairedKernel } from './torch-signatures.ts';

/** Returns the file's text. */
export function torchFile(kernel: ExportedKernel): string {
  const { manifest, parameters, dtype, arch, backward } = kernel;
  const signatures = entryOf(SIGNATURES, manifest.problem.id);
  const operator = operatorOf(manifest, dtype, signatures && ATTENTION_NAMES);
  const pair: PairedKernel | undefined = backward && {
    id: backward.manifest.id,
    operator: operatorOf(backward.manifest, dtype, ATTENTION_NAMES),
  };
  const name = `flashcore::${exportName(kernel)}${backward ? `_${exportName(backward)}` : ''}`;
  const names = DTYPES[dtype];
  const notices = [kernel, backward].flatMap((each) => (each && unverifiedNotice(each)) ?? []);
  return `"""${docText(`${manifest.id}: ${manifest.title}`)}
${notices.map((notice) => `\n${docText(notice)}.\n`).join('')}
A PyTorch operator in one file: the machine code for ${arch} is in it, so that it needs PyTorch and a CUDA driver and no
compiler. Written by fa-tui export; PROVENANCE says from which build.

${(signatures?.about(operator, pair) ?? operatorAbout(operator)).replaceAll('KERNEL_ID', manifest.id)}

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

if not hasattr(torch.library, "custom_op"):
    raise ImportError("Install PyTorch 2.4 or later: this is " + torch.__version__)

KERNEL = ${JSON.stringify(manifest.id)}
ARCH = ${JSON.stringify(arch)}
PARAMETERS = ${JSON.stringify(parameters)}
DTYPE = torch.${names.torch}
PROVENANCE = json.loads(${JSON.stringify(JSON.stringify({ ...aboutBuild(kernel), ...(backward && { backward: aboutBuild(backward) }) }))})
for _notice in ${JSON.stringify(notices)}:
    warnings.warn(_notice, stacklevel=2)
_ELEMENT_BYTES = ${names.bytes}
_TENSOR_MAP_TYPE = ${names.tensorMapNumber}


${pythonPlan(manifest, parameters)}

${backward ? `${planFunction(backward.manifest, backward.parameters, '_backward_plan')}\n\n` : ''}${LAUNCHER}

${BINDING}

${kernelTables(kernel, operator, { prefix: '', derivedAxes: signatures?.derivedAxes })}

${runCode(operator)}

${backward && pair ? `${kernelTables(backward, pair.operator, { prefix: '_backward', derivedAxes: undefined })}\n\n${runCode(pair.operator, '_backward')}\n\n` : ''}${signatures?.code(operator, name, pair) ?? operatorCode(operator, name)}

# Machine code, by zlib and then base85, with the entries that each has; None: all.
${cubinsText('_CUBINS', kernel)}${backward ? cubinsText('_BACKWARD_CUBINS', backward) : ''}`;
}

/** Describes the build of a kernel, for PROVENANCE. */
function aboutBuild(kernel: ExportedKernel): object {
  const { manifest, origin, flags } = kernel;
  const notice = unverifiedNotice(kernel);
  return {
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
}

const cubinsText = (name: string, { cubins }: ExportedKernel): string =>
  `${name} = (\n${cubins.map(cubinText).join('\n')}\n)\n`;

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
