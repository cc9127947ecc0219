//! What bad texts are told, exactly.

use super::{parse, policy_set, show, to_json, to_yaml};
use quorate_shared::names::PolicyName;
use quorate_shared::policy::render::diff;
use quorate_shared::policy::{CostRule, Matcher, Override, PolicySet};
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A text and all that is wrong with it.
type Case = (&'static str, &'static [&'static str]);

/// The fields of a policy that is otherwise good; the first stands in line 5, column 5.
const FIELDS: &[Case] = &[
    ("nmae: b", &["5:5: /policies/0/nmae: unknown key `nmae`; did you mean `name`?"]),
    (
        "domain: x",
        &[
            "5:5: /policies/0/domain: unknown key `domain`; known here: `name`, `match`, `no-other-attributes`, `per`, `replaces`, `limit`, `floor`, `lendable`, `allow-overcommit`, `cost`, `overrides`, `on-store-failure`, `emergency`, `floor-ttl`, `mode`",
        ],
    ),
    ("match: [route]", &["5:12: /policies/0/match: expected a map of attributes, such as `{route: write}`, found a list"]),
    ("match: {route: {}}", &["5:20: /policies/0/match/route: expected `like`, `not` or both, found none of them"]),
    (
        "match: {route: {nto: a, like: [b]}}",
        &[
            "5:21: /policies/0/match/route/nto: unknown key `nto`; did you mean `not`?",
            "5:35: /policies/0/match/route/like: expected a pattern such as `a*b`, found a list",
        ],
    ),
    ("match: {route: {not: []}}", &["5:26: /policies/0/match/route/not: the list is empty; leave `not` out to except nothing"]),
    ("match: {route: {not: [a*, a, a*]}}", &["5:34: /policies/0/match/route/not/2: `a*` is already there"]),
    ("replaces: [x]", &["3:5: /policies/0: `replaces` names `x`, and there is no such policy"]),
    ("no-other-attributes: 1", &["5:26: /policies/0/no-other-attributes: expected `true` or `false`, found the number `1`"]),
    (
        "match: {route: }",
        &[
            "5:18: /policies/0/match/route: expected a value, a list of values, `prefix*`, `*` or a map with `like` and `not`, found nothing",
        ],
    ),
    (
        "match: {route: []}",
        &["5:20: /policies/0/match/route: the list is empty, and nothing would match; leave the attribute out to match any request"],
    ),
    ("match: {route: [a, a]}", &["5:24: /policies/0/match/route/1: `a` is already there"]),
    (
        "match: {route: 'a*b'}",
        &[
            "5:20: /policies/0/match/route: a `*` stands only at the end; a value that has one in it is written in a list, where all is exact, and a pattern in a map: `{like: a*b}`",
        ],
    ),
    ("match: {'': x}", &["5:17: /policies/0/match/: an attribute's name is empty"]),
    ("match: {r: a, r: b}", &["5:19: /policies/0/match/r: `r` is already there in line 5"]),
    ("per: tenant", &["5:10: /policies/0/per: expected a list of attributes, such as `[tenant]`, found the text `tenant`"]),
    ("per: [tenant, tenant]", &["5:19: /policies/0/per/1: `tenant` is already there"]),
    ("per: [[a]]", &["5:11: /policies/0/per/0: expected the name of an attribute, found a list"]),
    ("per: ['']", &["5:11: /policies/0/per/0: an attribute's name is empty"]),
    ("floor: 50", &["5:12: /policies/0/floor: `50` is not a share: a share is written in percent: `50%`"]),
    ("floor: 0.5", &["5:12: /policies/0/floor: `0.5` is not a share: a share is written in percent: a half is `50%`"]),
    (
        "floor: 101%",
        &[
            "5:12: /policies/0/floor: the floors add up to 101% of the limit, so it could be exceeded; write at most 100%, or `allow-overcommit: true` if that is what you want",
        ],
    ),
    (
        "floor: {us: 60%, eu: 50%}",
        &[
            "5:12: /policies/0/floor: the floors add up to 110% of the limit, so it could be exceeded; write at most 100%, or `allow-overcommit: true` if that is what you want",
        ],
    ),
    ("floor: {us: 50%, ue: 50%}", &["5:26: /policies/0/floor/ue: there is no region `ue`; did you mean `eu`?"]),
    ("floor: {mars: 10%}", &["5:19: /policies/0/floor/mars: there is no region `mars`; add it to `regions`"]),
    ("floor: {us: 50}", &["5:17: /policies/0/floor/us: `50` is not a share: a share is written in percent: `50%`"]),
    ("floor: [us]", &["5:12: /policies/0/floor: expected a share such as `100%`, or a map such as `{us: 50%, eu: 30%}`, found a list"]),
    ("floor: ", &["5:10: /policies/0/floor: expected a share such as `100%`, or a map such as `{us: 50%, eu: 30%}`, found nothing"]),
    ("lendable: 110%", &["5:15: /policies/0/lendable: 110% is more than the whole"]),
    ("lendable: 0.9", &["5:15: /policies/0/lendable: `0.9` is not a share: a share is written in percent: a half is `50%`"]),
    ("allow-overcommit: yes", &["5:23: /policies/0/allow-overcommit: expected `true` or `false`, found the text `yes`"]),
    ("allow_overcommit: 1", &["5:23: /policies/0/allow_overcommit: expected `true` or `false`, found the number `1`"]),
    (
        "allow-overcommit: true\n    allow_overcommit: false",
        &["6:5: /policies/0/allow_overcommit: `allow_overcommit` is already there in line 5"],
    ),
    ("cost: -1", &["5:11: /policies/0/cost: `-1` is not an amount of tokens: it cannot be negative"]),
    ("cost: 201", &["5:11: /policies/0/cost: a cost of 201 never fits: the largest burst of this policy is 200"]),
    ("cost: many", &["5:11: /policies/0/cost: `many` is not an amount of tokens: write a decimal number, such as `200` or `0.5`"]),
    ("cost: {attribute: plan}", &["5:11: /policies/0/cost/values: `values` is missing"]),
    (
        "cost: {values: {batch: 10}, attribute: plan, other: 5}",
        &["5:50: /policies/0/cost/other: unknown key `other`; known here: `attribute`, `values`, `otherwise`"],
    ),
    (
        "cost: {values: {batch: 1000}, attribute: plan}",
        &["5:28: /policies/0/cost/values/batch: a cost of 1000 never fits: the largest burst of this policy is 200"],
    ),
    ("cost: 0.0000001", &["5:11: /policies/0/cost: `0.0000001` is not an amount of tokens: at most 6 decimal places"]),
    (
        "overrides: [{subject: {tenant: acme}, limit: {rate: 1/s}}]",
        &["5:16: /policies/0/overrides: an override is for one subject, and without `per` there is one budget for all"],
    ),
    (
        "per: [tenant]\n    overrides:\n      - subject: {tenent: acme}\n        limit: {rate: 1/s}",
        &[
            "7:18: /policies/0/overrides/0/subject: a value is missing for `tenant`",
            "7:27: /policies/0/overrides/0/subject/tenent: `tenent` is not in the policy's `per`; did you mean `tenant`?",
        ],
    ),
    (
        "per: [tenant, route]\n    overrides:\n      - subject: {tenant: acme}\n        limit: {rate: 1/min}",
        &[
            "7:18: /policies/0/overrides/0/subject: a value is missing for `route`",
            "8:16: /policies/0/overrides/0/limit: the rate is per 1min and that of the policy per 1s; an override has the period of its policy",
        ],
    ),
    (
        "per: [tenant]\n    overrides:\n      - {subject: {tenant: acme}, limit: {rate: 1/s}}\n      - {subject: {tenant: acme}, limit: {rate: 2/s}}",
        &["8:9: /policies/0/overrides/1: another override is for the same subject in line 7"],
    ),
    (
        "per: [tenant]\n    overrides:\n      - {subject: {tenant: [a]}, limit: {algorithm: sliding-log, rate: 1/s}}\n      - acme",
        &[
            "7:28: /policies/0/overrides/0/subject/tenant: expected a value, found a list",
            "7:53: /policies/0/overrides/0/limit/algorithm: the policy's algorithm is `token-bucket`, and an override has that of its policy",
            "8:9: /policies/0/overrides/1: expected a map with `subject`, `limit`, found the text `acme`",
        ],
    ),
    ("on-store-failure: closed\n    emergency: 5%", &["6:16: /policies/0/emergency: of no use where `on-store-failure` is `closed`"]),
    ("emergency: 101%", &["5:16: /policies/0/emergency: 101% is more than the whole"]),
    ("on-store-failure: {open: 0s}", &["5:30: /policies/0/on-store-failure/open: 0s is not between 1s and 1d"]),
    ("floor-ttl: 59s", &["5:16: /policies/0/floor-ttl: 59s is too short: at least 1min, since floors are to outlast any lease"]),
    (
        "floor-ttl: 31d",
        &[
            "5:16: /policies/0/floor-ttl: 31d is too long: at most 30d; leave it out if a change is to wait for a region that is out of reach",
        ],
    ),
    ("floor-ttl: 10m", &["5:16: /policies/0/floor-ttl: `10m` is not a duration: the unit is written `min`: `10min`"]),
    ("on-store-failure: fail-open", &["5:23: /policies/0/on-store-failure: expected `emergency`, `open` or `closed`, found `fail-open`"]),
    (
        "on-store-failure: Closed",
        &["5:23: /policies/0/on-store-failure: expected `emergency`, `open` or `closed`, found `Closed`; did you mean `closed`?"],
    ),
    ("mode: dry-run", &["5:11: /policies/0/mode: expected `observe`, `enforce` or `{canary: 10%}`, found the text `dry-run`"]),
    ("mode: canary", &["5:11: /policies/0/mode: expected `observe`, `enforce` or `{canary: 10%}`, found the text `canary`"]),
    ("mode: {canary: 10}", &["5:20: /policies/0/mode/canary: `10` is not a share: a share is written in percent: `10%`"]),
    ("mode: {canary: 101%}", &["5:20: /policies/0/mode/canary: 101% is more than the whole"]),
    ("mode: 5", &["5:11: /policies/0/mode: expected `observe`, `enforce` or `{canary: 10%}`, found the number `5`"]),
];

/// The limit of a policy that is otherwise good; it stands in line 4, column 12.
const LIMITS: &[Case] = &[
    (
        "100/s",
        &["4:12: /policies/0/limit: expected a limit such as `{algorithm: token-bucket, rate: 100/s, burst: 200}`, found the text `100/s`"],
    ),
    (
        "{}",
        &[
            "4:12: /policies/0/limit: `algorithm` is missing: `token-bucket`, `fixed-window`, `sliding-window`, `sliding-log`, `concurrency`",
        ],
    ),
    ("{algorithm: token-bucket}", &["4:12: /policies/0/limit/rate: `rate` is missing, such as `rate: 100/s`"]),
    (
        "{rate: 100/s}",
        &[
            "4:12: /policies/0/limit: `algorithm` is missing: `token-bucket`, `fixed-window`, `sliding-window`, `sliding-log`, `concurrency`",
        ],
    ),
    (
        "{algorithm: token-bucket, rate: 100}",
        &["4:44: /policies/0/limit/rate: `100` is not a rate: per what? Write for example `100/s` or `100/min`"],
    ),
    (
        "{algorithm: token-bucket, rate: 0/s}",
        &["4:44: /policies/0/limit/rate: the rate is 0, and an empty bucket would stay empty; write at least 0.000001 in a period"],
    ),
    (
        "{algorithm: token-bucket, rate: 100/s, burst: 0}",
        &["4:58: /policies/0/limit/burst: the burst is 0; at least 1, or no request would ever fit"],
    ),
    (
        "{algorithm: token-bucket, rate: 100/s, burst: 0.5}",
        &["4:58: /policies/0/limit/burst: the burst is 0.5; at least 1, or no request would ever fit"],
    ),
    ("{algorithm: token-bucket, rate: 1/2d}", &["4:44: /policies/0/limit/rate: the period is 2d; at most 36h"]),
    (
        "{algorithm: token-bucket, rate: 1/minute}",
        &["4:44: /policies/0/limit/rate: `1/minute` is not a rate: the unit is written `min`: `1/min`"],
    ),
    (
        "{algorithm: token-bucket, rate: 9007199255/s}",
        &[
            "4:44: /policies/0/limit/rate: `9007199255/s` is not a rate: `9007199255` is not an amount of tokens: at most 9007199254.740991 can be counted exactly",
        ],
    ),
    (
        "{algorithm: token-bucket, rate: 1/s, burst: 1e3}",
        &["4:56: /policies/0/limit/burst: `1e3` is not an amount of tokens: write a decimal number, such as `200` or `0.5`"],
    ),
    (
        "{algorithm: token-bucket, rate: 0.000001/d, burst: 1}",
        &[
            "4:12: /policies/0/limit: at 0.000001/d an empty bucket of 1 would take more than 100 years to fill; write a greater rate or a smaller burst",
        ],
    ),
    (
        "{algorithm: token-bukcet, rate: 1/s}",
        &["4:24: /policies/0/limit/algorithm: there is no algorithm `token-bukcet`; did you mean `token-bucket`?"],
    ),
    (
        "{algorithm: leaky-bucket, rate: 1/s}",
        &[
            "4:24: /policies/0/limit/algorithm: there is no algorithm `leaky-bucket`; expected one of `token-bucket`, `fixed-window`, `sliding-window`, `sliding-log`, `concurrency`",
        ],
    ),
    (
        "{algorithm: fixed-window}",
        &[
            "4:12: /policies/0/limit/units: `units` is missing, such as `units: 600`",
            "4:12: /policies/0/limit/window: `window` is missing: a length such as `1min`, or one of `hour`, `day`, `week`, `month`, `year`",
        ],
    ),
    (
        "{algorithm: fixed-window, units: 10000, window: month, time-zone: Europe/Berln}",
        &["4:78: /policies/0/limit/time-zone: there is no time zone `Europe/Berln`; did you mean `Europe/Berlin`?"],
    ),
    (
        "{algorithm: fixed-window, units: 10000, window: 1h, time-zone: Europe/Berlin}",
        &[
            "4:75: /policies/0/limit/time-zone: a window of a fixed length has no time zone: it begins at multiples of its length since 1970, UTC",
        ],
    ),
    (
        "{algorithm: fixed-window, units: 10000, window: months}",
        &["4:60: /policies/0/limit/window: there is no window `months`; did you mean `month`?"],
    ),
    (
        "{algorithm: fixed-window, units: -1, window: 10}",
        &[
            "4:45: /policies/0/limit/units: `-1` is not an amount of tokens: it cannot be negative",
            "4:57: /policies/0/limit/window: expected a length such as `1min`, or a unit of the calendar such as `month`, found the number `10`",
        ],
    ),
    (
        "{algorithm: sliding-window, units: 600, window: 500us}",
        &["4:60: /policies/0/limit/window: it is 500us; at least 1ms and at most 100 years"],
    ),
    (
        "{algorithm: sliding-log, units: 5, window: month}",
        &[
            "4:55: /policies/0/limit/window: `month` is not a duration: write a whole number and a unit (us, ms, s, min, h, d), such as `10s`",
        ],
    ),
    (
        "{algorithm: concurrency, slots: 50}",
        &[
            "4:12: /policies/0/limit/max-hold: `max-hold` is missing: how long a request may take, such as `max-hold: 60s`; after that its slot is free",
        ],
    ),
    (
        "{algorithm: 5}",
        &[
            "4:24: /policies/0/limit/algorithm: expected one of `token-bucket`, `fixed-window`, `sliding-window`, `sliding-log`, `concurrency`, found the number `5`",
        ],
    ),
    (
        "{algorithm: token-bucket, rate: 1/s, window: 5s}",
        &["4:49: /policies/0/limit/window: unknown key `window`; known here: `algorithm`, `rate`, `burst`"],
    ),
];

/// Whole documents.
const DOCUMENTS: &[Case] = &[
    ("", &["1:1: the document is empty; a policy set has `regions` and `policies`"]),
    ("# only a comment\n", &["2:1: the document is empty; a policy set has `regions` and `policies`"]),
    ("---\n", &["1:4: the document is empty; a policy set has `regions` and `policies`"]),
    ("null", &["1:1: the document is empty; a policy set has `regions` and `policies`"]),
    ("[]", &["1:1: expected a map with `regions`, `policies`, found a list"]),
    ("5", &["1:1: expected a map with `regions`, `policies`, found the number `5`"]),
    ("regions: {}\npolicies: []\n", &["1:10: /regions: at least one region is needed"]),
    ("policies: []\n", &["1:1: /regions: `regions` is missing, such as `regions: {us: {weight: 2}, eu: {}}`"]),
    ("regions: {us: {}}\n", &["1:1: /policies: `policies` is missing"]),
    ("regions: [us, us]\npolicies: []\n", &["1:15: /regions/1: `us` is already there"]),
    ("regions: [us, 5s, [a]]\npolicies: []\n", &["1:19: /regions/2: expected the name of a region, found a list"]),
    (
        "regions: {us: {weight: 0}}\npolicies: {a: {}}\n",
        &[
            "1:24: /regions/us/weight: expected a whole number from 1 to 1000000, found the number `0`",
            "2:11: /policies: expected a list of policies, found a map",
        ],
    ),
    (
        "regions: {us: {weight: 1.5}, US: {}}\npolicies:\n",
        &[
            "1:24: /regions/us/weight: expected a whole number from 1 to 1000000, found the number `1.5`",
            "1:34: /regions/US: `US` is not a name: 1 to 63 of a-z, 0-9 and `-`",
            "2:9: /policies: expected a list of policies, found nothing",
        ],
    ),
    (
        "regions: us\npolicies: [a]\n",
        &[
            "1:10: /regions: expected a map of regions, such as `{us: {weight: 2}, eu: {}}`, found the text `us`",
            "2:12: /policies/0: expected a map with `name`, `match`, `no-other-attributes`, `per`, `replaces`, `limit`, `floor`, `lendable`, `allow-overcommit`, `cost`, `overrides`, `on-store-failure`, `emergency`, `floor-ttl`, `mode`, found the text `a`",
        ],
    ),
    (
        "regions: [us]\npolicies:\n  - {name: a, limit: {algorithm: token-bucket, rate: 1/s}}\n  - {name: a, limit: {algorithm: token-bucket, rate: 1/s}}\n  - {name: A B}\n  - {}\n",
        &[
            "4:12: /policies/1/name: another policy has the name `a` in line 3",
            "5:5: /policies/2/limit: `limit` is missing",
            "5:12: /policies/2/name: `A B` is not a name: 1 to 63 of a-z, 0-9 and `-`",
            "6:5: /policies/3/name: `name` is missing",
            "6:5: /policies/3/limit: `limit` is missing",
        ],
    ),
    ("regions: [us]\npolicies: [\n", &["2:11: cannot be read as YAML: unclosed bracket '['"]),
    ("a: b: c\n", &["1:5: cannot be read as YAML: mapping values are not allowed in this context"]),
    ("regions:\n\t- us\n", &["2:2: cannot be read as YAML: tabs disallowed within this context (block indentation)"]),
    ("regions: [us]\n---\nregions: [eu]\n", &["3:1: a second document begins here; a file holds one"]),
    ("regions: *nothing\n", &["1:10: an alias stands here for an anchor that is nowhere before it"]),
    ("regions: &r [*r]\n", &["1:14: an alias stands inside of what it stands for"]),
    ("regions: !vault [us]\npolicies: []\n", &["1:17: cannot be read as YAML: unsupported tag `!vault`"]),
    ("regions: \"u\0s\"\n", &["1:12: cannot be read as YAML: unexpected character: `\\u{0}'"]),
    ("? [a, b]\n: c\n", &["1:3: a key must be a text"]),
    ("%YAML 3.0\n---\na: b\n", &["1:1: cannot be read as YAML: unsupported YAML major version"]),
    (
        "{\"regions\": [\"us\"], \"policies\": [{\"name\": \"a\", \"on_store_failure\": 5, \"limit\": {\"algorithm\": \"token-bucket\", \"rate\": 5}}]}",
        &[
            "1:68: /policies/0/on_store_failure: expected `emergency`, `open` or `closed`, found the number `5`",
            "1:118: /policies/0/limit/rate: `5` is not a rate: per what? Write for example `5/s` or `5/min`",
        ],
    ),
    ("{\n  \"regions\": [\"us\"],\n  \"policies\": [],\n  \"policies\": []\n}", &["4:3: /policies: `policies` is already there in line 3"]),
];

fn told(text: &[u8]) -> Vec<String> {
    policy_set(text).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn assert_told(cases: &[Case], whole: impl Fn(&str) -> String) {
    for (text, expected) in cases {
        assert_eq!(told(whole(text).as_bytes()), *expected, "{text}");
    }
}

#[test]
fn every_mistake_of_a_policy_is_told_in_its_place() {
    const GOOD: &str =
        "regions: {us: {weight: 2}, eu: {}}\npolicies:\n  - name: a\n    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}\n";
    assert_told(FIELDS, |field| format!("{GOOD}    {field}\n"));
    assert_eq!(told(GOOD.as_bytes()), [""; 0]);
}

#[test]
fn every_mistake_of_a_limit_is_told_in_its_place() {
    assert_told(LIMITS, |limit| format!("regions: [us]\npolicies:\n  - name: a\n    limit: {limit}\n"));
}

#[test]
fn every_mistake_of_a_document_is_told_in_its_place() {
    assert_told(DOCUMENTS, str::to_owned);
}

/// The sample of the guide, as far as it is served.
const SAMPLE: &str = "
regions:
  us: {weight: 2}
  eu: {}
  ap: {}
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    floor: 100%
    lendable: 90%
    cost: 1
    overrides:
      - subject: {tenant: acme}
        limit: {rate: 500/s, burst: 1000}
    on-store-failure: emergency
    mode: enforce
  - name: everything-else
    match: {version: 1.10, beta: true, code: 0x1f, spelled: True, any: \"*\", path: /api/*, exact: [\"/api/*\", b]}
    no-other-attributes: true
    replaces: [write-api]
    limit: {algorithm: token-bucket, rate: 5000/min}
    floor: {us: 50%, eu: 12.5%}
    cost: {attribute: plan, values: {batch: 10, 1: 0.5}}
    on-store-failure: closed
    mode: {canary: 10%}
";

fn sample() -> PolicySet {
    policy_set(SAMPLE.as_bytes()).expect("the sample is good").0
}

#[test]
fn the_sample_means_what_it_says() {
    let set = sample();
    let json = to_json(&set).expect("it is written");
    assert_eq!(json["regions"], serde_json::json!({"us": {"weight": 2}, "eu": {"weight": 1}, "ap": {"weight": 1}}));
    assert_eq!(
        json["policies"][0]["overrides"],
        serde_json::json!([{"subject": {"tenant": "acme"}, "limit": {"rate": "500/s", "burst": 1000}}])
    );
    assert_eq!(json["policies"][0]["on_store_failure"], "emergency");
    let second = &json["policies"][1];
    assert_eq!(
        second["match"],
        serde_json::json!({"version": "1.10", "beta": "true", "code": "0x1f", "spelled": "True", "any": "*", "path": "/api/*", "exact": ["/api/*", "b"]})
    );
    assert_eq!(second["limit"], serde_json::json!({"algorithm": "token-bucket", "rate": "5000/min", "burst": 5000}));
    assert_eq!((&second["replaces"], json["policies"][0].get("replaces")), (&serde_json::json!(["write-api"]), None));
    assert_eq!(second["floor"], serde_json::json!({"us": "50%", "eu": "12.5%"}));
    assert_eq!(second["cost"], serde_json::json!({"attribute": "plan", "values": {"batch": 10, "1": 0.5}, "otherwise": 1}));
    assert_eq!((&second["lendable"], &second["mode"]), (&"90%".into(), &serde_json::json!({"canary": "10%"})));
}

#[test]
fn what_is_probably_not_meant_is_warned_of() {
    let (_, warnings) = policy_set(SAMPLE.as_bytes()).expect("the sample is good");
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "20:99: /policies/1/match/exact/0: this is taken literally: here a `*` is a character like any other",
            "19:5: /policies/1: while cut off from the coordinators, ap can admit nothing: the floor there holds less than a request costs (1)",
        ]
    );
}

#[test]
fn a_set_reads_back_from_yaml_and_from_json() {
    let set = sample();
    let read = |text: &[u8]| policy_set(text).map(|(set, _)| set);
    assert_eq!(read(to_yaml(&set).expect("it is written").as_bytes()), Ok(set.clone()));
    let json = to_json(&set).expect("it is written");
    assert_eq!(read(json.to_string().as_bytes()), Ok(set.clone()));
    assert_eq!(read(format!("{json:#}").replace("  ", "\t").as_bytes()), Ok(set));
}

#[test]
fn a_byte_order_mark_comments_and_line_ends_mean_nothing() {
    let crlf = format!("\u{feff}# a comment\r\n{}", SAMPLE.replace('\n', "\r\n"));
    assert_eq!(policy_set(crlf.as_bytes()).map(|(set, _)| set), Ok(sample()));
    let merged = SAMPLE.replace("limit: {rate: 500/s, burst: 1000}", "limit: {<<: &acme {rate: 500/s}, burst: 1000}");
    assert_eq!(policy_set(merged.as_bytes()).map(|(set, _)| set), Ok(sample()));
}

fn bomb() -> String {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let alias = format!("*a{}", i - 1);
        let _ = writeln!(text, "a{i}: &a{i} [{}]", vec![alias; 10].join(", "));
    }
    text
}

#[test]
fn hostile_texts_are_refused_with_one_mistake() {
    const TOO_MUCH: &str = "the document is nested too deeply, or has too many values or aliases";
    let indented: String = (0..1_000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let flood = format!("[{}]", "[],".repeat(300_000));
    let cases: [(String, &str); 7] = [
        (bomb(), TOO_MUCH),
        (indented, TOO_MUCH),
        ("- ".repeat(100_000), TOO_MUCH),
        (flood, TOO_MUCH),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), "recursion limit exceeded"),
        ("{a: ".repeat(100_000), "recursion limit exceeded"),
        (" ".repeat(super::MAX_BYTES + 1), "the document has 1048577 bytes; at most 1048576"),
    ];
    for (text, expected) in cases {
        let mistakes = parse(text.as_bytes()).expect_err("it is hostile");
        assert_eq!(mistakes.len(), 1);
        assert!(mistakes[0].detail.contains(expected), "{}", mistakes[0]);
    }
}

