"""What an editor shows from the source alone, before anything was compiled."""

import re
from pathlib import Path

import pytest
from lsp_client import LspError, capabilities

from tritonforge.lsp import names
from tritonforge.lsp.code_actions import MENDED
from tritonforge.lsp.hover import _plain
from tritonforge.rewrite.mends import CODES

EXTENSION = Path(__file__).parents[2] / "vscode-extension" / "src"
EMOJI = """\
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK); "🚀é"; a = tl.load(x + offs, mask=offs < n); tl.store(out, tl.sum(a))
"""


def one(found, code):
    (diagnostic,) = [d for d in found if d["code"] == code]
    return diagnostic


def test_findings_of_the_source_are_pulled_before_anything_is_compiled(start):
    client = start()
    uri = client.open("matmul.py")
    report = client.pull(uri)
    assert report["kind"] == "full"
    found = one(report["items"], "TF203")
    assert found["source"] == "TritonForge"
    assert found["message"].startswith("tile-too-small: Each program computes a 32×32 tile")
    assert found["severity"] == 4
    assert found["range"]["start"]["line"] == 32
    assert len(client.processes()) == 1  # no worker


def test_an_unchanged_document_is_answered_without_repeating_it(start):
    client = start()
    uri = client.open("matmul.py")
    first = client.pull(uri)
    again = client.pull(uri, first["resultId"])
    assert again == {"kind": "unchanged", "resultId": first["resultId"]}
    client.change(uri, client.texts[uri] + "\n")
    assert client.pull(uri, first["resultId"])["kind"] == "full"


def test_a_client_that_cannot_pull_gets_them_pushed_on_opening_and_after_an_edit(start):
    client = start(capabilities=capabilities(textDocument__diagnostic=None))
    uri = client.open("matmul.py")

    def pushed(version, count):
        def is_it(method, params):
            return (
                method == "textDocument/publishDiagnostics"
                and params["uri"] == uri
                and params.get("version") == version
                and len(params["diagnostics"]) >= count
            )

        return client.wait(is_it, 20)["diagnostics"]

    assert one(pushed(1, 1), "TF203")
    client.change(uri, "\n\n" + client.texts[uri])
    assert one(pushed(2, 1), "TF203")["range"]["start"]["line"] == 34
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    client.wait(lambda m, p: m == "textDocument/publishDiagnostics" and p["diagnostics"] == [], 20)


def test_two_documents_are_kept_apart(start):
    client = start()
    first, second = client.open("matmul.py"), client.open("row_softmax.py")
    assert client.pull(first)["items"] != client.pull(second)["items"]
    client.change(second, "x = 1\n")
    assert client.pull(second)["items"] == []
    assert client.pull(first)["items"]


def test_a_half_typed_file_keeps_what_is_whole(start):
    client = start()
    uri = client.open("matmul.py")
    client.change(uri, client.texts[uri] + "\n\n@triton.jit\ndef broken(x,\n")
    assert one(client.pull(uri)["items"], "TF203")
    assert client.lenses(uri)


