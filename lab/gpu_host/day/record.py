"""The result of each step. The file is saved after each step, so that a run can be resumed."""

import json
import os

DONE = "done"
FAILED = "failed"
NOT_MEASURED = "not measured"


class WrongFolder(Exception):
    """The folder has the results of another device, driver or build."""


class Record:
    """steps.json: the device, driver and build, and each step's state, reason, seconds and findings."""

    def __init__(self, path, identity):
        self.path = path
        self.identity = identity
        self.steps = {}
        if not path.exists():
            return
        try:
            kept = json.loads(path.read_text(encoding="utf8"))
            before, self.steps = kept["identity"], {step["name"]: step for step in kept["steps"]}
        except (ValueError, KeyError, TypeError) as error:
            raise WrongFolder(f"steps.json there can't be read ({error}): give a new folder") from error
        for name, value in identity.items():
            if before.get(name) != value:
                raise WrongFolder(
                    f"has results of {name} {before.get(name)}, and here it is {value}: give a new folder"
                )

    def is_done(self, name):
        return self.steps.get(name, {}).get("state") == DONE

    def failed(self):
        return [name for name, step in self.steps.items() if step["state"] == FAILED]

    def forget(self, names):
        for name in names:
            self.steps.pop(name, None)

    def keep(self, step):
        """Writes a temporary file and renames it, so that an interruption leaves the previous state."""
        self.steps[step["name"]] = step
        text = json.dumps({"identity": self.identity, "steps": list(self.steps.values())}, indent=1) + "\n"
        beside = self.path.with_suffix(".new")
        beside.write_text(text, encoding="utf8")
        os.replace(beside, self.path)
