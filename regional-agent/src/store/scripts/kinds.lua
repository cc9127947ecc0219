-- How a charge is counted that is not on a bucket (see decide.lua).
local kinds = {log = log_account, sliding = sliding_account, slots = slots_account, window = window_account}
