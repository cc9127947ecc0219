-- Asks the Quorate agent before a request may pass, as `http-request lua.quorate`.
-- Uses the HTTP client that HAProxy has since 2.5; no Lua library is needed. That client tries for seconds to connect,
-- so it asks a frontend of this HAProxy, which knows the agents and answers 503 at once if there is none.

local FRONTEND = "abns@quorate-authz"
-- while no agent answers: "closed" refuses, "open" lets everything pass
local WITHOUT_AGENT = "closed"

local UNREACHABLE = '{"type":"https://quorate.dev/problems/limiter-unavailable",'
    .. '"title":"The limiter cannot decide at present","status":503}'

-- what of the agent's answer a client gets
local REFUSAL = { "content-type", "cache-control", "retry-after", "ratelimit", "ratelimit-policy",
    "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset" }

-- and what beside the answer of the API
local BESIDE = {
    ["ratelimit"] = "txn.quorate_ratelimit",
    ["ratelimit-policy"] = "txn.quorate_ratelimit_policy",
    ["x-ratelimit-limit"] = "txn.quorate_x_limit",
    ["x-ratelimit-remaining"] = "txn.quorate_x_remaining",
    ["x-ratelimit-reset"] = "txn.quorate_x_reset",
}

local function question(txn)
    return {
        ["x-forwarded-for"] = { txn.f:src() },
        ["x-forwarded-method"] = { txn.f:method() },
        ["x-forwarded-uri"] = { txn.f:pathq() },
        ["x-forwarded-host"] = { txn.f:req_hdr("host") },
        ["x-tenant"] = { txn:get_var("txn.quorate_tenant") },
    }
end

local function is_problem(headers)
    return headers["content-type"] and headers["content-type"][0] == "application/problem+json"
end

local function refuse(txn, status, headers, body)
    local reply = txn:reply({ status = status, body = body })
    for _, name in ipairs(REFUSAL) do
        local values = headers[name]
        if values then
            reply:add_header(name, values[0])
        end
    end
    txn:done(reply)
end

core.register_action("quorate", { "http-req" }, function(txn)
    local answer = core.httpclient():get({ url = "http://quorate/v1/authz", dst = FRONTEND, headers = question(txn) })
    local status, headers = answer.status, answer.headers or {}
    if status == 200 then
        for name, variable in pairs(BESIDE) do
            if headers[name] then
                txn:set_var(variable, headers[name][0])
            end
        end
    elseif (status == 429 or status == 422 or status == 400 or status == 503) and is_problem(headers) then
        refuse(txn, status, headers, answer.body)
    elseif WITHOUT_AGENT ~= "open" then
        local fields = { ["content-type"] = { [0] = "application/problem+json" }, ["cache-control"] = { [0] = "no-store" },
            ["retry-after"] = { [0] = "1" } }
        refuse(txn, 503, fields, UNREACHABLE)
    end
end)
