import { expect, test } from 'vitest';
import { compareLines, isWithin, linesTable, type NcuFiles } from './triton-lines.ts';

/** Text in the formats of ncu 2025.3 and nvdisasm 13.0. Line 170 of Triton's library is inlined in lines 5 and 6. */
const FILES: NcuFiles = {
  file: 'kernel.py',
  csv: `"Kernel Name","softmax"
"Address","Source","Instructions Executed","L1 Wavefronts Shared Excessive","L1 Wavefronts Shared","L1 Wavefronts Shared Ideal","L2 Theoretical Sectors Global"
"0x7fc48541d900","      LDC R1, c[0x0][0x28] ","64","0","0","0","0"
"0x7fc48541d910","@!P3  LDG.E.64 R12, desc[UR6][R18.64] ","64","0","0","0","1,024"
"0x7fc48541d920","      LDGSTS.E.BYPASS.128 [R5], desc[UR6][R2.64] ","64","96","128","32","512"
"0x7fc48541d930","      STS [R2], R3 ","64","448","512","64","0"
"0x7fc48541d940","      LDS R3, [R2] ","64","0","64","64","0"
"0x7fc48541d950","      STS [R4], R3 ","64","-","64","64","-"
`,
  sass: `.text.softmax:
\t//## File "/src/kernel.py", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/src/kernel.py", line 4
        /*0010*/              @!P3 LDG.E.64 R12, desc[UR6][R18.64] ;
        /*0020*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR6][R2.64] ;
.L_x_2:
\t//## File "/lib/standard.py", line 170
        /*0030*/                   STS [R2], R3 ;
\t//## File "/src/kernel.py", line 5
        /*0040*/                   LDS R3, [R2] ;
\t//## File "/src/kernel.py", line 9
        /*0050*/                   STS [R4], R3 ;
`,
  ptx: `
\t.loc\t1 4 28                          // kernel.py:4:28
\t.loc\t2 170 27                        // standard.py:170:27 @[ standard.py:191:40 @[ kernel.py:5:35 ] ]
\t.loc\t2 170 27                        // standard.py:170:27 @[ kernel.py:6:35 ]
`,
};
const EMULATED = {
  'kernel.py:3': { instructions: 64 },
  'kernel.py:4': { global_load_sectors: 1024, async_copy_sectors: 512 },
  'kernel.py:5': { shared_store_wavefronts: 500, shared_store_conflicts: 440 },
  'kernel.py:6': { shared_load_wavefronts: 64 },
  'kernel.py:9': { shared_store_wavefronts: 64 },
};

test('sums instructions by line, and lines that share inlined code form one row', () => {
  const rows = compareLines(FILES, EMULATED);
  expect(rows).toEqual([
    {
      lines: '4',
      ncu: { wavefronts: 0, conflicts: 0, sectors: 1536 },
      modelled: { wavefronts: 0, conflicts: 0, sectors: 1536 },
    },
    {
      lines: '5, 6',
      ncu: { wavefronts: 576, conflicts: 448, sectors: 0 },
      modelled: { wavefronts: 564, conflicts: 440, sectors: 0 },
    },
    {
      lines: '9',
      ncu: { wavefronts: 64, conflicts: 0, sectors: 0 },
      modelled: { wavefronts: 64, conflicts: 0, sectors: 0 },
    },
  ]);
  expect(rows.map(isWithin)).toEqual([true, false, true]);
  expect(linesTable({ softmax: rows })).toContain('| softmax | 5, 6 | 448 | 440 | 576 | 564 | 0 | 0 | 2.1 % |');
});

test('a figure that only the emulator has counts as a difference', () => {
  const [, , row] = compareLines(FILES, { ...EMULATED, 'kernel.py:9': { shared_load_conflicts: 1 } });
  expect([isWithin(row!), linesTable({ softmax: [row!] })]).toEqual([false, expect.stringContaining('ncu has none')]);
});

test.each<[string, Partial<NcuFiles>, string]>([
  ['a CSV without the columns', { csv: '==ERROR== no metrics' }, 'Wanted columns Address'],
  ['a cubin of other code', { sass: '' }, 'Wanted each instruction of the CSV in the cubin'],
])('%s is refused', (_, files, words) => {
  expect(() => compareLines({ ...FILES, ...files }, EMULATED)).toThrow(words);
});
