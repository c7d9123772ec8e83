"""Loads exports of `fa-tui export` with the frameworks' own code, each framework at the commit named in COMMITS.

  python3 load-exports.py EXPORTS CLONES

EXPORTS has one kernel, exported with each of these flags: --flashinfer EXPORTS/flashinfer, --kernelbench
EXPORTS/kernelbench, --robust-kbench EXPORTS/robust-kbench, --popcorn EXPORTS/popcorn.py, --wheel EXPORTS/wheel; and a
kernel of attention_decode_paged, exported with --set BF16=1 --flashinfer EXPORTS/decode. CLONES has the clones, in
folders named after the repositories. Needs PyTorch 2.4 or later, pydantic, safetensors, requests and pip; no GPU, and
nothing is compiled. Prints a Markdown table, and exits with 1 if something did not load.
"""

import ast
import asyncio
import dataclasses
import importlib
import io
import math
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

COMMITS = {
    "flashinfer-bench": "40e6ca7844b514eb4b1c7edba6d6a7377df57870",
    "flashinfer": "fb28d7242b3506a2348265962041acc1fb56cca4",
    "KernelBench": "423217d9fda91e0c2d67e4a43bf62f96f6d104f1",
    "robust-kbench": "078f5bab29934a822268d59a4e707d449abf9b4e",
    "kernelbot": "4bdd839ad76eaac0cdab986d30f8d77f989a289b",
}


def expect(condition, text):
    if not condition:
        raise ValueError(text)


def flashinfer_bench(exports, tree):
    """Reads both data sets with TraceSet. The builder of Python solutions must accept each solution, and build the
    decoding kernel's, which calls nvcc for none."""
    # The package's own __init__ needs FlashInfer and a GPU, but its data classes and its builder do not.
    package(tree, "flashinfer_bench", "compile", "compile.builders")
    data = importlib.import_module("flashinfer_bench.data")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FIB_CACHE_PATH"] = cache
        builder = importlib.import_module("flashinfer_bench.compile.builders.python_builder").PythonBuilder()
        said = []
        for folder in ("flashinfer", "decode"):
            traces = data.TraceSet.from_path(str(exports / folder))
            solutions = [each for several in traces.solutions.values() for each in several]
            expect(solutions, "no solutions")
            for each in solutions:
                expect(each.definition in traces.definitions, f"{each.name} has no definition")
                expect(builder.can_build(each), f"{each.name}: the builder of Python solutions does not take it")
                if folder == "flashinfer":
                    expect(traces.workloads.get(each.definition), f"{each.definition} has no workloads")
                    continue
                definition = traces.definitions[each.definition]
                built = builder.build(definition, each)
                case = paged_case(definition.const_axes)
                on_the_cpu(built._callable)
                close(built._callable(*case["inputs"].values()), case["want"])
                built.cleanup()
            said.append(f"{len(traces.definitions)} definitions, {len(solutions)} solutions")
    return f"TraceSet: {said[0]}, and of decoding {said[1]}; PythonBuilder takes each, builds those of decoding"


def trace_apply(exports, tree):
    """Enables trace_apply as a deployment does, by a folder, and calls the wrapper that it replaces."""
    package(tree, "flashinfer", "trace", "trace.templates", "trace_apply")
    template = importlib.import_module("flashinfer.trace.templates.attention").gqa_paged_decode_trace
    wrapper = stand_in(tree)
    module("flashinfer.api_logging")._TRACE_REGISTRY = [(wrapper.run, template, "")]
    apply = importlib.import_module("flashinfer.trace_apply.apply")
    torch = importlib.import_module("torch")
    # Without a GPU PyTorch cannot say whether a graph is being captured.
    torch.cuda.is_current_stream_capturing = lambda: False
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, FLASHINFER_TRACE_APPLY_PATH=str(exports / "decode"))
        solutions = apply._solutions_from_env()
        expect(solutions, "no solutions")
        expect(apply.enable_apply() == 1, "nothing was replaced")
        calls = 0
        for name, solution in solutions.items():
            heads, key_heads, width, page = (int(part.lstrip("hkvdps")) for part in name.split("_")[3:])
            axes = {"num_qo_heads": heads, "num_kv_heads": key_heads, "head_dim": width, "page_size": page}
            expect(template.definition_name(axes) == name, f"{name} is not the name of a call")
            case = paged_case(axes)
            on_the_cpu(apply._get_loaded_solution(solution))
            decode = wrapper()
            q, k, v, indptr, indices, *last, scale = case["inputs"].values()
            decode._paged_kv_indptr_buf, decode._paged_kv_indices_buf, decode._sm_scale = indptr, indices, scale
            if last:
                # It does not pass how far last pages are filled: the solution refuses that.
                refused = error_of(lambda: decode.run(q, (k, v)))
                expect("kv_last_page_len" in str(refused), f"{name}: {refused!r}")
                continue
            out = torch.empty_like(q)
            found = decode.run(q, (k, v), out=out, return_lse=True)
            expect(found[0] is out, f"{name}: the caller's tensor is not written")
            close(found, case["want"])
            close((decode.run(q, (k, v)),), case["want"][:1])
            calls += 2
        counted = apply.stats_snapshot()["flashinfer.decode.BatchDecodeWithPagedKVCacheWrapper.run"]
        expect(counted["hit"] == calls, f"{counted} after {calls} calls")
        apply.disable_apply()
    return f"{len(solutions)} solutions of decoding; {calls} calls of the wrapper went to them; pages of several rows refused"


