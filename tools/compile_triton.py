"""Compiles a kernel's Python with Triton, in the runner's sandbox or for `fa-tui compile`.

  compile_triton.py SITE REQUEST

SITE is the folder that Triton is imported from.

Only a child process runs the kernel's Python. The parent limits the child's output and reports how the child ended.
Errors are lines like `kernel/kernel.py:3:1: error: …`, which the runner reads.
"""

import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys

# The folder has the same path in every sandbox, because Triton writes the path into the PTX. Outside a sandbox, the
# request names another folder.
PLACE = pathlib.Path("/tmp/flashcore-triton")
MAX_PRINTED_BYTES = 256 * 1024
MAX_PTX_BYTES = 64 * 2**20
MAX_SCRATCH_BYTES = 999_999
MAX_MEMORY_BYTES = 8 * 2**30
MAX_WORDS = 2000
WAIT_SECONDS = 0.05
MAX_PROCESSES = 64


def fail(path, line, words, column=1):
    """Prints an error on a separate line, even if the kernel has printed only a part of a line."""
    words = " ".join(str(words).split())[:MAX_WORDS]
    print(f"\n{path}:{max(line, 1)}:{max(column, 1)}: error: {words}", flush=True)
    sys.exit(1)


def parent(site, request):
    source = request["source"]
    child = subprocess.Popen(
        [sys.executable, "-I", __file__, site, json.dumps(request), "child"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    # A process that the child has forked may keep the pipe open after the child has ended.
    os.set_blocking(child.stdout.fileno(), False)
    printed, status = 0, None
    while status is None:
        select.select([child.stdout], [], [], WAIT_SECONDS)
        status = child.poll()
        if (running := processes_in_sandbox()) > MAX_PROCESSES:
            kill_others()
            fail(source, 1, f"must run at most {MAX_PROCESSES} processes while Triton compiles it, got {running}")
        while piece := child.stdout.read(65536):
            printed += len(piece)
            if printed > MAX_PRINTED_BYTES:
                child.kill()
                fail(source, 1, f"must print at most {MAX_PRINTED_BYTES} bytes while Triton compiles it, got more")
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        if piece == b"" and status is None:
            status = child.wait()
    if status == 1:
        sys.exit(1)
    made = pathlib.Path("kernel.ptx")
    if status != 0 or made.is_symlink() or not made.is_file():
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        fail(source, 1, f"Python ended with {ended} before Triton had compiled the kernel")
    if made.stat().st_size > MAX_PTX_BYTES:
        fail(source, 1, f"must become at most {MAX_PTX_BYTES} bytes of PTX, got {made.stat().st_size}")


def processes_in_sandbox():
    """How many processes the sandbox has; 0 outside of one. A host may have no limit of its own, for root for example."""
    first = pathlib.Path("/proc/1/comm")
    if not first.exists() or first.read_text("utf8").strip() != "bwrap":
        return 0
    return sum(name.isdigit() for name in os.listdir("/proc"))


def kill_others():
    """Kills all other processes of the sandbox at once, so that none of them forks meanwhile."""
    os.kill(-1, signal.SIGKILL)


def place_in(request):
    return pathlib.Path(request.get("place", PLACE))


def load(source, place):
    """Imports the kernel's file as a module."""
    place.mkdir()
    copy = place / pathlib.Path(source).name
    shutil.copy(source, copy)
    spec = importlib.util.spec_from_file_location(copy.stem + "_kernel", copy)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, copy


def function_of(module, entry):
    """The function called `entry`, without the decorators that choose its options, because the manifest's parameters do
    that."""
    function = getattr(module, entry, None)
    seen = []
    while function is not None and not hasattr(function, "params"):
        seen.append(type(function).__name__)
        function = getattr(function, "fn", None)
    if seen and function is not None:
        print(f"{entry}: {', '.join(seen)} ignored: the parameters of kernel.yaml choose", flush=True)
    return function


def compile_kernel(request):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, _ = load(request["source"], place_in(request))
    target = GPUTarget("cuda", request["capability"], 32)
    entries, parts, header = request["entries"], [], ""
    for entry in entries:
        name, function = entry["function"], function_of(module, entry["function"])
        if function is None:
            fail(
                request["source"], 1, f"must have a function {name} under @triton.jit, which kernel.yaml names as entry"
            )
        signature, constants, aligned = arguments_of(function, entry, request["source"])
        values = entry["values"]
        options = {option: values[option.upper()] for option in OPTIONS if option.upper() in values}
        compiled = triton.compile(ASTSource(function, signature, constants, aligned), target=target, options=options)
        header += memory_of(compiled.metadata, entry, request["source"], len(entries) > 1)
        parts.append((name, entry["symbol"], re.sub(r'(\.file\t\d+ )".*/([^/"]+)"', r'\1"\2"', compiled.asm["ptx"])))
    pathlib.Path("kernel.ptx").write_text(header + (parts[0][2] if len(parts) == 1 else joined(parts)), encoding="utf8")


OPTIONS = ("num_warps", "num_stages", "num_ctas")


def arguments_of(function, entry, source):
    """What ASTSource takes: the types of all arguments, the values of constexprs, and known divisors."""
    name, values = entry["function"], entry["values"]
    constants, signature, aligned = {}, {}, {}
    types = list(entry["types"])
    for index, parameter in enumerate(function.params):
        argument = parameter.name
        if not parameter.is_constexpr:
            if not types:
                given = len(entry["types"])
                fail(source, 1, f"{name} has more arguments than the {given} of kernel.yaml: {argument}")
            signature[argument], _, divisor = types.pop(0).partition(":")
            # Tensors and workspaces start at multiples of 256 bytes.
            if signature[argument].startswith("*") or divisor:
                aligned[(index,)] = [["tt.divisibility", int(divisor or 16)]]
            continue
        if argument not in values and not parameter.has_default:
            fail(source, 1, f"{name}'s constexpr {argument} must be a parameter or a constant of kernel.yaml")
        signature[argument] = "constexpr"
        constants[(index,)] = values.get(argument, parameter.default)
    if types:
        fail(source, 1, f"{name} must have {len(entry['types'])} arguments, as kernel.yaml gives")
    unknown = [each for each in entry["own"] if each not in signature and each.lower() not in OPTIONS]
    if unknown:
        fail(source, 1, f"{name} has no constexpr {unknown[0]}, which the entry in kernel.yaml names")
    return signature, constants, aligned


def memory_of(metadata, entry, source, is_named):
    """The lines that tell the runner the memory of an entry, with the entry's symbol if there are several."""
    scratch = getattr(metadata, "global_scratch_size", 0)
    if scratch > MAX_SCRATCH_BYTES:
        most = f"at most {MAX_SCRATCH_BYTES} bytes of scratch memory for each CTA"
        fail(source, 1, f"{entry['function']} must take {most}, got {scratch}")
    name = f"{entry['symbol']}: " if is_named else ""
    lines = f"// flashcore: {name}{metadata.shared} bytes of dynamic shared memory\n"
    return lines + (f"// flashcore: {name}{scratch} bytes of scratch memory for each CTA\n" if scratch > 0 else "")


SECTIONS = "\n\t.section\t.debug_"
MODULE_HEAD = re.compile(r"^\.(?:version|target|address_size)\b.*\n", re.MULTILINE)
DECLARED_ELSEWHERE = re.compile(r"^\.extern\b[^;]*;\n?", re.MULTILINE)
OWN_SYMBOL = re.compile(
    r"^(?:\.(?:visible|weak)\s+)?"
    r"(?:\.func\s*(?:\([^)]*\)\s*)?|\.(?:global|const)\b[^=;\[\n]*\s)([A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
FILE = re.compile(r'^\t?\.file\t(\d+) "([^"\n]*)".*\n', re.MULTILINE)


def joined(parts):
    """One module of several (function, symbol, PTX), each of them compiled separately. Entries get their symbols, names
    that would occur twice get a number, and files are numbered anew. Descriptions for debuggers are left out: profilers
    read the lines from .loc."""
    head, declared, files, texts = MODULE_HEAD.findall(parts[0][2]), [], {}, []
    for number, (function, symbol, ptx) in enumerate(parts):
        text = MODULE_HEAD.sub("", ptx.split(SECTIONS, 1)[0] + "\n")
        declared += [each for each in DECLARED_ELSEWHERE.findall(text) if each not in declared]
        text = DECLARED_ELSEWHERE.sub("", text)
        for own in set(OWN_SYMBOL.findall(text)):
            text = re.sub(rf"(?<![\w$]){re.escape(own)}(?![\w$])", lambda _, own=own: f"{own}_{number}", text)
        text = re.sub(
            rf"(?<=\.entry ){re.escape(function)}(?=\()|(?<![\w$]){re.escape(function)}(?=_param_\d+\b)", symbol, text
        )
        places = {index: files.setdefault(name, len(files) + 1) for index, name in FILE.findall(text)}
        text = re.sub(r"(\.loc\t\d+ \d+ \d+), function_name [^\n/]*", r"\1", FILE.sub("", text))
        texts.append(re.sub(r"\.loc\t(\d+) ", lambda found, of=places: f".loc\t{of[found[1]]} ", text))
    named = [f'\t.file\t{index} "{name}"\n' for name, index in files.items()]
    return "".join([*head, *declared, *texts, *named])


def place_of(error, source, copies):
    """Line, column and text of an error. The line is that of the innermost frame in the kernel's file."""
    text = pathlib.Path(source).read_text("utf8", "replace")
    place = (1, 1, f"{type(error).__name__}: {error}")
    if isinstance(error, SyntaxError):
        return error.lineno or 1, error.offset or 1, f"SyntaxError: {error.msg}"
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(str(copies)):
            place = (trace.tb_lineno, 1, place[2])
        trace = trace.tb_next
    for _ in range(20):
        node, excerpt = getattr(error, "node", None), getattr(error, "src", None)
        if hasattr(node, "lineno") and excerpt and (at := text.find(excerpt.strip())) >= 0:
            words = getattr(error, "error_message", None) or place[2].split("\n")[-1]
            place = (text.count("\n", 0, at) + node.lineno, node.col_offset + 1, words)
        error = error.__cause__
        if error is None:
            break
    return place


def child(site, request):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    if "place" not in request:
        os.environ["HOME"] = os.environ["TMPDIR"] = "/tmp"
    os.environ["TRITON_CACHE_DIR"] = str(place_in(request).with_name("triton-cache"))
    if site not in sys.path:
        sys.path.append(site)
    source = request["source"]
    try:
        compile_kernel(request)
    except Exception as error:
        line, column, words = place_of(error, source, place_in(request))
        fail(source, line, words, column)


if __name__ == "__main__":
    (child if sys.argv[3:] == ["child"] else parent)(sys.argv[1], json.loads(sys.argv[2]))
