"""No malicious proposal gets past the allow-list, and none of it runs: every canary stays silent."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from pathlib import Path

import malicious
import pytest

from tritonforge.analysis import analyze
from tritonforge.rewrite.llm.answer import AnswerProblem, parse_block, read_answer
from tritonforge.rewrite.llm.original import Original
from tritonforge.rewrite.llm.proposal import propose_text
from tritonforge.verify.rules import broken_rule, dropped_masks

CASES = sorted(malicious.CASES)


def original(text: str = malicious.BASE) -> Original:
    (kernel,) = analyze(text, "kernels.py").kernels
    return Original(text, kernel)


def test_there_are_far_more_than_forty_kinds():
    assert len(CASES) >= 100


@pytest.mark.parametrize("name", CASES)
def test_a_malicious_proposal_is_refused_and_does_not_run(name, tmp_path):
    canary = tmp_path / "canary"
    (tmp_path / "canary.keep").touch()
    code = malicious.CASES[name].replace("CANARY", str(canary))
    base = original(malicious.BASE.replace("CANARY", str(canary)))
    started = time.perf_counter()
    with pytest.raises(AnswerProblem) as refused:
        propose_text(read_answer(f"Here you are.\n```python\n{code}\n```\n"), base)
    assert time.perf_counter() - started < 30, "judging must not hang"
    assert not canary.exists()
    assert (tmp_path / "canary.keep").exists()
    assert str(refused.value)


@pytest.mark.parametrize("name", sorted(malicious.MISLED))
def test_what_the_allow_list_lets_pass_meets_the_gates_rules_about_source(name):
    after = propose_text(parse_block(malicious.MISLED[name]), original()).text
    broken = broken_rule(malicious.BASE, after, ["scale_plain"], ["x"])
    assert broken or dropped_masks(malicious.BASE, after)


def test_the_gates_rules_alone_refuse_most_of_what_the_allow_list_refuses():
    refused = {}
    for name, code in malicious.CASES.items():
        try:
            functions = {one.name: ast.unparse(one) for one in ast.parse(code).body if isinstance(one, ast.FunctionDef)}
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        tree = ast.parse(malicious.BASE)
        texts = [functions.pop(getattr(one, "name", ""), None) or ast.unparse(one) for one in tree.body]
        rest = [ast.unparse(one) for one in ast.parse(code).body if not isinstance(one, ast.FunctionDef)]
        after = "\n".join([*rest, *functions.values(), *texts])
        refused[name] = broken_rule(malicious.BASE, after, ["scale_plain"], ["x"])
    assert sum(bool(reason) for reason in refused.values()) >= 60, [n for n, r in refused.items() if not r]


def test_the_canaries_would_be_heard(tmp_path):
    """Run every case for real, in processes of their own with stand-ins for torch and triton."""
    driver = Path(__file__).with_name("sing.py")
    done = subprocess.run([sys.executable, driver, tmp_path], capture_output=True, text=True, check=True, timeout=240)
    heard = json.loads(done.stdout)
    assert set(heard) == set(CASES)
    harm = {name for name, what in heard.items() if what != "nothing"}
    assert len(harm) >= 40, heard
    assert set(heard.values()) >= {"canary", "hangs"}


def test_a_statement_of_the_original_may_stay_where_it_was():
    kept = malicious.host(
        'log.debug("scaling %s", name)\nif x.numel() == 0:\n    return x\ncommand = "true"\nrun_hook(command)\nm = x.numel()'
    )
    assert propose_text(parse_block(kept), original()).changed == ("scale_plain",)


def test_what_is_harmless_passes_so_that_the_refusals_say_something():
    for code in (malicious.kernel("pid2 = tl.program_id(0)"), malicious.host("m = x.numel()")):
        proposal = propose_text(parse_block(code), original())
        assert proposal.changed


CAUSAL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def mask_kernel(x_ptr, n, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    if CAUSAL:
        x = tl.where(offsets > 3, x, 0.0)
    tl.store(x_ptr + offsets, x, mask=offsets < n)


def mask(x, causal):
    mask_kernel[(triton.cdiv(x.numel(), 64),)](x, x.numel(), CAUSAL=causal, BLOCK=64)
"""


@pytest.mark.parametrize(("config", "refused"), [("'BLOCK': 64", False), ("'BLOCK': 64, 'CAUSAL': False", True)])
def test_a_config_chooses_how_and_never_what_is_computed(config, refused):
    kernel = CAUSAL[CAUSAL.index("@triton.jit") : CAUSAL.index("def mask(x")]
    decorated = f"@triton.autotune([triton.Config({{{config}}})], ['n'])\n{kernel}"
    if refused:
        with pytest.raises(AnswerProblem, match="lets a config choose CAUSAL, which says what is computed"):
            propose_text(parse_block(decorated), original(CAUSAL))
    else:
        assert propose_text(parse_block(decorated), original(CAUSAL)).changed == ("mask_kernel",)


def test_what_the_original_resets_and_names_in_its_own_letters_may_stay():
    tuned = "@triton.autotune([triton.Config({'BLOCK': 64})], ['n'], reset_to_zero=['x_ptr'])\n@triton.jit"
    text = CAUSAL.replace("@triton.jit", tuned).replace("offsets", "décalages")
    code = text[text.index("@triton.autotune") : text.index("def mask(x")].replace("'BLOCK': 64", "'BLOCK': 128")
    assert propose_text(parse_block(code), original(text)).changed == ("mask_kernel",)
