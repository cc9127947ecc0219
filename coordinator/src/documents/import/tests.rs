//! Each feature of the files of other limiters, by small files.

use super::{Imported, Note, SourceFile, envoy_ratelimit, limitador};
use quorate_shared::names::RegionName;

fn regions() -> Vec<RegionName> {
    vec!["eu".parse().expect("a name")]
}

fn files(texts: &[&str]) -> Vec<SourceFile> {
    let file = |(name, text): (char, &&str)| SourceFile { name: name.into(), text: text.as_bytes().to_vec() };
    ('f'..).zip(texts).map(file).collect()
}

fn envoy(text: &str) -> Result<Imported, Vec<Note>> {
    envoy_ratelimit(&files(&[text]), &regions(), false)
}

/// The descriptors in a domain, which begins in line 1; they begin in line 2.
fn descriptors(text: &str) -> String {
    format!("domain: d\ndescriptors: {text}\n")
}

fn told(notes: &[Note]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}

/// What there is of a set beside its regions.
fn policies(imported: &Imported) -> &str {
    imported.yaml.strip_prefix("regions:\n  eu: {}\n").expect("its regions")
}

#[test]
fn a_tree_becomes_policies_that_exclude_each_other() {
    let text = "\
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 20}
    descriptors:
      - key: path
        value: /api/*
        rate_limit: {unit: HOUR, requests_per_unit: 100}
        shadow_mode: true
      - key: path
        value: /api/v1
        rate_limit: {name: First version, unit: day, requests_per_unit: 5}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: user
    value: mallory
    rate_limit: {unit: minute, requests_per_unit: 0}
";
    let imported = envoy(text).expect("it loads");
    assert_eq!(told(&imported.notes), Vec::<String>::new());
    assert_eq!(
        policies(&imported),
        "\
policies:
# f:3
- name: edge-user
  match:
    domain: edge
    user:
      not:
      - root
  no-other-attributes: true
  per:
  - user
  limit:
    algorithm: fixed-window
    units: 20
    window: 1min
  overrides:
  - subject:
      user: mallory
    limit:
      units: 0
# f:6
- name: edge-user-path-api
  match:
    domain: edge
    user:
      not:
      - root
      - mallory
    path:
      like: /api/*
      not:
      - /api/v1
  no-other-attributes: true
  per:
  - user
  - path
  limit:
    algorithm: fixed-window
    units: 100
    window: 1h
  mode: observe
# f:10
- name: edge-first-version
  match:
    domain: edge
    user:
      not:
      - root
      - mallory
    path: /api/v1
  no-other-attributes: true
  per:
  - user
  limit:
    algorithm: fixed-window
    units: 5
    window: 1d
"
    );
}

#[test]
fn limits_that_replace_others_do_so_here_by_the_names_of_their_policies() {
    let text = descriptors(
        "[{key: a, rate_limit: {unit: day, requests_per_unit: 9, name: All}}, {key: b, value: v, rate_limit: {unit: day, requests_per_unit: 5, name: few, \
         replaces: [{name: All}, {name: All}]}}, {key: b, rate_limit: {unit: day, requests_per_unit: 7}}]",
    );
    let set = envoy(&text).expect("it loads").set;
    let replaced: Vec<_> =
        set.policies.iter().map(|p| (p.name.to_string(), p.replaces.iter().map(ToString::to_string).collect::<Vec<_>>())).collect();
    let of = |name: &str, replaces: &[&str]| (name.to_owned(), replaces.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>());
    assert_eq!(replaced, [of("d-all", &[]), of("d-few", &["d-all"]), of("d-b", &[])], "one that replaces is no override");
}

#[test]
fn values_that_share_a_threshold_have_one_budget() {
    let of = |shared: &str| {
        let text = descriptors(&format!("[{{key: k, value: a*b, {shared}rate_limit: {{unit: week, requests_per_unit: 1}}}}]"));
        envoy(&text).expect("it loads").set.policies[0].per.clone()
    };
    assert_eq!((of("share_threshold: true, "), of("share_threshold: false, ")), (vec![], vec!["k".to_owned()]));
}

/// The fields of one descriptor, or of its limit where they begin so, and what is told of them.
const NOTES: &[(&str, &str)] = &[
    ("shadow_mode: true", ""),
    ("detailed_metric: true", "2:41: names of metrics do not carry over"),
    ("value_to_metric: true", "2:41: names of metrics do not carry over"),
    ("quota_mode: true", "2:36: `quota_mode` does not carry over: this is a limit as any other"),
    ("quota_mode: false, detailed_metric: no, metadata: null", ""),
    ("metadata: {1: {2.5: [x]}}", "2:34: `metadata` does not carry over"),
    ("name: x", "2:24: `name` has no meaning in a descriptor and was passed over before"),
    ("unit: day", "2:24: `unit` has no meaning in a descriptor and was passed over before; it belongs into `rate_limit`"),
    ("value: a, value: b", "2:24: `value` is there again below, and as before the last one counts"),
    ("LIMIT shadow_mode: true", "so this limit is enforced; it belongs beside `rate_limit`, as `mode: observe` in a policy"),
    ("LIMIT shadow_mode: false", "`shadow_mode` has no meaning in `rate_limit` and was passed over before; it belongs beside `rate_limit`"),
    ("LIMIT replaces: [{name: x}]", "`replaces` names `x`, and no limit of this domain that is a policy has that name"),
    ("LIMIT requests_per_unit: 0", "`requests_per_unit` is there again below"),
    ("descriptors: [{key: k}]", "2:38: this descriptor is left out, with those in it: `k` is there already"),
    ("descriptors: [{key: domain}]", "2:38: this descriptor is left out, with those in it: `domain` is there already"),
    ("descriptors: [{key: j, shadow_mode: on}]", "2:60: `shadow_mode` means nothing where nothing is limited"),
    ("descriptors: [{key: 'j*'}]", "2:38: a `*` in a key does not carry over"),
];

#[test]
fn what_does_not_carry_over_is_named_in_its_place() {
    for (fields, expected) in NOTES {
        let (of_rule, of_limit) = match fields.strip_prefix("LIMIT ") {
            None => (*fields, ""),
            Some(of_limit) => ("detailed_metric: false", of_limit),
        };
        let comma = if of_limit.is_empty() { "" } else { ", " };
        let text = descriptors(&format!("[{{key: k, {of_rule}, rate_limit: {{{of_limit}{comma}unit: day, requests_per_unit: 1}}}}]"));
        let notes = told(&envoy(&text).unwrap_or_else(|e| panic!("{fields}: {:?}", told(&e))).notes);
        match *expected {
            "" => assert_eq!(notes, Vec::<String>::new(), "{fields}"),
            expected => assert!(notes.len() == 1 && notes[0].contains(expected), "{fields}: {notes:?}"),
        }
    }
}

#[test]
fn what_never_was_met_and_what_was_met_by_accident_is_named() {
    let limit = "rate_limit: {unit: day, requests_per_unit: 1}";
    let text = descriptors(&format!(
        "\n  - {{key: k, value: 'a*', {limit}}}\n  - {{key: k, value: 'ab*', {limit}}}\n  - {{key: j, value: '*', {limit}}}\n  - {{key: j, {limit}}}\n  - {{key: j_i, {limit}}}"
    ));
    let imported = envoy(&text).expect("it loads");
    assert_eq!(
        told(&imported.notes),
        [
            "f:4:5: no request ever met this: each value meets `a*` in line 3 before; it is left out, with those in it",
            "f:6:5: no request ever met this: each value meets `*` in line 5 before; it is left out, with those in it",
            "f:7:5: key and value were joined by `_`, so that `j` with the value `i` met this too; here it does not",
        ]
    );
    let names: Vec<&str> = imported.set.policies.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["d-k-a", "d-j", "d-j-i"]);
}

#[test]
fn months_and_the_order_of_keys_are_named() {
    let limit = "rate_limit: {unit: month, requests_per_unit: 1}";
    let text =
        descriptors(&format!("\n  - {{key: k, descriptors: [{{key: j, {limit}}}]}}\n  - {{key: j, descriptors: [{{key: k, {limit}}}]}}"));
    let notes = told(&envoy(&text).expect("it loads").notes);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("f:3:28: a month is 30 days"), "{notes:?}");
    assert!(
        notes[2].contains("f:4:28: a request's attributes have no order: this limit for j, k and those for k, j now apply together"),
        "{notes:?}"
    );
}

/// A whole file, and each mistake.
const REFUSED: &[(&str, &[&str])] = &[
    ("", &["f:1:1: the domain is missing or empty"]),
    ("[a]", &["f:1:1: expected a map with `domain` and `descriptors`"]),
    ("domain: ''\ndescriptors: {}\n", &["f:2:14: expected a list", "f:1:9: the domain is missing or empty"]),
    ("domain: [a]\n", &["f:1:10: expected a map: a list holds nothing else here"]),
    ("domain: {name: a}\n", &["f:1:9: expected a text", "f:1:9: the domain is missing or empty"]),
    (
        "domain: d\nyes: 1\n~: 2\nx-defaults: 1.5\n",
        &[
            "f:2:1: the key `yes` is not a text",
            "f:3:1: the key `~` is not a text",
            "f:4:1: unknown key `x-defaults`",
            "f:4:13: `1.5` is a fraction, or a whole number above 2^63 - 1: write it in quotes if it is a value",
        ],
    ),
    (
        "domain: d\ndescriptors: [{value: x}, {key: ''}]\n",
        &["f:2:15: the descriptor has no key, or an empty one", "f:2:33: the descriptor has no key, or an empty one"],
    ),
    (
        "domain: d\ndescriptors:\n- {key: a_b, value: c}\n- {key: a, value: b_c}\n- {key: a, value: b_c}\n",
        &["f:4:3: key and value, joined by `_`, are the same as at f:3", "f:5:3: key and value, joined by `_`, are the same as at f:3"],
    ),
    (
        "domain: d\ndescriptors: [{key: a, share_threshold: yes}]\n",
        &["f:2:41: `share_threshold` needs a `*` in the value, and `a` has none"],
    ),
    ("domain: d\ndescriptors: [{key: a, shadow_mode: 'true'}]\n", &["f:2:37: expected `true` or `false`, without quotes"]),
    (
        "domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 4294967296}}]\n",
        &["f:2:56: expected a whole number from 0 to 4294967295, without quotes", "f:2:36: `unit` is missing"],
    ),
    (
        "domain: d\ndescriptors: [{key: a, rate_limit: {unit: seconds}}, {key: b, rate_limit: {unlimited: true, unit: day}}]\n",
        &[
            "f:2:43: `seconds` is not one of `second`, `minute`, `hour`, `day`, `week`, `month`, `year`",
            "f:2:99: `unlimited` and a `unit` exclude each other",
        ],
    ),
    (
        "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}, {name: ''}]}}]\n",
        &["f:2:68: a limit does not replace itself, `x`", "f:2:79: `replaces` has an empty name"],
    ),
    (
        "domain: d\ndescriptors: [{key: a, rate_limit: 5}]\n",
        &["f:2:36: `rate_limit` is a map, such as `{unit: minute, requests_per_unit: 10}`"],
    ),
    ("domain: 'd\n", &["f:1:9: cannot be read as YAML: unclosed quote"]),
];

#[test]
fn every_mistake_of_a_file_is_told_in_its_place() {
    for (text, expected) in REFUSED {
        assert_eq!(told(&envoy(text).expect_err(text)), *expected, "{text}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let file = SourceFile { name: "f".into(), text: b"domain: \xff".to_vec() };
    assert_eq!(told(&envoy_ratelimit(&[file], &regions(), false).expect_err("not UTF-8")), ["f:1:9: this is not UTF-8"]);
}

#[test]
fn scalars_are_what_they_were_written_as() {
    let limit = "rate_limit: {unit: day, requests_per_unit: 0x10}";
    for (value, exact) in
        [("30", "30"), ("012", "012"), ("yes", "yes"), ("True", "True"), ("2001-01-01", "2001-01-01"), ("'1.5'", "1.5"), ("1_0", "1_0")]
    {
        let imported = envoy(&descriptors(&format!("[{{key: k, value: {value}, {limit}}}]"))).expect("it loads");
        let matches = &imported.set.policies[0].matches["k"];
        assert!(matches.matches(exact) && !matches.matches(""), "{value}: {matches:?}");
        assert!(imported.yaml.contains("units: 16\n"), "{}", imported.yaml);
    }
}

#[test]
fn a_domain_is_in_one_file_unless_merged() {
    let one = |key: &str| descriptors(&format!("[{{key: {key}, rate_limit: {{unit: day, requests_per_unit: 1}}}}]"));
    let import = |keys: [&str; 2], merge| {
        let texts = keys.map(one);
        envoy_ratelimit(&files(&texts.each_ref().map(String::as_str)), &regions(), merge)
    };
    assert_eq!(
        told(&import(["a", "b"], false).expect_err("a domain twice")),
        ["g:1:9: the domain `d` is in f already; MERGE_DOMAIN_CONFIG=true is `--merge-domains`"]
    );
    assert_eq!(import(["a", "b"], true).expect("merged").set.policies.len(), 2);
    assert_eq!(
        told(&import(["a", "a"], true).expect_err("a descriptor twice")),
        ["g:2:15: another descriptor of this level has the same key and value, at f:2"]
    );
}

#[test]
fn only_the_first_document_is_read() {
    let imported = envoy("domain: d\n---\nnothing: good\n").expect("it loads");
    assert_eq!(told(&imported.notes), ["f:2:1: a second document begins here: as before, only the first one is read"]);
    assert_eq!(policies(&imported), "policies: []\n");
}

#[test]
fn a_value_that_a_pattern_takes_from_the_bare_key_is_no_override_of_it() {
    let rule = |value: &str| format!("{{key: k, value: '{value}', rate_limit: {{unit: day, requests_per_unit: 1}}}}");
    let imported = envoy(&descriptors(&format!("[{}, {}, {}, {}]", rule(""), rule("ab"), rule("c"), rule("a*")))).expect("it loads");
    let overrides: Vec<usize> = imported.set.policies.iter().map(|policy| policy.overrides.len()).collect();
    assert_eq!(overrides, [1, 0, 0], "`c` alone: {}", imported.yaml);
}

fn limits(text: &str) -> Result<Imported, Vec<Note>> {
    limitador(&files(&[text]), &regions())
}

#[test]
fn each_limit_of_a_namespace_becomes_a_policy() {
    let text = "\
- namespace: shop
  max_value: 10
  seconds: 60
  conditions:
    - \"descriptors[0]['req.method'] == 'GET'\"
    - descriptors[0]['path'].startsWith('/api') && descriptors[0].path != '/api/health'
  variables: [\"descriptors[0]['user_id']\"]
- id: all
  namespace: shop
  max_value: 1000
  seconds: 1
  conditions: []
  variables: []
";
    let imported = limits(text).expect("it loads");
    assert_eq!(told(&imported.notes), Vec::<String>::new());
    assert_eq!(
        policies(&imported),
        "\
policies:
# f:1
- name: shop-req-method-path-user-id
  match:
    domain: shop
    req.method: GET
    path:
      like: /api*
      not:
      - /api/health
  per:
  - user_id
  limit:
    algorithm: fixed-window
    units: 10
    window: 1min
# f:8
- name: shop-all
  match:
    domain: shop
  limit:
    algorithm: fixed-window
    units: 1000
    window: 1s
"
    );
}

#[test]
fn conditions_and_variables_with_nothing_written_are_none() {
    let imported = limits("- namespace: shop\n  max_value: 9\n  seconds: 60\n  conditions:\n  variables:\n").expect("it loads");
    assert_eq!(told(&imported.notes), Vec::<String>::new());
    let [policy] = imported.set.policies.as_slice() else { panic!("{}", imported.yaml) };
    assert_eq!((policy.matches.len(), policy.per.len()), (1, 0), "the namespace alone");
}

#[test]
fn a_limit_that_cannot_be_said_is_named() {
    let one = |more: &str| format!("- {{namespace: n, seconds: 1, max_value: 1, conditions: [], variables: [], {more}}}\n");
    let of = |fields: &str| format!("- {{namespace: n, max_value: 1, {fields}}}\n");
    for (text, expected, kept) in [
        (one("descriptoin: x"), "f:1:88: `descriptoin` has no meaning in a limit", 1),
        (of("seconds: 0, conditions: [], variables: []"), "f:1:3: this limit is left out: a window of 0 s is none", 0),
        (
            of("seconds: 1, conditions: ['x > 1'], variables: []"),
            "f:1:3: this limit is left out: the condition `x > 1` is none that a match can say",
            0,
        ),
        (of("seconds: 1, conditions: [], variables: ['x + 1']"), "f:1:3: this limit is left out: the variable `x + 1` is no attribute", 0),
        (
            of("seconds: 1, conditions: [\"x == 'a'\", \"x == 'b'\"], variables: []"),
            "f:1:3: this limit is left out: `x == 'b'`: what `x` must be",
            0,
        ),
        (
            of("seconds: 1, conditions: [], variables: [\"descriptors[0]['domain']\"]"),
            "f:1:3: this limit is left out: `domain` is the attribute that has",
            0,
        ),
        (
            of("seconds: 1, conditions: ['has(descriptors[0].x)', \"req.method == 'GET'\"], variables: []"),
            "f:1:3: `req.method == 'GET'` is read as of an attribute",
            1,
        ),
        (one("name: a") + &one("name: b"), "f:2:3: this is the same limit as at f:1", 1),
        (
            one("name: a").replace("max_value: 1,", "max_value: 9007199255,"),
            "f:1:3: `max_value` is 9007199255, and this counts up to 9007199254",
            1,
        ),
    ] {
        let imported = limits(&text).unwrap_or_else(|e| panic!("{text}: {:?}", told(&e)));
        let notes = told(&imported.notes);
        assert!(notes.len() == 1 && notes[0].starts_with(expected), "{text}: {notes:?}");
        assert_eq!(imported.set.policies.len(), kept, "{text}");
    }
}

#[test]
fn every_mistake_of_a_limit_is_told_in_its_place() {
    for (text, expected) in [
        ("a: 1", &["f:1:1: expected a list of limits, found a map"][..]),
        (
            "kind: ConfigMap\ndata: {limits.yaml: '[]'}",
            &["f:1:1: this is a ConfigMap, and no list of limits: give what stands in its `data` as a file of its own"],
        ),
        ("- 5", &["f:1:3: expected a map with `namespace`, `max_value`, `seconds`, `conditions` and `variables`, found the number `5`"]),
        (
            "- {namespace: 5, max_value: -1, seconds: '1', conditions: x, variables: [1], name: [a]}",
            &[
                "f:1:15: expected a text, found the number `5`",
                "f:1:29: expected a whole number from 0 to 18446744073709551615, found the number `-1`",
                "f:1:42: expected a whole number from 0 to 18446744073709551615, found the text `1`",
                "f:1:59: expected a list of expressions, found the text `x`",
                "f:1:74: expected an expression, found the number `1`",
                "f:1:84: expected a text, found a list",
            ],
        ),
        (
            "- {max_value: 1}",
            &[
                "f:1:3: `namespace` is missing",
                "f:1:3: `seconds` is missing",
                "f:1:3: `conditions` is missing",
                "f:1:3: `variables` is missing",
            ],
        ),
        ("- {namespace: a, namespace: b}", &["f:1:3: `seconds` is missing"]),
    ] {
        let mistakes = told(&limits(text).expect_err(text));
        if text.contains("namespace: a,") {
            assert!(mistakes.iter().any(|m| m.starts_with("f:1:18: `namespace` is already there")), "{mistakes:?}");
        } else {
            assert_eq!(mistakes, expected, "{text}");
        }
    }
    assert_eq!(policies(&limits("").expect("an empty file has no limits")), "policies: []\n");
}

#[test]
fn a_limit_of_less_than_a_request_for_each_region_is_named() {
    let regions: Vec<RegionName> = ["eu", "us"].map(|region| region.parse().expect("a name")).to_vec();
    for (units, more, named) in [(1, 5, true), (5, 1, true), (2, 2, false), (0, 2, false)] {
        let limit = |units| format!("rate_limit: {{unit: day, requests_per_unit: {units}}}");
        let text = descriptors(&format!("[{{key: k, {}}}, {{key: k, value: a, {}}}]", limit(units), limit(more)));
        let notes = told(&envoy_ratelimit(&files(&[&text]), &regions, false).expect("it loads").notes);
        assert_eq!(notes.len(), usize::from(named), "{units}, {more}: {notes:?}");
        assert!(notes.iter().all(|note| note.starts_with("f:2: a limit of 1 has less than a request for each of 2 regions")), "{notes:?}");
    }
}