def stand_in(tree):
    """FlashInfer's wrapper with its own signature, but without its kernels."""
    text = (tree / "flashinfer/decode.py").read_text()
    name = "BatchDecodeWithPagedKVCacheWrapper"
    (found,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == name)
    run = [node for node in found.body if getattr(node, "name", "") == "run"][-1]
    for argument in (*run.args.args, *run.args.kwonlyargs, run.args.vararg, run.args.kwarg):
        if argument:
            argument.annotation = None
    source = f"class {name}:\n    def run({ast.unparse(run.args)}):\n        raise RuntimeError('not replaced')\n"
    exec(source, module("flashinfer.decode").__dict__)
    return getattr(sys.modules["flashinfer.decode"], name)


def module(name):
    """A new, empty module of this name, also as an attribute of its package."""
    made = sys.modules[name] = type(sys)(name)
    package_name, _, last = name.rpartition(".")
    setattr(sys.modules[package_name], last, made)
    return made


def error_of(call):
    try:
        call()
    except Exception as error:
        return error
    return None


def paged_case(axes):
    """Inputs of paged decoding by a definition's names, and its outputs."""
    torch = importlib.import_module("torch")
    torch.manual_seed(1)
    heads, key_heads, width, page = (axes[name] for name in ("num_qo_heads", "num_kv_heads", "head_dim", "page_size"))
    lengths = [3, 2 * page + 1, page]
    counts = [-(-each // page) for each in lengths]
    indptr = torch.tensor([sum(counts[:each]) for each in range(4)], dtype=torch.int32)
    indices = torch.randperm(12)[: sum(counts)].int()
    q = torch.randn(3, heads, width).bfloat16()
    k, v = (torch.randn(12, page, key_heads, width).bfloat16() for _ in range(2))
    inputs = {"q": q, "k_cache": k, "v_cache": v, "kv_indptr": indptr, "kv_indices": indices}
    if page > 1:
        inputs["kv_last_page_len"] = torch.tensor([(each - 1) % page + 1 for each in lengths], dtype=torch.int32)
    tables = [indices[first:last].long() for first, last in zip(indptr.tolist(), indptr.tolist()[1:])]
    rows = [[each[table].flatten(0, 1)[:keys] for each in (k, v)] for table, keys in zip(tables, lengths)]
    found = [plain(torch, each, *pair, 0.2) for each, pair in zip(q, rows)]
    want = torch.stack([out for out, _ in found]), torch.stack([lse for _, lse in found]) / math.log(2.0)
    return {"inputs": {**inputs, "sm_scale": 0.2}, "want": want}


def plain(torch, q, k, v, scale):
    """O and LSE of one query over the keys of a sequence."""
    k, v = (each.float().repeat_interleave(q.shape[0] // each.shape[1], 1) for each in (k, v))
    scores = torch.einsum("hd,khd->hk", q.float(), k) * scale
    return torch.einsum("hk,khd->hd", torch.softmax(scores, 1), v), torch.logsumexp(scores, 1)


def on_the_cpu(entry):
    """Makes a loaded solution compute with plain PyTorch where it would launch its kernel."""
    torch = importlib.import_module("torch")

    def run(q, k, v, lengths, table, out, lse, scale, *_):
        for row, keys in enumerate(lengths.tolist()):
            pages = [each[table[row].long()].flatten(0, 1)[:keys] for each in (k, v)]
            found = plain(torch, q[row, 0], *pages, scale)
            out[row, 0], lse[row, :, 0] = found

    entry.__globals__["_run"] = run


def close(found, want):
    expect(len(found) == len(want), f"{len(found)} outputs")
    for ours, theirs in zip(found, want):
        expect(ours.shape == theirs.shape, f"{ours.shape} and {theirs.shape}")
        worst = (ours.float() - theirs.float()).abs().max().item()
        expect(worst < 2e-2, f"outputs differ by {worst}")


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
    """Hands the submission to the server's own functions: the request with its rules for a file, and the directives."""
    sys.path.insert(0, str(tree / "src"))
    mode_of = importlib.import_module("libkernelbot.consts").SubmissionMode
    text = (tree / "src/libkernelbot/submission.py").read_text()
    rules = (tree / "src/kernelbot/api/api_utils.py").read_text()
    scope = {"__name__": __name__, "KernelBotError": ValueError, "HTTPException": Refusal, "SubmissionMode": mode_of}
    scope["copy"] = importlib.import_module("copy")
    exec(function_of(text, "SubmissionRequest"), scope)
    # The source of a class does not have its decorator.
    scope["SubmissionRequest"] = dataclasses.dataclass(scope["SubmissionRequest"])
    for name in ("_get_popcorn_directives", "handle_popcorn_directives"):
        exec(function_of(text, name), scope)
    exec(function_of(rules, "to_submit_info"), scope)
    user = {"user_name": "a", "user_id": 1}
    asked = scope["to_submit_info"](user, "leaderboard", Upload(exports / "popcorn.py"), "attention", "H200", Boards())
    request, mode = asyncio.run(asked)
    request = scope["handle_popcorn_directives"](request)
    expect((request.leaderboard, request.gpus) == ("attention", ["H200"]), f"the request is {request}")
    names = [getattr(node, "name", "") for node in ast.parse(request.code).body]
    expect("custom_kernel" in names, "there is no custom_kernel")
    return f"to_submit_info and handle_popcorn_directives take the submission in mode {mode.value}"


class Refusal(Exception):
    """The server's answer to a request that it refuses."""

    def __init__(self, status_code, detail):
        super().__init__(f"{status_code}: {detail}")


class Upload:
    def __init__(self, path):
        self.filename, self._bytes = path.name, path.read_bytes()

    async def read(self):
        return self._bytes


class Boards:
    """A data base with one leaderboard."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def get_leaderboard(self, _name):
        return {"gpu_types": ["H200"]}


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
    "flashinfer": trace_apply,
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
