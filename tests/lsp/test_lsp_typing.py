"""Key after key into a file with kernels, the server answers what it would answer for a file that is opened anew."""

import ast
import asyncio

from in_process import InProcess

KERNEL = '''\
@triton.jit
def kernel_{n}(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Double it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for k in range(0, n):
        tl.store(o_ptr + i, tl.load(x_ptr + i) * SCALE / tl.sum(i))


def run_{n}(x, o):
    grid = (triton.cdiv(x.numel(), 48),)
    kernel_{n}[grid](x, o, x.numel(), BLOCK=48)
'''
FILE = "import triton\nimport triton.language as tl\n\nSCALE = 2\n\n\n" + "\n\n".join(
    KERNEL.format(n=n) for n in range(4)
)
TYPED = KERNEL.format(n="λ")


class Editor:
    """A document of a server, typed into at one place, and what the server says of it."""

    def __init__(self, server, uri, text):
        self.server, self.uri, self.text, self.version = server, uri, text, 1
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        server.notify("textDocument/didOpen", {"textDocument": document})

    def replace(self, start, end, by):
        places = [self._place(start), self._place(end)]
        self.text = self.text[:start] + by + self.text[end:]
        self.version += 1
        change = {"range": dict(zip(("start", "end"), places, strict=True)), "text": by}
        about = {"uri": self.uri, "version": self.version}
        self.server.notify("textDocument/didChange", {"textDocument": about, "contentChanges": [change]})

    def _place(self, at):
        line = self.text.rfind("\n", 0, at) + 1
        return {"line": self.text.count("\n", 0, at), "character": len(self.text[line:at].encode("utf-16-le")) // 2}

    def answers(self):
        about = {"textDocument": {"uri": self.uri}}
        found = self.server.request("textDocument/diagnostic", about)["items"]
        lenses = self.server.request("textDocument/codeLens", about)
        for command in (lens["command"] for lens in lenses):
            for argument in command.get("arguments") or ():
                assert argument.pop("uri") == self.uri
        return found, lenses


def typing(folder, put, check):
    """Type `TYPED` in front of `put`, take it out again line by line, and `check` after every key."""

    async def run():
        server = InProcess(folder, options={"target": "offline"})
        editor = Editor(server, (folder / "typed.py").as_uri(), FILE)
        try:
            at = begun = FILE.index(put)
            editor.replace(at, at, "\n\n")
            for char in TYPED:
                editor.replace(at, at, char)
                at += 1
                check(server, editor, at - begun)
            at += 2
            while at > begun:
                end = editor.text.index("\n", begun) + 1
                editor.replace(begun, end, "")
                at -= end - begun
                check(server, editor, at - begun)
            assert editor.text == FILE
        finally:
            await server.close()

    asyncio.run(run())


def test_each_answer_is_that_of_a_file_opened_anew(tmp_path):
    compared = []

    def check(server, editor, key):
        answers = editor.answers()
        try:
            ast.parse(editor.text)
        except SyntaxError:
            return
        anew = Editor(server, (tmp_path / f"anew_{editor.version}.py").as_uri(), editor.text)
        assert answers == anew.answers(), editor.text
        server.notify("textDocument/didClose", {"textDocument": {"uri": anew.uri}})
        compared.append(key)

    typing(tmp_path, "def run_1", check)
    assert len(compared) > 20
