"""Every kernel of the ladder under compute-sanitizer, on a ragged causal shape."""

from plan import KERNELS


def measure(m):
    for kernel in KERNELS:
        _, _, _, errors = m.tui(
            "verify",
            kernel,
            "--json",
            "--sanitize",
            "--seeds",
            "1",
            "--shape",
            "1x2x113x64c",
            name=f"sanitize.{kernel}.json",
            limit=120,
        )
        # Prints the findings of each tool as they come.
        (m.out / f"sanitize.{kernel}.txt").write_text("\n".join(errors) + "\n", encoding="utf8")