#[test]
fn bytes_that_are_not_utf8_have_a_place() {
    assert_eq!(told(b"regions: [us]\n# \xc3\xa9\xff\n"), ["2:4: this is not UTF-8"]);
    assert_eq!(told(b"\xff\xfer\0e\0"), ["1:1: this is not UTF-8"]);
}

#[test]
fn mistakes_without_end_are_counted() {
    let regions: String = (0..20_000).map(|i| format!("R{i}: {{}}, ")).collect();
    let told = told(format!("regions: {{us: {{}}}}\npolicies:\n  - {{name: a, floor: {{{regions}}}, limit: {{}}}}\n").as_bytes());
    assert_eq!(told.len(), 501);
    assert_eq!(told[500], "and 39501 more mistakes");
}

#[test]
fn a_set_has_an_upper_size() {
    let policies = format!("regions: [us]\npolicies:\n{}", "- {}\n".repeat(10_001));
    assert_eq!(told(policies.as_bytes()), ["3:3: /policies: 10001 policies; at most 10000"]);
    let regions: String = (0..1_001).map(|i| format!("r{i}, ")).collect();
    assert_eq!(told(format!("regions: [{regions}]\npolicies: []\n").as_bytes()), ["1:10: /regions: 1001 regions; at most 1000"]);
}

