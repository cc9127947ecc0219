-- What counts past use for a while: what its kinds have in common.

-- Until what nobody knows of counts no more: what was lost with a store (R7), and what budgets counted that
-- these took the place of. keep is how long past use counts.
local function quarantine(changed, keep)
  local unknown_until, change = lost_at, change_of(changed)
  if change and change.anew_at then
    unknown_until = max(unknown_until or 0, change.anew_at)
  end
  if not unknown_until then
    return 0
  end
  return max(0, exact(unknown_until - now + keep + 1))
end

-- What a region may have counting at once, its quarantine, and the place after the arguments: floor,
-- lendable, whole floor, lenders whose promise stands for this budget, keep. The asker knows the drain.
local function share_of(holding, changed, a, view)
  local keep = tonumber(ARGV[a + 4])
  local floor = {
    rate = 0, burst = tonumber(ARGV[a]), lendable_rate = 0, lendable_burst = tonumber(ARGV[a + 1]), period = keep,
  }
  local own = {leased = view.leased, whole = view.whole and ARGV[a + 2] == '1', standing = ARGV[a + 3], keep = 0}
  local terms = terms_of(holding_of(holding, floor), floor, own)
  return {
    entitlement = terms.burst, leased = terms.leased, keep = keep, quarantine = quarantine(changed, keep),
  }, a + 5
end

-- True if cost more may be taken; who only looks takes nothing. A sum that a double has rounded is beyond any
-- entitlement as it is.
local function share_fits(share, counted, cost)
  return cost == 0 or (share.quarantine == 0 and counted + cost <= share.entitlement)
end

-- How long a key is kept that matters for a span yet, in milliseconds.
local function share_life(span)
  return up(span / 1000) + GRACE / 1000
end

-- What is reported as counting while what was lost with a store may count yet: more than anything.
local UNKNOWN = '18446744073709551615'
