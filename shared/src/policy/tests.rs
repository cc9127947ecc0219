//! Successors, floors and names of policies.

use super::*;

pub fn policy(name: &str, period: u64, per: &[&str]) -> Policy {
    let limit = Limit::TokenBucket { rate: MicroTokens::TOKEN, period: Duration::from_secs(period), burst: MicroTokens::TOKEN };
    Policy {
        name: name.parse().expect("a name"),
        generation: 0,
        matches: BTreeMap::from([("route".into(), Matcher::Prefix("/api".into()))]),
        no_other_attributes: false,
        replaces: Vec::new(),
        per: per.iter().map(|s| (*s).to_owned()).collect(),
        limit,
        floor: FloorRule::Together(PartsPerMillion::WHOLE),
        lendable: PartsPerMillion(900_000),
        allow_overcommit: false,
        cost: CostRule::Fixed(MicroTokens::TOKEN),
        overrides: vec![],
        on_store_failure: OnStoreFailure::Closed,
        emergency: PartsPerMillion(0),
        floor_ttl: None,
        mode: Mode::Enforce,
    }
}

#[test]
fn one_that_is_open_gives_way_to_one_that_is_not_and_to_one_that_is_so_for_less_long() {
    let answers = |answer| Policy { on_store_failure: answer, ..policy("p", 1, &[]) };
    let both = |one, other| answers(one).as_strict_as(&answers(other)).on_store_failure;
    let open_for = |seconds| OnStoreFailure::OpenFor(Duration::from_secs(seconds));
    assert_eq!(both(open_for(30), OnStoreFailure::Emergency), OnStoreFailure::Emergency);
    assert_eq!(both(OnStoreFailure::Closed, open_for(30)), OnStoreFailure::Closed);
    assert_eq!([both(open_for(30), open_for(60)), both(open_for(60), open_for(30))], [open_for(30); 2]);
}

#[test]
fn a_budget_goes_on_unless_its_kind_changes() {
    let set = |policies| PolicySet { policies, ..PolicySet::default() };
    let first = set(vec![policy("a", 1, &["t"]), policy("b", 1, &["t"])]).succeed(&PolicySet::default(), 0);
    assert_eq!(first.policies.iter().map(|p| p.generation).collect::<Vec<_>>(), [1, 1]);
    let second = set(vec![policy("a", 1, &["t"]), policy("b", 60, &["t"]), policy("c", 1, &[])]).succeed(&first, 1);
    assert_eq!(second.version, 2);
    assert_eq!(second.policies.iter().map(|p| p.generation).collect::<Vec<_>>(), [1, 2, 2]);
}

#[test]
fn a_canary_is_a_tenth_of_the_subjects_and_always_the_same() {
    let (key, name) = (SubjectKey::new([3; 32]), "a".parse().expect("a name"));
    let canary = |tenth: u32| Mode::Canary(PartsPerMillion(tenth * 100_000));
    let enforced = |mode: Mode| -> Vec<u32> {
        (0..10_000).filter(|n| mode.enforces(SubjectHash::of(&key, &name, [n.to_string().as_str()]))).collect()
    };
    let tenth = enforced(canary(1));
    // 30 is the standard deviation
    assert!((900..=1_100).contains(&tenth.len()), "{} of 10,000", tenth.len());
    assert_eq!(enforced(canary(1)), tenth);
    let half = enforced(canary(5));
    assert!(tenth.iter().all(|n| half.contains(n)), "who was enforced stays so as the canary grows");
    assert_eq!((enforced(canary(0)).len(), enforced(canary(10)).len()), (0, 10_000));
    assert_eq!((enforced(Mode::Observe).len(), enforced(Mode::Enforce).len()), (0, 10_000));
    assert_eq!([canary(1), Mode::Observe, Mode::Enforce].map(|mode| mode.to_string()), ["canary 10%", "observe", "enforce"]);
}

#[test]
fn a_request_without_the_subject_is_not_limited_by_it() {
    let key = SubjectKey::new([0; 32]);
    let p = policy("a", 1, &["tenant"]);
    let with = |route, tenant| move |name: &str| if name == "route" { route } else { tenant };
    assert!(p.subject(&key, with(Some("/api/x"), Some("acme")), 2).is_some());
    assert!(p.subject(&key, with(Some("/other"), Some("acme")), 2).is_none());
    assert!(p.subject(&key, with(Some("/api/x"), None), 1).is_none());
}

#[test]
fn a_policy_for_whole_requests_leaves_those_with_more_attributes_alone() {
    let key = SubjectKey::new([0; 32]);
    let meets =
        |policy: &Policy, count| policy.subject(&key, |name| Some(if name == "route" { "/api/x" } else { "acme" }), count).is_some();
    for (per, count, met) in [(&["tenant"][..], 2, true), (&["tenant"], 3, false), (&["route"], 1, true), (&["route"], 2, false)] {
        let any = policy("a", 1, per);
        assert!(meets(&any, count));
        assert_eq!(meets(&Policy { no_other_attributes: true, ..any }, count), met, "{per:?} of {count}");
    }
}

#[test]
fn a_value_is_matched_by_what_it_is_like_and_not_like() {
    let like = |like: &str, not: &[&str]| Matcher::Like { like: Pattern::new(like), not: not.iter().map(|p| Pattern::new(*p)).collect() };
    assert!(like("*", &["10.*", "b"]).matches("a") && like("*", &["10.*", "b"]).matches(""));
    assert!(!like("*", &["10.*", "b"]).matches("b") && !like("*", &["10.*", "b"]).matches("10.1"));
    assert!(like("a*", &[]).matches("ab") && !like("a*", &[]).matches("b") && !like("a*", &["ab"]).matches("ab"));
}
