"""Reads a Python file with Triton kernels, for `fa-tui new --from-triton`, without running it.

  read_triton.py FILE [FUNCTION]

Prints a JSON object: `python`, the functions under @triton.jit that FUNCTION needs, as they are written, with the
imports of Triton and the constants that they use, and without decorators that choose options and without launchers;
`parameters`, FUNCTION's parameters; `options`, the integers that its autotune decorator tries, by name. Errors go to
standard error, with exit status 1.
"""

import ast
import json
import pathlib
import sys

MAX_BYTES = 4 * 2**20
OPTIONS = {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES", "num_ctas": "NUM_CTAS"}


def fail(words):
    sys.exit(f"error: {words}")


def is_jit(decorator):
    """@triton.jit, @jit, and both with arguments."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "jit"


def names_in(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def free_names(node):
    """Names that a function takes from the module, without those of its decorators; all names of a statement."""
    if not isinstance(node, ast.FunctionDef):
        return names_in(node)
    parts = [node.args, *node.body]
    own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    for part in parts:
        own |= {each.id for each in ast.walk(part) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return set().union(*map(names_in, parts)) - own


def targets_of(statement):
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return set().union(*(names_in(target) for target in targets))


class Kernels:
    def __init__(self, text, name):
        self.lines = text.splitlines()
        try:
            module = ast.parse(text)
        except SyntaxError as error:
            fail(f"{name}:{error.lineno or 1}: must be Python: {error.msg}")
        except RecursionError:
            fail(f"{name}: must be Python that is nested less deeply")
        self.imports = [each for each in module.body if isinstance(each, (ast.Import, ast.ImportFrom))]
        self.jitted = {
            each.name: each
            for each in module.body
            if isinstance(each, ast.FunctionDef) and any(map(is_jit, each.decorator_list))
        }
        # Includes assignments in branches. The host decides which branch runs, so all of their values are tried.
        self.assigned = {}
        for each in ast.walk(module):
            if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
                for target in targets_of(each):
                    self.assigned.setdefault(target, []).append(each)
        self.top = {id(each) for each in module.body}

    def entry(self, wanted, name):
        if wanted:
            if wanted not in self.jitted:
                fail(f"{name}: must have {wanted} under @triton.jit; it has {', '.join(self.jitted) or 'none'}")
            return self.jitted[wanted]
        called = set().union(*(free_names(each) - {each.name} for each in self.jitted.values()), set())
        entries = [each for each in self.jitted if each not in called]
        if len(entries) != 1:
            fail(f"{name}: --entry: give one of its kernels: {', '.join(entries or self.jitted) or 'it has none'}")
        return self.jitted[entries[0]]

    def needed(self, entry):
        """The functions that the entry calls and the constants that those use, in the order of the file."""
        found, waiting = {}, [entry]
        while waiting:
            node = waiting.pop()
            if id(node) in found:
                continue
            found[id(node)] = node
            for name in free_names(node):
                if name in self.jitted:
                    waiting.append(self.jitted[name])
                waiting += [each for each in self.assigned.get(name, []) if id(each) in self.top]
        return sorted(found.values(), key=lambda each: each.lineno)

    def text_of(self, node):
        if not isinstance(node, ast.FunctionDef):
            return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
        jit = next(each for each in node.decorator_list if is_jit(each))
        decorator = self.lines[jit.lineno - 1 : jit.end_lineno]
        return "\n".join([*decorator, *self.lines[node.lineno - 1 : node.end_lineno]])

    def python(self, entry):
        nodes = self.needed(entry)
        jits = [decorator for node in self.jitted.values() for decorator in node.decorator_list if is_jit(decorator)]
        used = set().union(*map(free_names, nodes), *map(names_in, jits))
        kept = [
            each
            for each in self.imports
            if any((alias.asname or alias.name).split(".")[0] in used for alias in each.names)
        ]
        return "\n\n\n".join(["\n".join(map(self.text_of, kept)), *map(self.text_of, nodes)]) + "\n"

    def options(self, entry):
        """Values of each name in calls of Config in the decorators, and in what those decorators name."""
        found = {}
        for decorator in entry.decorator_list:
            waiting, seen = [decorator], set()
            while waiting:
                node = waiting.pop()
                if id(node) in seen:
                    continue
                seen.add(id(node))
                self.read_configs(node, found)
                waiting += [each for name in names_in(node) for each in self.assigned.get(name, [])]
        return {name: sorted(values) for name, values in found.items() if values}

    def read_configs(self, node, found):
        loops = {}
        for each in ast.walk(node):
            if isinstance(each, ast.comprehension) and isinstance(each.target, ast.Name):
                loops[each.target.id] = each.iter
        for call in ast.walk(node):
            callee = call.func if isinstance(call, ast.Call) else None
            if (callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")) != "Config":
                continue
            given = [(OPTIONS.get(each.arg), each.value) for each in call.keywords]
            for settings in call.args[:1]:
                if isinstance(settings, ast.Dict):
                    given += [
                        (getattr(key, "value", None), value) for key, value in zip(settings.keys, settings.values)
                    ]
                elif isinstance(settings, ast.Call):
                    given += [(each.arg, each.value) for each in settings.keywords]
            for name, value in given:
                if isinstance(name, str):
                    found.setdefault(name, set()).update(self.integers(value, loops))

    def integers(self, node, loops, depth=0):
        """Integers that an expression may be: a literal, a list, a loop's variable, or a name that is assigned them."""
        if isinstance(node, ast.Constant):
            return {node.value} if type(node.value) is int else set()
        if isinstance(node, (ast.List, ast.Tuple)):
            return set().union(*(self.integers(each, loops, depth) for each in node.elts), set())
        if isinstance(node, ast.IfExp):
            return self.integers(node.body, loops, depth) | self.integers(node.orelse, loops, depth)
        if isinstance(node, ast.Name) and depth < 8:
            sources = [loops[node.id]] if node.id in loops else [each.value for each in self.assigned.get(node.id, [])]
            return set().union(*(self.integers(each, loops, depth + 1) for each in sources), set())
        return set()


def parameters_of(entry):
    given = entry.args.posonlyargs + entry.args.args
    defaults = [None] * (len(given) - len(entry.args.defaults)) + entry.args.defaults
    return [
        {
            "name": each.arg,
            "constexpr": each.annotation is not None and "constexpr" in ast.unparse(each.annotation),
            "default": default.value
            if isinstance(default, ast.Constant) and type(default.value) in (int, bool)
            else None,
        }
        for each, default in zip(given, defaults)
    ]


def main():
    file, wanted = sys.argv[1], (sys.argv[2:] or [""])[0]
    name = pathlib.Path(file).name
    try:
        if pathlib.Path(file).stat().st_size > MAX_BYTES:
            fail(f"{name}: must be at most {MAX_BYTES} bytes of Python")
        text = pathlib.Path(file).read_text("utf8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{name}: must be a readable text: {error}")
    kernels = Kernels(text, name)
    entry = kernels.entry(wanted, name)
    print(
        json.dumps(
            {
                "entry": entry.name,
                "python": kernels.python(entry),
                "parameters": parameters_of(entry),
                "options": kernels.options(entry),
            }
        )
    )


if __name__ == "__main__":
    main()
