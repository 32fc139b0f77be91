"""Settings: what is read, what is refused, and with which sentence."""

from pathlib import Path

import pytest

from tritonforge.config import AUTO, LOCAL, OFFLINE, load, resolve_target
from tritonforge.config.settings import SendingSettings
from tritonforge.domain.errors import UsageError
from tritonforge.domain.messages import Limits
from tritonforge.domain.target import Target

EVERYTHING = """\
default-target = "lab"
select = ["TF", "TF203"]
ignore = ["TF2"]

[targets.offline]
arch = "sm_100"
gpu = "NVIDIA B200"

[targets.lab]
command = ["ssh", "-T", "gpu1"]
python = "~/venv/bin/python"

[targets.laptop-container]
command = ["docker", "run", "-i", "--rm", "some/image-with-triton"]
arch = "gfx942"

[llm]
model = "some-model"
base-url = "http://127.0.0.1:8000/v1"
max-rounds = 4

[sending]
file = "1 MiB"
files = 20

[limits]
seconds = 30
memory = "2 GiB"

[per-file-ignores]
"tests/*" = ["TF404"]

[[launch]]
file = "kernels/norm.py"
function = "layer_norm"
x = "fp16[4096, 1024]"

[[launch]]
file = "kernels/add.py"
kernel = "add_kernel"
grid = "cdiv(n, BLOCK)"
BLOCK = 1024
"""


def write(root: Path, text: str, name: str = "tritonforge.toml") -> Path:
    (root / name).write_text(text, encoding="utf-8")
    return root


def refusal(root: Path, text: str, name: str = "tritonforge.toml") -> str:
    with pytest.raises(UsageError) as caught:
        load(write(root, text, name), environment={})
    return str(caught.value)


def test_every_documented_key_arrives(tmp_path):
    settings = load(write(tmp_path, EVERYTHING), environment={})
    assert settings.source == "tritonforge.toml"
    assert settings.default_target == "lab"
    assert settings.targets["offline"] == Target(name="offline", arch="sm_100", gpu="NVIDIA B200")
    assert settings.targets["lab"] == Target(
        name="lab", command=("ssh", "-T", "gpu1"), python="~/venv/bin/python", quoting="shell"
    )
    assert settings.targets["laptop-container"].quoting == "none"
    assert settings.targets["local"] == LOCAL
    assert (settings.llm.model, settings.llm.base_url, settings.llm.max_rounds) == (
        "some-model",
        "http://127.0.0.1:8000/v1",
        4,
    )
    assert settings.limits == Limits(seconds=30.0, memory_bytes=2 << 30)
    assert settings.sending == SendingSettings(file_bytes=1 << 20, files=20)
    norm, add = settings.launches
    assert (norm.file, norm.function, norm.kernel, norm.line) == ("kernels/norm.py", "layer_norm", None, 33)
    assert norm.values == {"x": "fp16[4096, 1024]"}
    assert (add.kernel, add.line, add.values["BLOCK"]) == ("add_kernel", 38, 1024)
    assert settings.problems == ()


def test_without_a_file_the_defaults_hold(tmp_path):
    settings = load(tmp_path, environment={})
    assert settings.source is None
    assert settings.default_target == "auto"
    assert dict(settings.targets) == {"offline": OFFLINE, "local": LOCAL}
    assert not settings.llm.enabled
    assert settings.limits == Limits()


def test_pyproject_is_read_where_there_is_no_file_of_our_own(tmp_path):
    write(tmp_path, '[project]\nname = "x"\n\n[tool.tritonforge]\ndefault-target = "offline"\n', "pyproject.toml")
    settings = load(tmp_path, environment={})
    assert (settings.source, settings.default_target) == ("pyproject.toml", "offline")
    write(tmp_path, 'default-target = "local"\n')
    assert load(tmp_path, environment={}).default_target == "local"


def test_a_pyproject_without_our_table_is_nobodys_business(tmp_path):
    write(tmp_path, '[tool.other]\nkey = "x"\n', "pyproject.toml")
    assert load(tmp_path, environment={}).source is None


def test_an_unknown_key_names_its_line_and_the_key_that_was_meant(tmp_path):
    text = 'default-target = "lab"\n\n# the lab\n[targets.lab]\npython = "python3"\ncomand = ["ssh", "gpu1"]\n'
    assert refusal(tmp_path, text) == (
        "tritonforge.toml:6: unknown key 'comand' in [targets.lab]. Did you mean 'command'?"
    )


