"""Real projects' files, as installed: nothing crashes, and the counts agree with the text."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tritonforge.analysis import SourceText, analyze, decode_source
from tritonforge.domain.codec import decode, encode
from tritonforge.domain.kernel import FileAnalysis

_FILES_PER_PROJECT = 60


def files_of(package):
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed here")
    every = sorted(Path(found.submodule_search_locations[0]).rglob("*.py"))
    with_kernels = [f for f in every if b"triton.jit" in f.read_bytes()]
    return with_kernels[:: max(1, len(with_kernels) // _FILES_PER_PROJECT)]


@pytest.mark.parametrize("package", ["liger_kernel", "fla"])
def test_every_range_of_real_files_holds_the_text_it_stands_for(package):
    kernels = 0
    for path in files_of(package):
        raw = path.read_bytes()
        text = SourceText(decode_source(raw)[0])
        found = analyze(raw, path.name)
        assert found.errors == (), path
        kernels += len(found.kernels)
        for kernel in found.kernels:
            assert text.slice(kernel.name_range) == kernel.simple_name
            assert text.slice(kernel.range).lstrip().startswith(("@", "def"))
            for access in kernel.accesses:
                assert access.address in text.slice(access.range)
                assert all(0 <= i < len(kernel.loops) for i in access.loops)
            for site in kernel.launch_sites:
                if site.grid_range is not None:
                    assert text.slice(site.grid_range) == site.grid
                for _, value in (*site.constexprs, *site.options):
                    if value.source in ("literal", "local", "module") and value.origin is not None:
                        assert text.slice(value.origin) == value.text
    assert kernels > 30


@pytest.mark.parametrize("package", ["liger_kernel", "fla"])
def test_every_jit_function_is_an_entry_a_helper_or_returns_a_value(package):
    for path in files_of(package):
        source = decode_source(path.read_bytes())[0]
        written = set(
            re.findall(r"^[ \t]*@triton\.jit[^\n]*\n(?:[ \t]*@[^\n]*\n)*[ \t]*def (\w+)", source, re.MULTILINE)
        )
        found = analyze(source, path.name)
        entries = {k.simple_name for k in found.kernels}
        launched = {n for n in re.findall(r"\b(\w+)\[[^\]\n]*\]\(\n", source) if n in written}
        assert launched <= entries, path
        assert entries <= written, path


def test_an_analysis_survives_the_codec():
    for path in files_of("liger_kernel")[:5]:
        found = analyze(path.read_bytes(), path.name)
        assert decode(FileAnalysis, encode(found)) == found