#[test]
fn a_dry_run_tells_each_change() {
    let old = sample();
    let new = SAMPLE
        .replace("us: {weight: 2}", "us: {weight: 3}")
        .replace("burst: 200", "burst: 300")
        .replace("{rate: 500/s, burst: 1000}", "{rate: 600/s}")
        .replace("everything-else", "rest")
        .replace("mode: enforce", "mode: observe");
    let new = policy_set(new.as_bytes()).expect("it is good").0;
    let told = |old: &PolicySet, new: &PolicySet| -> Vec<String> {
        let side = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| text.chars().take(40).collect());
        let policy = |name: Option<PolicyName>| name.map_or_else(|| "the set".to_owned(), |name| name.to_string());
        diff(old, new).into_iter().map(|c| format!("{} {}: {} > {}", policy(c.policy), c.field, side(c.from), side(c.to))).collect()
    };
    assert_eq!(
        told(&old, &new),
        [
            "the set regions.us: weight 2 > weight 3",
            "write-api limit.burst: 200 > 300",
            "write-api mode: enforce > observe",
            "write-api overrides(tenant: acme).limit: {rate: 500/s, burst: 1000} > {rate: 600/s, burst: 600}",
            "rest policy: - > {match: {any: *, beta: true, code: 0x1f,",
            "everything-else policy: {match: {any: *, beta: true, code: 0x1f, > -",
        ]
    );
    let mut other_kind = old.clone();
    other_kind.policies[0].per = vec!["user".to_owned()];
    other_kind.policies.reverse();
    assert_eq!(
        told(&old, &other_kind),
        [
            "the set policies (order): write-api, everything-else > everything-else, write-api",
            "write-api per: [tenant] > [user]",
            "write-api kind: - > kind changed: new budgets",
        ]
    );
}