@pytest.mark.parametrize(
    ("said", "encoding", "size"),
    [(["utf-16"], "utf-16", lambda s: len(s.encode("utf-16-le")) // 2), (["utf-8"], "utf-8", lambda s: len(s.encode())),
     (["utf-32", "utf-16"], "utf-32", len), (None, "utf-16", lambda s: len(s.encode("utf-16-le")) // 2)],
)  # fmt: skip
def test_columns_after_an_emoji_are_counted_as_was_agreed(start, said, encoding, size):
    client = start(initialize=False, capabilities=capabilities(general__positionEncodings=said))
    assert client.initialize()["positionEncoding"] == encoding
    uri = client.open("emoji.py", EMOJI)
    line = EMOJI.splitlines()[6]
    found = one(client.pull(uri)["items"], "TF502")
    start_, end = found["range"]["start"], found["range"]["end"]
    assert start_ == {"line": 6, "character": size(line[: line.index("tl.load")])}
    assert end == {"line": 6, "character": size(line[: line.index("; tl.store")])}
    ignore = next(a for a in client.actions(uri, 6, [found]) if a["title"].startswith("Ignore"))
    (edit,) = ignore["edit"]["documentChanges"][0]["edits"]
    assert edit["range"]["start"] == {"line": 6, "character": size(line)}
    mend = next(a for a in client.actions(uri, 6, [found]) if a["title"].startswith("Mend TF502: other="))
    assert mend["title"].endswith("(changes what is computed)")
    assert mend["kind"] == "quickfix"
    client.apply(mend["edit"])
    assert [d for d in client.pull(uri)["items"] if d["code"] == "TF502"] == []


def test_every_finding_that_has_mends_is_asked_for_them():
    assert MENDED == CODES  # written down twice: what makes them is loaded when the first is asked for


def test_a_suppression_comment_silences_its_line(start):
    client = start()
    uri = client.open("matmul.py")
    found = one(client.pull(uri)["items"], "TF203")
    ignore = next(a for a in client.actions(uri, 32, [found]) if a["title"] == "Ignore TF203 on this line")
    client.apply(ignore["edit"])
    assert [d for d in client.pull(uri)["items"] if d["code"] == "TF203"] == []


def test_settings_choose_what_is_shown_and_are_read_again_when_they_change(start, folder):
    client = start({"settings": {"ignore": ["TF4"]}})
    uri = client.open("matmul.py")
    first = client.pull(uri)
    assert {d["code"] for d in first["items"]} == {"TF203"}
    (folder / "tritonforge.toml").write_text('select = ["TF1"]\n')
    assert client.pull(uri, first["resultId"])["items"] == []


def test_a_wrong_setting_is_said_once_and_the_default_used(start, folder):
    (folder / "tritonforge.toml").write_text("default-target = 3\nselekt = []\n")
    client = start({"trusted": True, "target": 7, "settings": {"ignor": ["TF4"]}})
    uri = client.open("matmul.py")
    for _ in range(3):
        assert client.pull(uri)["items"]
        client.change(uri, client.texts[uri] + "\n")
    # What stands in a file comes with a button that leads there.
    client.until(lambda: len(client.all("window/showMessageRequest")) == 2)
    asked = client.all("window/showMessageRequest")
    assert all(p["type"] == 2 and [a["title"] for a in p["actions"]] == ["Open Settings"] for p in asked)
    said = [*client.messages(), *(p["message"] for p in asked)]
    for wanted in ("tritonforge.toml:1", "Did you mean 'select'?", "Did you mean 'ignore'?", "target must be a name"):
        assert len([m for m in said if wanted in m]) == 1, said


def test_the_button_of_a_wrong_setting_leads_to_its_line(start, folder):
    (folder / "tritonforge.toml").write_text("ignore = []\nselekt = []\n")
    client = start()
    client.answers |= {
        "window/showMessageRequest": lambda params: params["actions"][0],
        "window/showDocument": {"success": True},
    }
    client.pull(client.open("matmul.py"))
    shown = client.wait(lambda m, p: m == "window/showDocument")
    assert shown["uri"] == client.uri("tritonforge.toml")
    assert shown["selection"]["start"] == {"line": 1, "character": 0}


def test_a_client_that_shows_plain_text_only_gets_that(start):
    client = start(capabilities=capabilities(textDocument__hover__contentFormat=["plaintext"]))
    uri = client.open("matmul.py")
    about = {"textDocument": {"uri": uri}, "position": {"line": 11, "character": 8}}
    assert client.request("textDocument/hover", about)["contents"]["kind"] == "plaintext"
    assert "matmul_kernel: 1 loop, 2 loads, 1 store" in client.hover(uri, 11, 8)
    finding = client.hover(uri, 32, 20)
    assert finding.startswith("TF203 tile-too-small: ")
    assert ", source\n" in f"{finding}\n"
    assert not set("|*`") & set(finding)


def test_hover_on_the_name_shows_the_shape_of_the_kernel_where_defined_and_where_launched(start):
    client = start()
    uri = client.open("matmul.py")
    text = client.hover(uri, 11, 8)
    assert "**matmul\\_kernel**: 1 loop, 2 loads, 1 store, 1 dot, 1 launch site" in text
    assert client.hover(uri, 48, 8) == text
    assert client.hover(uri, 3, 0) is None


def test_hover_on_a_finding_shows_its_evidence_with_provenance(start):
    client = start()
    uri = client.open("matmul.py")
    text = client.hover(uri, 32, 20)
    assert text.startswith("**TF203 tile-too-small**: ")
    assert "| source |" in text


def test_a_lens_offers_profile_and_optimize_above_the_decorator(start):
    client = start()
    uri = client.open("matmul.py")
    lenses = client.lenses(uri)
    assert [lens["command"]["title"] for lens in lenses] == ["TritonForge: Profile", "Optimize"]
    assert {lens["range"]["start"]["line"] for lens in lenses} == {10}
    assert lenses[1]["command"]["arguments"] == [{"uri": uri, "kernel": "matmul_kernel"}]


def test_actions_are_offered_in_the_kernel_and_at_its_launch_and_nowhere_else(start):
    client = start()
    uri = client.open("matmul.py")
    for line in (15, 48):
        assert [a["title"] for a in client.actions(uri, line, only=["refactor"])] == ["Optimize kernel matmul_kernel"]
    assert client.actions(uri, 2) == []
    assert client.actions(uri, 15, only=["source"]) == []


def test_a_quick_fix_is_tied_to_its_diagnostic(start):
    client = start()
    uri = client.open("matmul.py")
    found = one(client.pull(uri)["items"], "TF203")
    fixes = client.actions(uri, 32, [found], only=["quickfix"])
    assert [f["title"] for f in fixes] == ["Optimize kernel matmul_kernel to treat TF203", "Ignore TF203 on this line"]
    assert all(f["diagnostics"] == [found] for f in fixes)


def test_an_untrusted_workspace_is_analysed_and_nothing_else(start):
    client = start({"trusted": False})
    uri = client.open("matmul.py")
    assert client.pull(uri)["items"]
    assert client.lenses(uri) == []
    assert client.actions(uri, 15) == []
    for name in ("optimizeKernel", "profileKernel", "recordLaunches"):
        with pytest.raises(LspError, match="not trusted"):
            client.command(name, uri=uri, kernel="matmul_kernel", allowRun=True)
    assert len(client.processes()) == 1
    client.notify("workspace/didChangeConfiguration", {"settings": {"tritonforge": {"trusted": True}}})
    assert client.lenses(uri)


def test_trust_that_is_no_bool_is_no_trust(start):
    client = start({"trusted": "yes"})
    assert client.lenses(client.open("matmul.py")) == []


def test_an_untitled_document_is_analysed(start):
    client = start()
    uri = client.open("untitled:Untitled-1", EMOJI)
    assert client.pull(uri)["items"]
    with pytest.raises(LspError, match="Save it"):
        client.command("optimizeKernel", uri=uri, kernel="kernel")


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ({}, "needs a text called 'uri'"),
        ({"uri": "file:///nowhere.py"}, "not open"),
        ({"kernel": "nothing"}, "defines no kernel 'nothing'"),
        ({"kernel": 3}, "needs a text called 'kernel'"),
    ],
)
def test_wrong_arguments_are_answered_with_a_sentence(start, argument, sentence):
    client = start()
    uri = client.open("matmul.py")
    if "kernel" in argument:
        argument = {"uri": uri, **argument}
    with pytest.raises(LspError, match=sentence) as error:
        client.command("optimizeKernel", **argument)
    assert error.value.code == -32602


def test_the_target_can_be_asked_for_and_chosen(start):
    client = start()
    client.open("matmul.py")
    said = client.command("selectTarget")
    assert (said["target"], said["targets"]) == ("auto", ["auto", "offline", "local"])
    assert said["details"].keys() == set(said["targets"])
    assert client.command("selectTarget", target="offline")["target"] == "offline"
    with pytest.raises(LspError, match="no target 'moon'"):
        client.command("selectTarget", target="moon")


def test_a_first_launch_spec_is_written_above_the_kernel(start):
    client = start()
    uri = client.open("matmul.py")
    client.command("writeLaunchSpec", uri=uri, position={"line": 20, "character": 0})
    client.until(lambda: "# tritonforge: launch" in client.texts[uri])
    lines = client.texts[uri].splitlines()
    spec = lines.index("# tritonforge: launch a=fp16[M, K] b=fp16[K, N] M=4096 K=4096 N=4096")
    assert lines[spec + 1] == "def matmul(a, b):"
    assert not [d for d in client.pull(uri)["items"] if d["code"] == "launch-spec"]


def test_a_wrong_launch_spec_is_marked_at_the_word_that_is_wrong(start):
    client = start()
    uri = client.open("matmul.py")
    text = f"# tritonforge: launch a=fp16[M, K] b=fp61[K, M] K=8\n#   M=4 c='é🚀'\n{client.texts[uri]}"
    client.change(
        uri, text.replace("def matmul(", "# tritonforge: launch a=fp16[M, K] b=fp61[K, M]\n#   M=4 K=8\ndef matmul(")
    )
    found = [d for d in client.pull(uri)["items"] if d["code"] == "launch-spec"]
    texts = client.texts[uri].splitlines()
    marked = [
        texts[d["range"]["start"]["line"]][d["range"]["start"]["character"] : d["range"]["end"]["character"]]
        for d in found
    ]
    assert marked == ["a", "fp61"]
    assert found[1]["message"] == "launch-spec: unknown dtype 'fp61'. Did you mean 'fp64'?"
    assert [d["severity"] for d in found] == [1, 1]
    client.change(uri, f"# tritonforge: lunch a=fp16[M]\n{text}")
    (found,) = [d for d in client.pull(uri)["items"] if d["code"] == "comment-without-effect"]
    assert found["message"] == "comment-without-effect: 'lunch' is no directive. Did you mean 'launch'?"
    assert (found["severity"], found["range"]["start"]["character"], found["range"]["end"]["character"]) == (2, 15, 20)


def test_unknown_values_in_the_clients_capabilities_are_survived(start):
    said = capabilities(
        general__positionEncodings=["utf-7", "utf-16"],
        textDocument__documentSymbol__symbolKind={"valueSet": [1, 99]},
        textDocument__completion__completionItem__documentationFormat=["html", "markdown"],
        textDocument__publishDiagnostics__tagSupport={"valueSet": [1, 9]},
        workspace__workspaceEdit__failureHandling="hope",
        window__telepathy=True,
    )
    client = start(initialize=False, capabilities=said)
    assert client.start(trace="shouting")["serverInfo"]["name"] == "tritonforge"
    uri = client.open("matmul.py")
    assert client.pull(uri)["kind"] == "full"


def test_parameters_that_cannot_be_read_are_answered_with_an_error(start):
    client = start()
    with pytest.raises(LspError) as error:
        client.request("textDocument/hover", {"textDocument": 3})
    assert error.value.code == -32602
    with pytest.raises(LspError) as error:
        client.request("textDocument/telepathy", {})
    assert error.value.code == -32601
    assert client.pull(client.open("matmul.py"))["items"]


def test_the_extension_has_every_command_that_a_lens_or_an_action_may_carry():
    commands = (EXTENSION / "commands.ts").read_text()
    listed = re.findall(r'^ *"(tritonforge\.\w+)",$', commands, re.MULTILINE)
    own = re.findall(r'registerCommand\("(tritonforge\.\w+)"', (EXTENSION / "report" / "reports.ts").read_text())
    assert sorted([*listed, *own]) == sorted(names.ALL)


def test_what_a_source_or_a_model_wrote_is_no_link_and_no_picture_in_a_hover():
    assert _plain("![x](https://a/?q) _b_ `c` <i>") == r"![x]\(https://a/?q) \_b\_ \`c\` &lt;i>"
