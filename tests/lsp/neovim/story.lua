-- Run by test_lsp_neovim.py: nvim --headless -u NONE -i NONE -n -c "luafile story.lua" FILE
-- Attach, get diagnostics (pushed: Neovim 0.7 cannot pull), hover, optimise, apply. `cq!` makes a failure an exit code.
local function fail(message)
  io.stderr:write("FAILED: " .. tostring(message) .. "\n")
  vim.cmd("cq!")
end

local function expect(condition, message)
  if not condition then
    error(message, 2)
  end
end

local function story()
  local asked, ended
  vim.lsp.handlers["window/showMessageRequest"] = function(_, params)
    asked = (asked or "") .. params.message
    for _, action in ipairs(params.actions or {}) do
      if action.title == "Run" then
        return action
      end
    end
    return vim.NIL
  end
  vim.lsp.handlers["$/progress"] = function(_, params)
    if params.value.kind == "end" then
      ended = params.value.message
    end
  end
  vim.lsp.handlers["window/workDoneProgress/create"] = function()
    return vim.NIL
  end

  local buffer = vim.api.nvim_get_current_buf()
  local uri = vim.uri_from_bufnr(buffer)
  local id = vim.lsp.start_client({
    name = "tritonforge",
    cmd = { os.getenv("TRITONFORGE_PYTHON"), "-m", "tritonforge", "serve", "--stdio" },
    root_dir = vim.fn.getcwd(),
    init_options = { target = "offline" },
  })
  expect(id, "the server does not start")
  expect(vim.lsp.buf_attach_client(buffer, id), "the buffer is not attached")
  local client = vim.lsp.get_client_by_id(id)

  expect(vim.wait(20000, function() return #vim.diagnostic.get(buffer) > 0 end, 50), "no diagnostics")
  local codes = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(buffer)) do
    expect(diagnostic.source == "TritonForge", "whose diagnostic is this? " .. vim.inspect(diagnostic))
    codes[diagnostic.user_data and diagnostic.user_data.lsp and diagnostic.user_data.lsp.code or diagnostic.code or "?"] = true
  end
  expect(codes.TF203, "no TF203 in " .. vim.inspect(codes))

  local document = { uri = uri }
  local hover = client.request_sync("textDocument/hover", { textDocument = document, position = { line = 11, character = 8 } }, 10000, buffer)
  expect(hover and hover.result and hover.result.contents.value:find("matmul"), "no hover: " .. vim.inspect(hover))

  local command = { command = "tritonforge.optimizeKernel", arguments = { { uri = uri, kernel = "matmul_kernel" } } }
  local answer = client.request_sync("workspace/executeCommand", command, 10000, buffer)
  expect(answer and answer.result and answer.result.jobId, "no job: " .. vim.inspect(answer))

  local actions
  local here = { line = 32, character = 0 }
  local where = { textDocument = document, range = { start = here, ["end"] = here }, context = { diagnostics = {}, only = { "refactor.rewrite" } } }
  local found = vim.wait(150000, function()
    local reply = client.request_sync("textDocument/codeAction", where, 10000, buffer)
    actions = reply and reply.result or {}
    return actions[1] ~= nil and actions[1].title:find("^Apply") ~= nil
  end, 500)
  expect(found, "no suggestion; asked: " .. vim.inspect(asked) .. ", actions: " .. vim.inspect(actions))
  expect(asked and asked:find("No launch of matmul_kernel is known"), "it ran code without a question")
  expect(vim.wait(5000, function() return ended ~= nil end, 50) and ended:find("verified on"), "progress did not end: " .. vim.inspect(ended))

  local action = actions[1]
  if not action.edit then
    action = client.request_sync("codeAction/resolve", action, 10000, buffer).result
  end
  expect(action.edit, "the action has no edit: " .. vim.inspect(action))
  vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
  local text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
  expect(not text:find("BLOCK_M=32", 1, true), "the buffer has not changed")
  expect(text:find("num_warps=", 1, true), "the options are not there")
  vim.cmd("silent write")

  vim.lsp.stop_client(id)
  expect(vim.wait(10000, function() return vim.lsp.get_client_by_id(id) == nil end, 50), "the server did not stop")
end

local ok, problem = xpcall(story, debug.traceback)
if not ok then
  fail(problem)
else
  vim.cmd("qall!")
end
