"""Measures flashcore itself on a GPU host: everything under lab/results comes from this program.

  python3 lab/gpu_host --out DIR [--sections conformance,kernels,…] [--kernels ID,…]

Run it in the unpacked bundle, or in the repository after a build. It changes no setting of the card. Each section
stores the unchanged output of the programs it runs, and adds their command lines to commands.txt.
"""

import argparse

from measurement import KERNELS, Measurement
from sections import SECTIONS, ON_REQUEST


def names(text):
    return [each for each in text.split(",") if each]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    by_default = [name for name in SECTIONS if name not in ON_REQUEST]
    parser.add_argument("--out", required=True)
    parser.add_argument("--sections", type=names, default=by_default, help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--kernels", type=names, default=KERNELS)
    parser.add_argument(
        "--cheats", type=names, default=[], help="only these kernels of kernels/cheating or of the corpus"
    )
    parser.add_argument("--edits", type=int, default=3, help="edits of a source, each from the keystroke to the gates")
    parser.add_argument("--tutorial", help="Triton's 06-fused-attention.py, for the section triton_runs")
    options = parser.parse_args()
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"--sections {name}: must be some of {', '.join(SECTIONS)}")
    measurement = Measurement(options)
    for name in options.sections:
        print(f"=== {name}", flush=True)
        try:
            SECTIONS[name](measurement)
        # A failed section must not lose the results of the others. Its name and the reason are printed and stored.
        except Exception as error:  # noqa: BLE001
            reason = f"{type(error).__name__}: {error}"
            print(f"section {name} failed: {reason}", flush=True)
            (measurement.out / f"{name}.failed.txt").write_text(f"{reason}\n", encoding="utf8")
    measurement.close()


if __name__ == "__main__":
    main()
