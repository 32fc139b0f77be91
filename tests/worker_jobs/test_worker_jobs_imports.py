"""What a lane imports while it works: every lane pays for it again, and a machine may have a hundred of them."""

import subprocess
import sys
import textwrap

HEAVY = ("torch._dynamo", "sympy", "triton.experimental.gluon.language")


def left_after(work: str) -> list[str]:
    """Prepare a process as lanes that interpret are, run `work` there, and return which heavy modules came by it."""
    script = [
        "import sys",
        "from tritonforge.worker.handlers import prepare",
        "prepare('interpret')",
        "before = set(sys.modules)",
        "import torch",
        textwrap.dedent(work),
        f"print(*[one for one in {HEAVY} if one in sys.modules and one not in before])",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_watching_a_host_function_does_not_import_the_compiler_of_torch():
    work = """
        from tritonforge.worker.host_operations import watching_host
        x = torch.ones(4)
        with watching_host({"x": x}, []) as seen:
            y = torch.empty_like(x).copy_(x) + 1
        assert seen.operations["add"] == 1, seen.operations
    """
    assert left_after(work) == []


def test_saying_where_outputs_differ_imports_no_algebra_system():
    work = """
        from tritonforge.domain.messages import Tolerance
        from tritonforge.worker.judging import Judgement
        from tritonforge.worker import outcomes
        found = Judgement(where=7, count=1)
        said = outcomes._said("out", (3, 4), found, (1.0, 2.0), Tolerance())
        assert said.difference.index == (1, 3), said
    """
    assert left_after(work) == []
