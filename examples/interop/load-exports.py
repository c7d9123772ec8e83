"""Loads exports of `fa-tui export` with the frameworks' own code, each framework at the commit named in COMMITS.

  python3 load-exports.py EXPORTS CLONES

EXPORTS has one kernel, exported with each of these flags: --flashinfer EXPORTS/flashinfer, --kernelbench
EXPORTS/kernelbench, --robust-kbench EXPORTS/robust-kbench, --popcorn EXPORTS/popcorn.py, --wheel EXPORTS/wheel. CLONES
has the clones, in folders named after the repositories. Needs PyTorch 2.4 or later, pydantic, safetensors, requests
and pip; no GPU, and nothing is compiled. Prints a Markdown table, and exits with 1 if something did not load.
"""

import ast
import importlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile

COMMITS = {
    "flashinfer-bench": "40e6ca7844b514eb4b1c7edba6d6a7377df57870",
    "KernelBench": "423217d9fda91e0c2d67e4a43bf62f96f6d104f1",
    "robust-kbench": "078f5bab29934a822268d59a4e707d449abf9b4e",
    "kernelbot": "4bdd839ad76eaac0cdab986d30f8d77f989a289b",
}


def expect(condition, text):
    if not condition:
        raise ValueError(text)


def flashinfer_bench(exports, tree):
    """Reads the data set with TraceSet. The builder of Python solutions must accept each solution."""
    # The package's own __init__ needs FlashInfer and a GPU, but its data classes and its builder do not.
    package(tree, "flashinfer_bench", "compile", "compile.builders")
    data = importlib.import_module("flashinfer_bench.data")
    traces = data.TraceSet.from_path(str(exports / "flashinfer"))
    solutions = [each for several in traces.solutions.values() for each in several]
    expect(solutions, "no solutions")
    builder = importlib.import_module("flashinfer_bench.compile.builders.python_builder").PythonBuilder()
    for each in solutions:
        expect(each.definition in traces.definitions, f"{each.name} has no definition")
        expect(traces.workloads.get(each.definition), f"{each.definition} has no workloads")
        expect(builder.can_build(each), f"{each.name}: the builder of Python solutions does not take it")
    return f"TraceSet: {len(traces.definitions)} definitions, {len(solutions)} solutions; PythonBuilder takes each"


def package(tree, name, *parts):
    """Imports the named modules of a package without running the package's __init__."""
    for each in [name, *(f"{name}.{part}" for part in parts)]:
        module = type(sys)(each)
        module.__path__ = [str(tree / each.replace(".", "/"))]
        sys.modules[each] = module


def kernelbench(exports, tree):
    """Checks ModelNew with the static checker, and runs the reference through the evaluator's loader."""
    package(tree / "src", "kernelbench")
    checker = importlib.import_module("kernelbench.kernel_static_checker")
    source = (exports / "kernelbench/model_new.py").read_text()
    valid, errors, warnings = checker.validate_kernel_static(source, backend="cuda", precision="fp16")
    expect(valid, f"the checker says {errors}")
    reference = (exports / "kernelbench/reference.py").read_text()
    # The loader's module imports data sets and timing, which the loader itself does not use.
    text = (tree / "src/kernelbench/eval.py").read_text()
    scope = {"torch": importlib.import_module("torch"), "Union": __import__("typing").Union}
    exec(function_of(text, "load_original_model_and_inputs"), scope)
    model, inits, inputs = scope["load_original_model_and_inputs"](reference, {})
    result = model(*inits())(*(each.float().cpu() for each in inputs()))
    said = f", warns {warnings}" if warnings else ""
    return f"validate_kernel_static passes ModelNew{said}; the reference gives {list(result.shape)}"


def function_of(text, name):
    """Compiles one function of a file whose imports are not installed."""
    found = next(node for node in ast.parse(text).body if getattr(node, "name", "") == name)
    return "from __future__ import annotations\n" + ast.get_source_segment(text, found)


def robust_kbench(exports, tree):
    """Reads the folder with KernelTask, and runs the task's function on the inputs of its configurations."""
    package(tree, "robust_kbench")
    kernel_task = importlib.import_module("robust_kbench.kernel_task")
    task = kernel_task.KernelTask(
        str(exports / "robust-kbench"), multi_input_settings=True, multi_init_settings=True, forward=True
    )
    expect(task.correct_kernel and "PYBIND11_MODULE" in task.correct_kernel, "forward.cu is not read")
    expect(task.forward_fn_str and task.operation_info, "the forward function or its operation is not read")
    configs = importlib.import_module("robust_kbench.config_task").ConfigTask(
        str(exports / "robust-kbench"), multi_input_settings=True, multi_init_settings=True
    )
    _, inputs, names = configs.get_configs()
    expect(len(set(names)) == len(inputs) > 0, "configurations share a name")
    return f"KernelTask reads forward.cu and the task; ConfigTask has {len(inputs)} configurations"


def kernelbot(exports, tree):
    """Checks the server's directives, and its rule about streams, which is not a function that could be called."""
    text = (tree / "src/libkernelbot/submission.py").read_text()
    scope = {"KernelBotError": ValueError}
    exec(function_of(text, "_get_popcorn_directives"), scope)
    code = (exports / "popcorn.py").read_text()
    directives = scope["_get_popcorn_directives"](code)
    rule = (tree / "src/kernelbot/api/api_utils.py").read_text()
    expect('"stream" in submission_code.lower()' in rule, "the server's rule about streams is another one")
    expect("stream" not in code.lower(), 'the submission has the word "stream"')
    names = [getattr(node, "name", "") for node in ast.parse(code).body]
    expect("custom_kernel" in names, "there is no custom_kernel")
    return f"directives {directives}; no word of its rule"


def pip(exports):
    """Installs the wheel with pip. Python must then find the module."""
    (wheel,) = (exports / "wheel").glob("*.whl")
    with tempfile.TemporaryDirectory() as site:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site]
        subprocess.run([*install, str(wheel)], check=True, stdout=subprocess.DEVNULL)
        (module,) = pathlib.Path(site).glob("*.py")
        program = (
            f"import sys; sys.path.insert(0, {site!r}); import {module.stem} as m; print(m.PROVENANCE['build'][:8])"
        )
        build = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    return f"{wheel.name} is installed and imported: build {build.strip()}"


LOADERS = {
    "flashinfer-bench": flashinfer_bench,
    "KernelBench": kernelbench,
    "robust-kbench": robust_kbench,
    "kernelbot": kernelbot,
}


def checked_out(clone, commit, folder):
    """Extracts the files of a commit, without a change to the clone."""
    archive = subprocess.run(
        ["git", "-C", str(clone), "archive", commit, ":(glob)**/*.py"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        # Debian 12's Python 3.11.2 does not know filters.
        files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return pathlib.Path(folder)


def main():
    exports, clones = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    failed = False
    print("| loaded by | commit | what it said |\n| --- | --- | --- |")
    for name, load in [*LOADERS.items(), ("pip", None)]:
        try:
            if load is None:
                said = pip(exports)
            else:
                with tempfile.TemporaryDirectory() as folder:
                    said = load(exports, checked_out(clones / name, COMMITS[name], folder))
        except Exception as error:
            said, failed = f"**not loaded**: {type(error).__name__}: {error}", True
        print(f"| {name} | {COMMITS.get(name, '')[:8]} | {said} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
