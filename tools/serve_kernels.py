"""Serves kernels written in Python to mlacheck: cuda/plugin/PROTOCOL.md. Standard library only.

    mlacheck run 'RECIPE' --kernel FILE.py

starts `python3 serve_kernels.py FILE.py SOCKET`. FILE.py imports this module and declares its kernels:

    import serve_kernels

    @serve_kernels.kernel("sparse_attention", conventions={...}, contract={...}, supports=supports)
    def mine(problem, tensors):
        ...

problem: the operator's struct of cuda/include/mlacheck_kernel.h, by its fields (problem.tokens, problem.kv.slots); that of
index_scores has unmasked_scores of mlacheck_problem as well.
tensors: by their names in mlacheck_tensors, None where the call has none; inputs are not to be changed, outputs are written
in place. supports(problem) returns None or why not. A kernel that raises has failed: the verdict says where, and stderr has the
traceback unless MLACHECK_TRACEBACKS is 0, as in campaigns, which try a failure again and again.
"""

import array
import ctypes
import mmap
import os
import runpy
import socket
import sys
import time
import traceback

I32, U32, I64, U64, F32 = ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float
GREETING = b"mlacheck-worker 1"
OPERATORS = {"sparse_attention": 1, "index_scores": 2, "top_k": 3, "index_select": 4, "map_slots": 5}
NAMES = ["q", "cache", "indices", "topk_length", "attn_sink", "weights", "block_table", "request", "range_begin", "range_end",
         "scores_in", "positions", "out", "lse", "max_logit", "scores_out", "selected", "slots"]
DTYPES = {1: "f32", 2: "f16", 3: "bf16", 4: "e4m3"}
FORMATS = {"f32": "f", "f16": "e", "i32": "i"}  # of a memoryview's elements, where Python has one
WHY_BYTES = 4000
UNMASKED_SCORES_AT = 328  # in mlacheck_problem: appended to it


