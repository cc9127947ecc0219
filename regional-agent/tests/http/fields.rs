//! Whatever the verdict, the header fields parse, agree with the body and round to the safe side.

use crate::scripted::{Reply, Scripted, check, policy};
use proptest::prelude::*;
use quorate_agent::decide::{PolicyDecision, Verdict};
use quorate_shared::policy::Limit;
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use sfv::{BareItem, List, ListEntry, Parser};
use std::collections::BTreeMap;
use std::time::Duration;

type Items = Vec<(String, BTreeMap<String, u64>)>;

/// A field as names with whole-number parameters, which is all it may be.
fn items(reply: &Reply, name: &str) -> Items {
    let Some(field) = reply.header(name) else { return Vec::new() };
    let list: List = Parser::new(field).parse().expect("a List");
    let item = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("an inner list: {field}") };
        let BareItem::String(name) = &item.bare_item else { panic!("no String: {field}") };
        let parameter = |(key, value): (&sfv::Key, &BareItem)| {
            let value = value.as_integer().expect("an Integer");
            (key.as_str().to_owned(), u64::try_from(i64::from(value)).expect("not negative"))
        };
        (name.as_str().to_owned(), item.params.iter().map(parameter).collect())
    };
    list.iter().map(item).collect()
}

fn micro_tokens() -> impl Strategy<Value = MicroTokens> {
    prop_oneof![Just(0), 0..=3_000_000_u64, 0..=MAX_EXACT].prop_map(MicroTokens)
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 0..=3_000_000_u64, any::<u64>()].prop_map(Duration::from_micros)
}

prop_compose! {
    fn decision(name: usize)(
        rate in micro_tokens(), burst in micro_tokens(), remaining in micro_tokens(), cost in micro_tokens(),
        wait in proptest::option::of(span()), reset_after in proptest::option::of(span()),
        fits: bool, enforced: bool, known in prop::bool::weighted(0.9),
    ) -> PolicyDecision {
        let base = policy(&format!("p{name}"), remaining, None);
        let decision = base.decision.map(|d| quorate_limiter::decision::LimitDecision {
            fits, capacity: Capacity::new(rate, burst), retry_after: wait, reset_after, ..d
        });
        PolicyDecision {
            limit: Limit::TokenBucket { rate, period: Duration::from_secs(1), burst },
            reach: burst, cost, enforced, decision: decision.filter(|_| known), ..base
        }
    }
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    (any::<bool>(), (decision(0), decision(1), decision(2)), 0..=3_usize).prop_map(|(allowed, (a, b, c), count)| {
        let mut limits = vec![a, b, c];
        limits.truncate(count);
        Verdict { allowed, limits, reservation: None, slot: None }
    })
}

proptest! {
    #[test]
    fn fields_parse_and_agree(verdict in verdicts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(check(&Scripted::saying(Ok(verdict.clone())), r#"{"attributes":{}}"#));
        let retry_after: Option<u64> = reply.header("retry-after").map(|text| text.parse().expect("seconds"));
        prop_assert_eq!(reply.status == 429, retry_after.is_some());
        prop_assert!(retry_after.is_none_or(|seconds| seconds >= 1));

        let known: Vec<&PolicyDecision> = verdict.limits.iter().filter(|l| l.decision.is_some()).collect();
        let (policies, states) = (items(&reply, "ratelimit-policy"), items(&reply, "ratelimit"));
        let names: Vec<&str> = known.iter().map(|l| l.policy.as_str()).collect();
        prop_assert_eq!(policies.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names.clone());
        prop_assert_eq!(states.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
        for ((limit, (_, policy)), (_, state)) in known.iter().zip(&policies).zip(&states) {
            let decision = limit.decision.unwrap();
            prop_assert_eq!(policy["q"], decision.capacity.burst.0 / 1_000_000);
            prop_assert!(policy["w"] >= 1 && policy.len() == 2);
            prop_assert_eq!(state["r"], decision.remaining.0 / 1_000_000);
            prop_assert_eq!(state.contains_key("t"), decision.reset_after.is_some());
            if let Some(t) = state.get("t") {
                prop_assert!(retry_after.is_none_or(|seconds| *t <= seconds));
                prop_assert!(retry_after == Some(*t) || Duration::from_secs(*t) >= decision.reset_after.unwrap());
            }
        }
        if let Some(seconds) = retry_after {
            let waits = verdict.limits.iter().filter(|l| l.refuses()).filter_map(|l| l.decision.unwrap().retry_after);
            prop_assert!(waits.max().is_none_or(|wait| wait <= Duration::from_secs(seconds)));
        }
    }
}
