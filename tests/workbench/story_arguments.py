"""What the driver of the workbench is started with."""

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
VSIX = ROOT / "vscode-extension" / "tritonforge-0.1.0.vsix"
INSTALLATION = Path(
    os.environ.get("TRITONFORGE_WORKBENCH") or Path.home() / ".cache" / "tritonforge" / "workbench"
).expanduser()
SECONDS = 420
"""For all stories together, on a machine that is busy with other tests."""
# The environment of this test has the server already; the last story has the extension make its own.
MACHINE_SETTINGS = {"tritonforge.interpreter": sys.executable, "tritonforge.importStrategy": "fromEnvironment"}
USER_SETTINGS = {
    "tritonforge.target": "offline",
    # A clean picture, and nothing that talks to the network.
    "editor.hover.above": False,
    "editor.minimap.enabled": False,
    "editor.unicodeHighlight.ambiguousCharacters": False,
    "editor.occurrencesHighlight": "off",
    "files.autoSave": "off",
    "remote.autoForwardPorts": False,
    "security.workspace.trust.startupPrompt": "never",
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "workbench.activityBar.location": "hidden",
    "workbench.editor.useModal": "off",
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "chat.commandCenter.enabled": False,
    "chat.disableAIFeatures": True,
    "git.enabled": False,
}
NOTEBOOK = "scale.ipynb"
CELLS = (
    "import torch\nimport triton\nimport triton.language as tl",
    """\
@triton.jit
def scale_kernel(x_ptr, o_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(o_ptr + at, factor * x, mask=at < n)""",
    """\
def scale(x, factor=2.0):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), factor, BLOCK=64)
    return out""",
    'scale(torch.ones(1 << 20, device="cuda"))',
)


def browser():
    named = os.environ.get("TRITONFORGE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def arguments(folder, home, screenshots):
    """What `driver/main.mjs` takes; writes the notebook that the stories open into the folder."""
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(True)}
        for text in CELLS
    ]
    metadata = {"language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (folder / NOTEBOOK).write_text(json.dumps(notebook), encoding="utf-8")
    return {
        "installation": str(INSTALLATION),
        "chromium": browser(),
        "home": str(home),
        "vsix": str(VSIX),
        "settings": {"machine": MACHINE_SETTINGS, "user": USER_SETTINGS},
        "folder": str(folder),
        "file": "matmul.py",
        "notebook": NOTEBOOK,
        "screenshots": str(screenshots),
        "seconds": SECONDS,
    }
