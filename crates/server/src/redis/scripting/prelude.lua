-- Builds the environment of scripts from the standard libraries and the functions of the server.
-- Receives these functions, and returns the function that runs a script.
local native = ...
local error, getmetatable, ipairs, loadstring, next, pcall = error, getmetatable, ipairs, loadstring, next, pcall
local rawset, setfenv, setmetatable, tostring, type = rawset, setfenv, setmetatable, tostring, type
local collectgarbage, string_byte, table_concat, xpcall = collectgarbage, string.byte, table.concat, xpcall

local READONLY = 'Attempt to modify a readonly table'
local protected = setmetatable({}, { __mode = 'k' })
local base, environment = {}, nil

-- A script cannot change what other scripts use.
local function readonly(library)
  local proxy = setmetatable({}, {
    __index = library,
    __newindex = function() error(READONLY, 2) end,
    __metatable = false,
  })
  protected[proxy] = true
  return proxy
end

-- A script that is being ended cannot catch the error that ends it.
local function unless_ending(...)
  if native.is_ending() then error('the script is being ended', 0) end
  return ...
end

-- Errors of the server's functions become texts, as scripts expect.
local function caught(is_ok, failure, ...)
  if not is_ok and type(failure) == 'userdata' then return false, native.message(failure) end
  return is_ok, failure, ...
end

-- As in Redis, pcall returns the text of an error reply.
local function caught_reply(is_ok, failure, ...)
  if not is_ok and type(failure) == 'table' and type(failure.err) == 'string' then return false, failure.err end
  return caught(is_ok, failure, ...)
end

for _, name in ipairs({
  'assert', 'error', 'getmetatable', 'ipairs', 'next', 'pairs', 'rawequal', 'rawget', 'select', 'setmetatable',
  'tonumber', 'tostring', 'type', 'unpack', '_VERSION',
}) do
  base[name] = _G[name]
end
function base.pcall(...) return caught_reply(unless_ending(pcall(...))) end
function base.xpcall(f, handler) return caught(unless_ending(xpcall(f, handler))) end
function base.rawset(t, k, v)
  if protected[t] then error(READONLY, 2) end
  return rawset(t, k, v)
end
function base.loadstring(text, name)
  if type(text) ~= 'string' or string_byte(text) == 27 then return nil, 'only source text can be loaded' end
  local f, why = loadstring(text, name)
  if f then setfenv(f, environment) end
  return f, why
end
function base.load(reader, name)
  local parts = {}
  while true do
    local part = reader()
    if part == nil or part == '' then break end
    parts[#parts + 1] = part
  end
  return base.loadstring(table_concat(parts), name)
end
function base.collectgarbage(option)
  if option == 'count' then return collectgarbage('count') end
  return 0
end
base.gcinfo = function() return collectgarbage('count') end

string.dump = nil
getmetatable('').__metatable = false
math.random, math.randomseed = native.random, native.randomseed
for name, library in next, {
  string = string, table = table, math = math, coroutine = coroutine, os = { clock = native.clock },
  bit = native.bit, cjson = native.cjson, cmsgpack = native.cmsgpack, struct = native.struct,
} do
  base[name] = readonly(library)
end

local redis = native.redis
function redis.call(...)
  local value, has_failed = native.call(...)
  unless_ending()
  if has_failed then error(value, 0) end
  return value
end
function redis.pcall(...)
  local value = native.call(...)
  return unless_ending(value)
end
base.redis = readonly(redis)
base.server = base.redis

local globals = {
  __index = function(_, name)
    local value = base[name]
    if value == nil then
      error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end
    return value
  end,
  __newindex = function() error(READONLY, 2) end,
  __metatable = false,
}

return function(f, keys, arguments)
  environment = setmetatable({ KEYS = keys, ARGV = arguments }, globals)
  rawset(environment, '_G', environment)
  protected[environment] = true
  setfenv(f, environment)
  return pcall(f)
end