#[test]
fn a_terminal_shows_the_line_and_nothing_that_it_would_obey() {
    let text = "regions: [us]\npolicies:\n\u{e9}: {x: \u{1b}[2J}\n";
    let mistakes = policy_set("regions: [us]\npolicies: [b]\n\u{e9}: 1\n".as_bytes()).expect_err("it is bad");
    assert_eq!(
        show("p.yaml", text.as_bytes(), &mistakes[1..]),
        "p.yaml:3:1: /\u{e9}: unknown key `\u{e9}`; known here: `regions`, `policies`\n    \u{e9}: {x: \u{fffd}[2J}\n    ^\n"
    );
    let long = format!("regions: [us]\npolicies: []\n? {}\n: x\n", "k".repeat(2_000));
    let shown = show("p.yaml", long.as_bytes(), &policy_set(long.as_bytes()).expect_err("it is bad"));
    assert!(shown.lines().all(|line| line.chars().count() < 300), "{shown}");
}

/// Texts made of what policy files are made of, in any order.
fn scraps() -> impl proptest::strategy::Strategy<Value = String> {
    let scrap = proptest::sample::select(vec![
        "regions", "policies", "name", "limit", "rate", "100/s", "us", ": ", "- ", "\n", "  ", "{", "}", "[", "]", ",", "&a ", "*a", "<<",
        "\"", "'", "#", "|", ">", "~", "1e5", "0x", "\t", "!!int ", "? ", "\u{e9}", "-",
    ]);
    proptest::strategy::Strategy::prop_map(proptest::collection::vec(scrap, 0..60), |scraps| scraps.concat())
}

