-- SPDX-License-Identifier: MIT OR Apache-2.0
-- tardy's test frames in Wireshark and tshark: the head of each packet of a stream, and of a capture
-- that `tardy export --to pcapng` wrote also the packet's stamps, from its comment.
--
--   tshark -X lua_script:tardy.lua -r capture.pcapng
--   cp tardy.lua ~/.local/lib/wireshark/plugins/      (for Wireshark: Help, About, Folders names it)
--
-- A frame is recognized by its magic number, behind EtherType 0x88b5 and in any UDP packet. For a
-- stream of another EtherType use "Decode As", field "Ethertype".

local MAGIC = 0x74647902
local HEAD = 24

local tardy = Proto("tardy", "tardy test frame")
local kinds = { [1] = "test", [2] = "warm-up", [3] = "reply", [4] = "reply to warm-up" }
local numbers = { [0xffffffff] = "probe", [0xfffffffe] = "lead", [0xfffffffd] = "pause" }

local f = {
  kind = ProtoField.uint8("tardy.kind", "Kind", base.DEC, kinds, 0x7f),
  mark = ProtoField.bool("tardy.mark", "Synchronisation frame", 8, nil, 0x80),
  stream = ProtoField.uint8("tardy.stream", "Stream"),
  size = ProtoField.uint16("tardy.size", "Payload bytes sent"),
  nonce = ProtoField.uint64("tardy.nonce", "Nonce of the trial", base.HEX),
  seq = ProtoField.uint32("tardy.seq", "Number in the trial", base.DEC),
  check = ProtoField.uint32("tardy.check", "Check", base.HEX),
  valid = ProtoField.bool("tardy.check.valid", "The check fits the head"),
  scheduled = ProtoField.int64("tardy.scheduled", "Scheduled instant, ns TAI since 1970"),
}
-- Stamps, ns after the scheduled instant.
local points = { "wakeup", "send", "tx_sched", "tx_kernel", "tx_hw", "rx_hw", "rx_xdp", "rx_kernel", "receive",
  "reply_send", "reply_tx_sched", "reply_tx_kernel", "reply_rx_kernel", "reply_receive" }
local stamps = {}
for _, point in ipairs(points) do
  stamps[point] = ProtoField.int64("tardy.stamp." .. point, "Stamp " .. point .. ", ns after scheduled")
end

tardy.fields = {}
for _, field in pairs(f) do table.insert(tardy.fields, field) end
for _, field in pairs(stamps) do table.insert(tardy.fields, field) end

local damaged = ProtoExpert.new("tardy.damaged", "The check does not fit: the head was damaged on its way",
  expert.group.CHECKSUM, expert.severity.ERROR)
local truncated = ProtoExpert.new("tardy.truncated", "The packet is shorter than it was sent",
  expert.group.MALFORMED, expert.severity.WARN)
tardy.experts = { damaged, truncated }

local comment = Field.new("frame.comment")

-- The check is a hash of the head's words: see crates/model/src/frame.rs.
local FACTOR = UInt64.new(0x7f4a7c15, 0x9e3779b9)
local function mix(hash, word)
  hash = hash:bxor(word) * FACTOR
  return hash:bxor(hash:rshift(32))
end
local function check_of(tvb)
  local seq = UInt64.new(tvb(16, 4):uint(), 0)
  local hash = mix(mix(mix(UInt64.new(0, 0), tvb(0, 8):uint64()), tvb(8, 8):uint64()), seq)
  return hash:bxor(hash:rshift(32)):lower()
end

-- What the exported capture's comment has of the packet's stamps.
local function add_stamps(tree)
  local found = comment()
  local pairs_of = found and tostring(found.value):match("; ns after (scheduled=.*)$")
  if not pairs_of then return end
  for name, value in pairs_of:gmatch("([%a_]+)=(%-?%d+)") do
    local field = name == "scheduled" and f.scheduled or stamps[name]
    if field then tree:add(field, Int64(value)):set_generated() end
  end
end

function tardy.dissector(tvb, pinfo, tree)
  if tvb:len() < HEAD or tvb(0, 4):uint() ~= MAGIC then return 0 end
  local kind, number = tvb(4, 1):uint() % 128, tvb(16, 4):uint()
  pinfo.cols.protocol = "tardy"
  pinfo.cols.info = string.format("%s, stream %d, number %s", kinds[kind] or ("kind " .. kind), tvb(5, 1):uint(),
    numbers[number] or number)
  local head = tree:add(tardy, tvb(0, HEAD))
  head:add(f.mark, tvb(4, 1))
  head:add(f.kind, tvb(4, 1))
  head:add(f.stream, tvb(5, 1))
  head:add(f.size, tvb(6, 2))
  head:add(f.nonce, tvb(8, 8))
  local seq = head:add(f.seq, tvb(16, 4))
  if numbers[number] then seq:append_text(" (" .. numbers[number] .. ")") end
  head:add(f.check, tvb(20, 4))
  local fits = check_of(tvb) == tvb(20, 4):uint()
  head:add(f.valid, tvb(20, 4), fits):set_generated()
  if not fits then head:add_proto_expert_info(damaged) end
  -- A device fills short frames up, so longer is no fault.
  if tvb:reported_len() < tvb(6, 2):uint() then head:add_proto_expert_info(truncated) end
  add_stamps(head)
  return HEAD
end

local function by_magic(tvb, pinfo, tree)
  if tvb:len() < HEAD or tvb(0, 4):uint() ~= MAGIC then return false end
  tardy.dissector(tvb, pinfo, tree)
  return true
end

tardy:register_heuristic("udp", by_magic)
DissectorTable.get("ethertype"):add(0x88b5, tardy)
