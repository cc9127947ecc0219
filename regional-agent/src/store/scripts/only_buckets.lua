-- For calls in which all charges are on buckets, and nothing is kept beside.
local kinds = {}
