"""Machine instructions of AMD GPUs from the assembly that the compiler writes, in the form that `flow` gives NVIDIA's.

Classes, widths and functions are named as for NVIDIA, so that rules need not ask whose GPU it is. Sources: AMD's "CDNA
2" and "CDNA 3" instruction set architecture guides, and LLVM's "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import re

from tritonforge.compilation.instruction import Instruction
from tritonforge.compilation.locations import Frame

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+[^;]*(?:;\s*(.*))?$")
_FRAME = re.compile(r"([^\s@\[\]]+):(\d+):\d+")
_LABEL = re.compile(r"^(\.?\w+):")
_INSTRUCTION = re.compile(r"^\s+([sv]_\w+|(?:global|flat|buffer|scratch|ds|tensor)_\w+)\b\s*([^;]*)(;.*)?$")
_TARGET = re.compile(r"^(\.?LBB\w+)")
_WIDTHS = (
    ("dwordx4", 16), ("dwordx3", 12), ("dwordx2", 8), ("dword", 4), ("ushort", 2), ("sshort", 2), ("short", 2),
    ("ubyte", 1), ("sbyte", 1), ("byte", 1), ("b128", 16), ("b96", 12), ("b64", 8), ("b32", 4), ("b16", 2), ("u16", 2),
    ("i16", 2), ("b8", 1), ("u8", 1), ("i8", 1), ("x2", 8),
)  # fmt: skip
_FUNCTIONS = {
    "v_exp": "exp2", "v_log": "log2", "v_rcp_iflag": "int_div", "v_rcp": "rcp", "v_rsq": "rsqrt", "v_sqrt": "sqrt",
    "v_sin": "sin", "v_cos": "cos", "v_tanh": "tanh", "v_div_fixup": "div",
}  # fmt: skip
_FLOAT = re.compile(r"_(?:f16|f32|f64|bf16)(?:_|$)|_f\d+_")
_LANES = ("readlane", "readfirstlane", "writelane", "permlane", "_dpp", "swap")


def is_amd(text: str) -> bool:
    """Tell whether a disassembly is AMD's assembly."""
    return "amdgcn" in text[:2000] or ".amdhsa_" in text


def read_amd_stream(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions in order, and for each label the index of the instruction behind it.

    The comment behind `.loc` has the chain of inlined frames, by file names without folders.
    """
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    frames: tuple[Frame, ...] = ()
    for row, line in enumerate(text.splitlines()):
        if line.startswith("\t.loc") or line.lstrip().startswith(".loc"):
            found = _LOC.match(line)
            if found:
                chain = _FRAME.findall(found[3] or "")[1:]
                inner = [(files.get(found[1], ""), int(found[2]))] if found[2] != "0" else []
                frames = (*inner, *((folders.get(name, name), int(number)) for name, number in chain))
            continue
        found = _INSTRUCTION.match(line)
        if found:
            mnemonic, operands, comment = found[1], found[2].strip(), found[3] or ""
            if "Folded Spill" in comment or "Folded Reload" in comment:
                mnemonic = f"spill_{'store' if 'Spill' in comment else 'load'}_{mnemonic}"
            target = _TARGET.match(operands) if mnemonic.startswith("s_") else None
            instructions.append(Instruction(frames, mnemonic, "", operands, target[1] if target else None, row))
            continue
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(instructions)
            continue
        file = _FILE.match(line)
        if file:
            path = f"{file[2]}/{file[3]}" if file[3] and not file[3].startswith("/") else file[3] or file[2]
            files[file[1]] = path
            folders[path.rpartition("/")[2]] = path
    return instructions, labels


def amd_class(instruction: Instruction) -> str:
    """Return the class of an instruction, as `LineInstructions` names them."""
    name = instruction.mnemonic
    if name.startswith("spill_"):
        return "store_local" if "store" in name[:12] else "load_local"
    unit, _, rest = name.partition("_")
    if unit in {"global", "flat", "buffer", "tensor"}:
        if "atomic" in rest:
            return "atomic"
        if "lds" in rest or re.search(r"\blds\b", instruction.operands):
            return "async_copy"
        return "load_global" if "load" in rest else "store_global" if "store" in rest else "barrier"
    if unit == "scratch":
        return "load_local" if "load" in rest else "store_local"
    if unit == "ds":
        if rest.startswith(("read", "load")):
            return "load_shared"
        if rest.startswith(("write", "store")):
            return "store_shared"
        return "shuffle" if "permute" in rest or "swizzle" in rest else "atomic"
    return _vector_class(name, rest) if unit == "v" else _scalar_class(rest)


def amd_width(mnemonic: str) -> int:
    """Return the bytes that one lane moves by a memory instruction: `global_load_dwordx4` → 16."""
    return next((width for name, width in _WIDTHS if re.search(rf"_{name}(?:_|$)", mnemonic)), 4)


def amd_function(mnemonic: str) -> str | None:
    """Return the function that an instruction computes, as `LineInstructions.functions` names it, or None."""
    return next((name for start, name in _FUNCTIONS.items() if mnemonic.startswith(start + "_")), None)


def _vector_class(name: str, rest: str) -> str:
    if rest.startswith(("mfma", "smfmac", "wmma")):
        return "mma"
    if any(part in name for part in _LANES):
        return "shuffle"
    if amd_function(name) not in {None, "div"}:
        return "special"
    if rest.startswith("cvt"):
        return "convert"
    if rest.startswith(("fma", "fmac", "pk_fma", "mad_f", "mac_f", "dot")):
        return "fma"
    if rest.startswith(("mov", "accvgpr", "nop")):
        return "other"
    return "alu" if _FLOAT.search(name) or rest.startswith("div_") else "int"


def _scalar_class(rest: str) -> str:
    if rest.startswith(("branch", "cbranch", "endpgm", "setpc", "swappc", "call")):
        return "branch"
    if rest.startswith("barrier"):
        return "barrier"
    if rest.startswith(("mov", "load", "buffer_load", "waitcnt", "nop", "setreg", "getreg", "sleep", "cmov", "inst")):
        return "other"
    return "int"
