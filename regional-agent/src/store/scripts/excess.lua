-- What was used beyond limits because nobody could know in time: the same as excess.rs of the limiter.
--
-- A field of the record, with a line for each budget: its name, how many spans there were before its latest, what was
-- settled beyond estimates in that and in the one before, and slots that ended without being given back, likewise.

-- Adds to what was settled beyond an estimate and was not there, and to slots that ended.
local function note_excess(key, settled, outlived)
  if settled == 0 and outlived == 0 then
    return
  end
  local span, name = down(now / EXCESS_SPAN), string.match(key, ':bucket:(.*)$')
  local lines, place = {}, {}
  for line in string.gmatch(redis.call('HGET', lease, 'excess') or '', '[^\n]+') do
    local of, its, s, before_s, o, before_o = string.match(line, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    its = tonumber(its)
    if its == span - 1 then
      its, s, before_s, o, before_o = span, 0, s, 0, o
    end
    if its >= span then
      lines[#lines + 1] = {of, its, tonumber(s), tonumber(before_s), tonumber(o), tonumber(before_o)}
      place[of] = #lines
    end
  end
  if #lines >= MOST_EXCESSES and not place[name] then
    name = string.match(name, '^(.*):') .. ':*'
  end
  local at = place[name] or #lines + 1
  local line = lines[at] or {name, span, 0, 0, 0, 0}
  line[3], line[5] = exact(line[3] + settled), exact(line[5] + outlived)
  lines[at] = line
  local texts = {}
  for i, each in ipairs(lines) do
    texts[i] = string.format('%s %.0f %.0f %.0f %.0f %.0f', each[1], each[2], each[3], each[4], each[5], each[6])
  end
  redis.call('HSET', lease, 'excess', table.concat(texts, '\n'))
end