def test_lines_are_those_of_pyproject_too(tmp_path):
    text = '[project]\nname = "x"\n[tool.tritonforge.targets.lab]\narch = "volta"\n'
    assert refusal(tmp_path, text, "pyproject.toml") == (
        "pyproject.toml:4: 'arch' in [targets.lab] must be an architecture such as \"sm_90\" or \"gfx942\", not 'volta'."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 1\n", ":1: unknown key 'colour' in the top table. Known keys: default-target, ignore"),
        (
            "default_target = 'local'\n",
            ":1: unknown key 'default_target' in the top table. Did you mean 'default-target'?",
        ),
        ("default-target = 'lob'\n[targets.lab]\n", ":1: unknown target 'lob'. Did you mean 'lab'?"),
        ("default-target = 3\n", ":1: 'default-target' in the top table must be the name of a target, not 3."),
        ("[targets.lab]\n\ncommand = 'ssh gpu1'\n", ":3: 'command' in [targets.lab] must be a list of words"),
        ("[targets.lab]\ncommand = ['ssh', 3]\n", ":2: 'command' in [targets.lab] must be a list of words"),
        (
            "[targets.lab]\nquoting = 'bash'\n",
            """:2: 'quoting' in [targets.lab] must be "shell" or "none", not 'bash'.""",
        ),
        ("[targets]\nlab = 'ssh'\n", ":2: target 'lab' must be a table. Write it under [targets.lab]."),
        ("[targets.auto]\narch = 'sm_90'\n", ":1: 'auto' is no target of its own."),
        ("[llm]\nbase-url = 'localhost:8000'\n", ":2: 'base-url' in [llm] must be an http:// or https:// address"),
        ("[llm]\nmax-rounds = true\n", ":2: 'max-rounds' in [llm] must be a whole number from 1 to 1000, not True."),
        ("[llm]\napi-key = 'x'\n", ":2: unknown key 'api-key' in [llm]."),
        (
            "[sending]\nfile = '2 GiB'\n",
            ":2: 'file' in [sending] must be bytes, or a size such as \"64 MiB\", 1 GiB at most, not '2 GiB'.",
        ),
        ("[sending]\nfiles = 0\n", ":2: 'files' in [sending] must be a whole number of files from 1 up, not 0."),
        ("[sending]\nfiel = 1\n", ":2: unknown key 'fiel' in [sending]. Did you mean 'file'?"),
        ("[limits]\nseconds = -1\n", ":2: 'seconds' in [limits] must be a number of seconds above 0, not -1."),
        ("[limits]\nseconds = inf\n", ":2: 'seconds' in [limits] must be a number of seconds above 0, not inf."),
        (
            "[limits]\nmemory = 'lots'\n",
            ":2: 'memory' in [limits] must be bytes, or a size such as \"8 GiB\", not 'lots'.",
        ),
        (
            "select = ['E501']\n",
            ":1: 'select' in the top table: 'E501' is no rule's code. Did you mean TF501?",
        ),
        ("ignore = ['TF2', 'TF9x']\n", ":1: 'ignore' in the top table: 'TF9x' is no rule's code. Did you mean TF900?"),
        (
            "ignore = ['tile-too-small']\n",
            ":1: 'ignore' in the top table: 'tile-too-small' is a rule's name: write its code, TF203.",
        ),
        (
            "[per-file-ignores]\n'a.py' = ['TF3O4 until 2027-03-01']\n",
            ":1: 'per-file-ignores' in the top table: 'TF3O4' is no rule's code. Did you mean TF304?",
        ),
        ("[per-file-ignores]\n'a.py' = 'TF203'\n", ":1: 'per-file-ignores' in the top table must be a table from"),
        ("[launch]\nfile = 'a.py'\n", ":1: 'launch' in the top table must be an array of tables, [[launch]]"),
        ("[[launch]]\nkernel = 'k'\n", ":1: [[launch]] needs 'file'."),
        ("[[launch]]\nfile = 'a.py'\n", ":1: [[launch]] needs either 'kernel' or 'function'."),
        (
            "[[launch]]\nfile = 'a.py'\nkernel = 'k'\n\n[[launch]]\nfile = 'a.py'\nkernel = 'k'\nfunction = 'f'\n",
            ":5: [[launch]] needs either 'kernel' or 'function'.",
        ),
        ("[targets.lab\n", ":1: expected ']' at the end of a table declaration. The file is not valid TOML."),
        ("select = ['TF203'\n\n", ":2: unclosed array. The file is not valid TOML."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, text, expected):
    assert f"tritonforge.toml{expected}" in refusal(tmp_path, text)


def test_of_a_list_the_entry_that_is_wrong_is_named(tmp_path):
    said = refusal(tmp_path, "ignore = ['TF203', 'TF404 untl 2027-03-01']\n")
    assert said.endswith("2027-03-01\": 'TF404 untl 2027-03-01' is neither a code nor a code with a day.")
    assert "not a list" not in said


def test_a_file_that_is_not_utf8_names_the_line(tmp_path):
    (tmp_path / "tritonforge.toml").write_bytes(b"# fine\n# caf\xe9\n")
    with pytest.raises(UsageError, match=r"tritonforge\.toml:2: is not UTF-8"):
        load(tmp_path, environment={})


def test_a_byte_order_mark_is_forgiven(tmp_path):
    (tmp_path / "tritonforge.toml").write_bytes(b"\xef\xbb\xbfdefault-target = 'local'\n")
    assert load(tmp_path, environment={}).default_target == "local"


def test_an_editor_gets_every_problem_and_the_defaults(tmp_path):
    write(tmp_path, "default-target = 'nowhere'\nselect = ['x']\n[limits]\nseconds = 9\nmemory = 0\n")
    settings = load(tmp_path, strict=False, environment={})
    assert settings.default_target == "auto"
    assert settings.select == ("TF",)
    assert settings.limits == Limits(seconds=9.0)
    assert [p.line for p in settings.problems] == [2, 5, 1]
    assert str(settings.problems[2]).startswith("tritonforge.toml:1: unknown target 'nowhere'.")


def test_a_broken_file_leaves_an_editor_with_the_defaults(tmp_path):
    settings = load(write(tmp_path, "select = [\n"), strict=False, environment={})
    assert settings.targets["offline"] == OFFLINE
    assert len(settings.problems) == 1


def test_what_the_editor_says_wins_over_the_file(tmp_path):
    write(tmp_path, "default-target = 'offline'\n[targets.lab]\ncommand = ['ssh', 'a']\narch = 'sm_80'\n")
    overrides = {"default-target": "lab", "targets": {"lab": {"python": "/opt/python"}}, "limits": {"second": 3}}
    settings = load(tmp_path, strict=False, overrides=overrides, environment={})
    assert settings.default_target == "lab"
    assert settings.targets["lab"] == Target("lab", ("ssh", "a"), "/opt/python", "shell", "sm_80")
    assert [str(p) for p in settings.problems] == [
        "editor settings: unknown key 'second' in [limits]. Did you mean 'seconds'?"
    ]


def test_the_environment_names_a_model_and_fills_in_an_address(tmp_path):
    environment = {"TRITONFORGE_LLM_MODEL": "other", "OPENAI_BASE_URL": "http://elsewhere/v1"}
    assert load(tmp_path, environment=environment).llm.base_url == "http://elsewhere/v1"
    write(tmp_path, "[llm]\nmodel = 'a'\nbase-url = 'http://here/v1'\n")
    llm = load(tmp_path, environment=environment).llm
    assert (llm.model, llm.base_url) == ("other", "http://here/v1")


@pytest.mark.parametrize(
    ("code", "file", "wanted"),
    [
        ("TF203", "a.py", True),  # named in full, though its group is ignored
        ("TF207", "a.py", False),
        ("TF404", "a.py", True),
        ("TF404", "tests/deep/a.py", False),
    ],
)
def test_the_longest_prefix_decides_what_is_reported(tmp_path, code, file, wanted):
    assert load(write(tmp_path, EVERYTHING), environment={}).selects(code, file) is wanted


def test_an_ignored_code_stays_silent_with_the_default_selection(tmp_path):
    settings = load(write(tmp_path, "ignore = ['TF203']\n"), environment={})
    assert not settings.selects("TF203", "a.py")
    assert settings.selects("TF207", "a.py")


def test_targets_resolve_by_name_and_auto_is_left_to_the_caller(tmp_path):
    settings = load(write(tmp_path, EVERYTHING), environment={})
    assert resolve_target(settings).name == "lab"
    assert resolve_target(settings, "auto") is AUTO
    assert resolve_target(settings, "local") is settings.targets["local"]
    with pytest.raises(UsageError) as caught:
        resolve_target(settings, "lap")
    assert str(caught.value) == "unknown target 'lap'. Did you mean 'lab'?"
    with pytest.raises(UsageError, match="Known targets: auto, lab, laptop-container, local, offline"):
        resolve_target(settings, "zzz")


def test_the_documented_example_is_a_valid_configuration(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    settings = load(write(tmp_path, example), environment={})
    assert settings.targets["container"].arch == "sm_90"
    assert settings.limits == Limits()
    assert [(t.function, t.kernel) for t in settings.launches] == [("layer_norm", None), (None, "add_kernel")]
