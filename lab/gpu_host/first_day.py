"""Checks a GPU host on which flashcore has never run, and measures the ladder there. Results go into one folder with
one page.

  lab/first-day --out DIR [--kernels ID,…] [--minutes N] [--steps STEP,…] [--again STEP,…]

The steps are: driver, tools and counter names; conformance; primitives; every kernel of the ladder against SDPA with
the plan merge; the fastest kernels with the plan final. Each step has a time limit. Running the same command again
keeps the finished steps and runs the others. Without a GPU it is a dry run on the emulator. Exit status: 0 no step
failed, 1 some did, 2 bad usage, 3 the runner did not start, 130 interrupted by Ctrl-C.
"""

import argparse
import sys

from day import BadOption, Day, StepFailed, limit_text
from day.page import write_page
from day.record import Record, WrongFolder
from day.steps import steps_of
from measurement import Measurement


def names(text):
    return [each for each in text.split(",") if each]


def positive(text):
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def main():
    parser = argparse.ArgumentParser(
        prog="first-day", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--kernels", type=names, default=[], metavar="ID,…", help="only these (default: the ladder)")
    parser.add_argument(
        "--minutes", type=positive, metavar="N", help="stop all steps but the report after so many minutes"
    )
    parser.add_argument("--steps", type=names, default=[], metavar="STEP,…", help="only these (default: all)")
    parser.add_argument(
        "--again", type=names, default=[], metavar="STEP,…", help="run these again even if they are done"
    )
    options = parser.parse_args()
    try:
        failed = measure(options)
    except BadOption as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        parser.exit(130, "\nfirst-day: interrupted; the same command goes on where it stopped\n")
    except StepFailed as error:
        parser.exit(3, f"first-day: {error}\n")
    sys.exit(1 if failed else 0)


def measure(options):
    """Runs the steps. Returns the names of those that failed."""
    try:
        measurement = Measurement(options)
    except OSError as error:
        raise BadOption(f"--out {options.out}: must be a folder that can be written: {error.strerror}") from error
    with Day(measurement, options) as day:
        known = [step.name for step in steps_of(day)]
        for option, given in (("steps", options.steps), ("again", options.again)):
            for name in given:
                if name not in known:
                    raise BadOption(f"--{option} {name}: must be some of {', '.join(known)}")
        try:
            record = Record(day.m.out / "steps.json", day.identity())
        except WrongFolder as error:
            raise BadOption(f"--out {options.out}: {error}") from error
        record.forget(options.again)
        steps = [step for step in steps_of(day) if not options.steps or step.name in options.steps]
        ahead = [step for step in steps if step.always or not record.is_done(step.name)]
        print(opening(day, ahead, len(steps) - len(ahead)), flush=True)
        try:
            for step in ahead:
                record.keep(day.run_step(step))
        finally:
            write_page(day, steps_of(day), record)
        failed = record.failed()
        print(f"\n{day.m.out / 'README.md'} has it all", flush=True)
        if failed:
            print(f"failed: {', '.join(failed)}; the same command tries them again", flush=True)
        return failed


def opening(day, ahead, done):
    """Prints what will be done and how long that can take at most."""
    bound = sum(step.limit_s for step in ahead if not step.closing)
    if day.options.minutes:
        bound = min(bound, day.options.minutes * 60)
    bound += sum(step.limit_s for step in ahead if step.closing)
    return "\n".join(
        [
            f"{day.device_text()}: {len(ahead)} {'step' if len(ahead) == 1 else 'steps'}, at most {limit_text(bound)}"
            + (f"; {done} done before" if done else ""),
            *(f"  {step.name:24} at most {limit_text(step.limit_s):>6}  {step.title}" for step in ahead),
        ]
    )


if __name__ == "__main__":
    main()