proptest::proptest! {
    /// Values of any characters, of any length, and such as a format could take for something else.
    #[test]
    fn any_value_reads_back_from_yaml_and_from_json(values in proptest::collection::btree_set("(?s).{0,100}|[ \n\t:#-]{0,6}|[a-z ]{100,300}|(true|null|~|1e5|0x1f|007|1_0|<<|=|2001-01-01|[.]inf|no)", 1..4)) {
        let mut set = sample();
        let values: Vec<String> = values.into_iter().collect();
        let subject = values.iter().cloned().map(|value| Override { subject: BTreeMap::from([("tenant".to_owned(), value)]), limit: set.policies[0].limit });
        set.policies[0].overrides = subject.collect();
        set.policies[0].cost = CostRule::ByAttribute {
            attribute: "plan".to_owned(),
            values: values.iter().cloned().map(|value| (value, MicroTokens(500_001))).collect(),
            otherwise: MicroTokens(199_999_999),
        };
        set.policies[1].matches = BTreeMap::from([("route".to_owned(), Matcher::OneOf(values))]);
        let read = |text: &str| policy_set(text.as_bytes()).map(|(set, _)| set);
        proptest::prop_assert_eq!(read(&to_yaml(&set).expect("it is written")), Ok(set.clone()));
        proptest::prop_assert_eq!(read(&to_json(&set).expect("it is written").to_string()), Ok(set));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in scraps()) {
        if let Err(mistakes) = policy_set(text.as_bytes()) {
            proptest::prop_assert!(!mistakes.is_empty());
            proptest::prop_assert!(!show("f", text.as_bytes(), &mistakes).is_empty());
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let refused = policy_set(&bytes).is_err();
        proptest::prop_assert!(refused);
    }
}