def struct(name, *fields):
    """A struct of mlacheck_kernel.h: 'type field field ...' for each type in turn."""
    listed = []
    for kind, names in fields:
        listed += [(field, kind) for field in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": listed})


Cache = struct("Cache", (I32, "format dtype"), (I64, "slots page_size page_stride row_stride"))
SparseAttention = struct(
    "SparseAttention", (I64, "tokens heads topk qk_dim v_dim q_token_stride q_head_stride index_stride"), (Cache, "kv"),
    (I32, "q_dtype out_dtype"), (F32, "sm_scale"), (I32, "has_topk_length has_attn_sink wants_max_logit batch_invariant reserved"))
IndexScores = struct(
    "IndexScores", (I64, "tokens heads dim key_count q_token_stride q_head_stride score_stride block_table_stride"),
    (Cache, "keys"), (I32, "q_dtype has_block_table has_request has_key_range"))
TopK = struct("TopK", (I64, "rows columns k score_stride"), (I32, "has_row_range reserved"))
IndexSelect = struct("IndexSelect", (IndexScores, "scores"), (I64, "k"), (I32, "to_slots reserved"))
MapSlots = struct("MapSlots", (I64, "count blocks block_size"))
PROBLEMS = {1: SparseAttention, 2: IndexScores, 3: TopK, 4: IndexSelect, 5: MapSlots}

Conventions = struct(
    "Conventions", (U32, "struct_size"),
    (I32, "lse_base lse_empty sink_in_lse duplicates_once row_relative any_order any_tie nan_first unmasked_scores record_reader"))
Accumulation = struct("Accumulation", (I32, "block order toward_zero alignment_bits rounds_terms"))
Contract = struct(
    "Contract", (U32, "struct_size"), (I32, "tile"), (Accumulation, "qk pv weight_sum index_dot index_heads"),
    (I32, "weight_dtype weights_normalised sums_rounded max_splits partial_dtype score_dtype flushes_subnormals batch_invariant "
          "run_deterministic"),
    (F32, "weight_scale exp_error exp_underflow log_error max_headroom"))
Kernel = struct(
    "Kernel", (U32, "struct_size"), (I32, "op"), (ctypes.c_void_p, "name description"), (I32, "memory reserved"),
    (Conventions, "conventions"), (Contract, "contract"), (ctypes.c_void_p, "supports workspace_size run"),
    (I32, "relu_drops_nan reserved_2"))
DescribedKernel = type("DescribedKernel", (ctypes.Structure,), {"_fields_": [
    ("kernel", Kernel), ("room", ctypes.c_char * (512 - ctypes.sizeof(Kernel))), ("name", ctypes.c_char * 256),
    ("description", ctypes.c_char * 1024)]})
Description = type("Description", (ctypes.Structure,), {"_fields_": [
    ("abi_version", U32), ("kernel_count", U32), ("name", ctypes.c_char * 256), ("version", ctypes.c_char * 256),
    ("kernels", DescribedKernel * 256)]})
Piece = struct("Piece", (U64, "offset bytes stride"))
Header = type("Header", (ctypes.Structure,), {"_fields_": [
    ("calls", I32), ("following", U32), ("bytes", U64), ("pieces", Piece * len(NAMES)), ("problem_size", U32), ("op", I32)]})


class Tensor:
    """A tensor of a call, in the call's own memory. Flat: strides are the problem's. `data`: its bytes; `pointer`: its address;
    `dtype`: "f32", "f16", "bf16", "e4m3", "i32" or, for caches of records and pages, "u8"."""

    def __init__(self, data, dtype):
        self.data, self.dtype = data, dtype
        self.shape = (len(data) // {"f32": 4, "i32": 4, "f16": 2, "bf16": 2}.get(dtype, 1),)
        self.pointer = ctypes.addressof(ctypes.c_char.from_buffer(data)) if len(data) else 0

    def elements(self):
        """A memoryview of its elements: numbers for f32, f16 and i32, their bits for bf16, e4m3 and bytes."""
        return self.data.cast(FORMATS.get(self.dtype, "H" if self.dtype == "bf16" else "B"))

    # Array libraries view its memory: torch.from_dlpack(tensor).
    def __dlpack_device__(self):
        return (1, 0)  # the CPU

    def __dlpack__(self, **_):
        return dlpack.capsule(self)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", I32), ("device_id", I32), ("ndim", I32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(I64)),
                ("strides", ctypes.POINTER(I64)), ("byte_offset", U64)]


class DLManagedTensor(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class DLPack:
    CODES = {"i32": (0, 32), "u8": (1, 8), "e4m3": (1, 8), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16)}

    def __init__(self):
        self.alive = {}  # by address, until the consumer lets go of it
        self.deleter = Deleter(lambda managed: self.alive.pop(ctypes.addressof(managed.contents), None) and None)
        self.new = ctypes.pythonapi.PyCapsule_New
        self.new.restype = ctypes.py_object
        self.new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    def capsule(self, tensor):
        shape, strides = (I64 * 1)(*tensor.shape), (I64 * 1)(1)
        managed = DLManagedTensor(DLTensor(tensor.pointer, 1, 0, 1, *self.CODES[tensor.dtype], 1, shape, strides, 0), None,
                                  self.deleter)
        self.alive[ctypes.addressof(managed)] = (managed, shape, strides, tensor)
        return self.new(ctypes.addressof(managed), b"dltensor", None)


dlpack = DLPack()


# What a call of an operator always has; of no element where a size is 0.
ALWAYS = {"sparse_attention": "q cache indices out lse", "index_scores": "q weights cache scores_out",
          "top_k": "scores_in selected", "index_select": "q weights cache selected", "map_slots": "positions block_table slots"}


class Tensors:
    """By name; None for what the problem has none of."""

    def __init__(self, header, op, problem, view):
        always = next(names for operator, names in ALWAYS.items() if OPERATORS[operator] == op).split()
        for name, piece in zip(NAMES, header.pieces):
            here = piece.offset or name in always
            data = view[piece.offset:piece.offset + piece.bytes] if piece.offset else view[:0]
            setattr(self, name, Tensor(data, dtype_of(name, op, problem)) if here else None)


def dtype_of(name, op, problem):
    scores = problem.scores if op == OPERATORS["index_select"] else problem
    if name == "q":
        return DTYPES[scores.q_dtype]
    if name == "out":
        return DTYPES[problem.out_dtype]
    if name == "cache":
        cache = problem.kv if op == OPERATORS["sparse_attention"] else scores.keys
        return DTYPES[cache.dtype] if cache.format == 1 else "u8"
    floats = ("attn_sink", "weights", "scores_in", "lse", "max_logit", "scores_out")
    return "f32" if name in floats else "i32"


# ---- What the file declares ----

kernels = {}
library = {"name": "kernels in Python", "version": "1"}


def fill(struct_, values, where):
    known = [field for field, _ in struct_._fields_]
    for field, value in values.items():
        if field not in known:
            raise ValueError(f"{where}: no field '{field}', there are: {', '.join(known)}")
        if isinstance(value, dict):
            fill(getattr(struct_, field), value, f"{where}.{field}")
        else:
            setattr(struct_, field, value)


def kernel(op, *, name=None, description="", conventions=None, contract=None, relu_drops_nan=0, supports=lambda problem: None):
    """Declares the decorated function as a kernel. Conventions and contract: fields of mlacheck_kernel.h by name, 0 where left out."""
    if op not in OPERATORS:
        raise ValueError(f"op '{op}': one of {', '.join(OPERATORS)}")

    def declare(run):
        title = name or run.__name__
        declared = Kernel(struct_size=ctypes.sizeof(Kernel), op=OPERATORS[op], memory=1, relu_drops_nan=relu_drops_nan)
        fill(declared.conventions, conventions or {}, f"{title}: conventions")
        fill(declared.contract, contract or {}, f"{title}: contract")
        declared.conventions.struct_size = ctypes.sizeof(Conventions)
        declared.contract.struct_size = ctypes.sizeof(Contract)
        if title in kernels:
            raise ValueError(f"two kernels are named '{title}'")
        kernels[title] = (declared, description, supports, run)
        return run

    return declare


# ---- The protocol ----

def text(what, limit, value):
    data = value.encode()
    if len(data) >= limit:
        raise ValueError(f"{what} is longer than {limit - 1} bytes")
    return data


def describe(path, block):
    runpy.run_path(path, run_name="__mlacheck__")
    if not 1 <= len(kernels) <= 256:
        raise ValueError(f"declares {len(kernels)} kernels, 1 to 256 are taken")
    description = Description.from_buffer(block)
    description.abi_version, description.kernel_count = 1, len(kernels)
    description.name = text("the library's name", 256, library["name"])
    description.version = text("the library's version", 256, library["version"])
    for to, (title, (declared, line, _, _)) in zip(description.kernels, kernels.items()):
        to.kernel = declared
        to.name, to.description = text("a kernel's name", 256, title), text("a kernel's description", 1024, line)
    return "done"


def call(task, title, block):
    if task not in ("supports", "run", "time"):
        return f"failed unknown task '{task}'"
    header = Header.from_buffer(block)
    op = header.op
    if header.following:
        return f"refused a chain of {header.following + 1} stages: kernels in Python are called one by one"
    problem = PROBLEMS[op].from_buffer(block, ctypes.sizeof(Header))
    if op == OPERATORS["index_scores"]:
        known = header.problem_size >= UNMASKED_SCORES_AT + ctypes.sizeof(I32)
        at = Header.problem_size.offset + UNMASKED_SCORES_AT
        problem.unmasked_scores = I32.from_buffer(block, at).value if known else 0
    if title not in kernels:
        return f"failed has no kernel '{title}'; it has: {', '.join(kernels)}"
    declared, _, supports, run = kernels[title]
    if task == "time":
        return "refused wants host memory: only kernels on a GPU are timed"
    why = f"is for another operator than {op}" if declared.op != op else supports(problem)
    if why is not None:
        return f"refused {why}"
    if task == "supports":
        return "done"
    tensors = Tensors(header, op, problem, memoryview(block))
    begin = time.perf_counter()
    run(problem, tensors)
    return f"done {time.perf_counter() - begin:.9f}"


def last_words(error):
    """Where in the kernel it went wrong, and what."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    try:
        words = str(error)
    except Exception as another:  # an error of the kernel's own class
        words = f"(no words: {type(another).__name__})"
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {type(error).__name__}: {words}"


def flush():
    """What a kernel printed comes before the answer; where it cannot be written, that is no verdict."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:  # closed by the kernel, a full disk, or none
            setattr(sys, name, open(os.devnull, "w"))


def answer(path, request, descriptor):
    number, task, *title = request.decode().split(" ", 2)
    block = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    try:
        said = describe(path, block) if task == "describe" else call(task, "".join(title), block)
    except Exception as error:  # a kernel's own: a verdict
        try:
            if task == "describe" or os.environ.get("MLACHECK_TRACEBACKS") != "0":
                traceback.print_exc()
        except Exception:
            pass  # what it says is in the answer
        said = f"refused {path}: {last_words(error)}" if task == "describe" else f"failed {last_words(error)}"
    flush()
    # Unmapped with the last view of it.
    return f"{number} {said}".encode(errors="replace")[:WHY_BYTES]


def receive(connection):
    room = socket.CMSG_SPACE(array.array("i").itemsize)
    request, ancillary, _, _ = connection.recvmsg(4096, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    return request, descriptors[0] if descriptors else -1


def serve(path, descriptor):
    connection = socket.socket(fileno=descriptor)
    connection.send(GREETING)
    while True:
        request, block = receive(connection)
        if not request:
            return
        connection.send(answer(path, request, block))


if __name__ == "__main__":
    sys.modules["serve_kernels"] = sys.modules["__main__"]  # what the file imports
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
    serve(sys.argv[1], int(sys.argv[2]))
