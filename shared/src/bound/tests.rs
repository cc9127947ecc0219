use super::*;
use crate::policy::tests::policy;

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

fn flow(rate: u64, burst: u64) -> Limit {
    Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(60), burst: tokens(burst) }
}

fn quiet() -> Circumstances {
    Circumstances::quiet([flow(600, 40)], Capacity::ZERO)
}

fn term(bound: &Bound, name: &str) -> Term {
    bound.terms.iter().find(|t| t.name == name).expect("named").clone()
}

fn enforced() -> Policy {
    policy("p", 60, &[])
}

#[test]
fn a_quiet_policy_has_every_term_each_zero_with_a_reason() {
    for shape in [Shape::Flow, Shape::Allowance, Shape::Share] {
        let bound = bound(&enforced(), &Circumstances { shape, ..quiet() });
        assert_eq!((bound.overshoot_bound, bound.overshoot_per_period, bound.unbounded), (Some(0.0), Some(0.0), false));
        let names: Vec<&str> = bound.terms.iter().map(|t| t.name.as_str()).collect();
        let all = [
            "floors",
            "emergency",
            "fail-open",
            "observe",
            "lost-store",
            "drift",
            "wall-clock-steps",
            "slices",
            "max-hold",
            "settlements",
            "parts",
            "labels",
        ];
        assert_eq!(names, [&all[..], &["policy-change", "alarm"]].concat());
        assert!(bound.terms.iter().all(|t| t.amount == Some(0.0) && t.amount_per_period == Some(0.0) && !t.why.is_empty()));
    }
}

#[test]
fn parts_that_gateways_spend_are_an_amount_of_every_shape() {
    for shape in [Shape::Flow, Shape::Allowance, Shape::Share] {
        let bound = bound(&enforced(), &Circumstances { shape, parts: tokens(63), ..quiet() });
        assert_eq!((bound.overshoot_bound, bound.overshoot_per_period, bound.unbounded), (Some(63.0), Some(0.0), false));
        assert!(term(&bound, "parts").why.contains("63 of one budget"), "{bound:?}");
    }
}

#[test]
fn the_greatest_of_several_limits_counts_part_by_part() {
    let both = Circumstances::quiet([flow(600, 40), flow(60, 400)], Capacity::ZERO);
    assert_eq!((both.limit, both.period), (Capacity::new(tokens(600), tokens(400)), Duration::from_secs(60)));
}

#[test]
fn floors_beyond_the_limit_are_an_amount_and_of_a_flow_a_rate() {
    let beyond = Circumstances { floors_beyond: Capacity::new(tokens(300), tokens(20)), ..quiet() };
    let of_flow = bound(&enforced(), &beyond);
    assert_eq!((of_flow.overshoot_bound, of_flow.overshoot_per_period), (Some(20.0), Some(300.0)));
    assert!(term(&of_flow, "floors").why.contains("20 more at once and 300 more in each period"));
    let units = Circumstances { shape: Shape::Allowance, floors_beyond: Capacity::new(MicroTokens::ZERO, tokens(20)), ..quiet() };
    let of_units = bound(&enforced(), &units);
    assert_eq!((of_units.overshoot_bound, of_units.overshoot_per_period), (Some(20.0), Some(0.0)));
    assert!(term(&of_units, "floors").why.contains("20 more in each window"));
}

#[test]
fn a_step_gives_a_flow_its_refill_a_share_its_count_and_a_window_nothing() {
    let stepped = |shape, count, total| {
        let now = Circumstances { shape, steps: Steps { count, total }, ..quiet() };
        excess(&enforced(), &now).expect("bounded").burst
    };
    // 600 in a minute are 10 a second
    let half = Duration::from_millis(500);
    assert_eq!(stepped(Shape::Flow, 1, half), MicroTokens(5_000_001));
    assert_eq!(stepped(Shape::Flow, 1, Duration::from_secs(3_600)), tokens(40), "no more than the bucket holds");
    assert_eq!(stepped(Shape::Flow, 3, Duration::from_secs(3_600)), tokens(120), "each step fills it once");
    assert_eq!(stepped(Shape::Share, 2, half), tokens(80));
    assert_eq!(stepped(Shape::Allowance, 2, half), MicroTokens::ZERO);
}

#[test]
fn what_has_no_number_is_said_to_have_none() {
    let for_a_time = Policy { on_store_failure: OnStoreFailure::OpenFor(Duration::from_secs(30)), ..enforced() };
    let open = Policy { on_store_failure: OnStoreFailure::Open, ..enforced() };
    let observed = Policy { mode: Mode::Observe, ..enforced() };
    let canary = Policy { mode: Mode::Canary(PartsPerMillion(100_000)), ..enforced() };
    let broken = Circumstances { alarm: Some("p: 3 exceeds 2".into()), ..quiet() };
    let cases = [
        ("fail-open", open, quiet()),
        ("fail-open", for_a_time, quiet()),
        ("observe", observed, quiet()),
        ("observe", canary, quiet()),
        ("alarm", enforced(), broken),
    ];
    for (name, policy, now) in cases {
        let bound = bound(&policy, &now);
        assert_eq!((bound.overshoot_bound, bound.overshoot_per_period, bound.unbounded), (None, None, true), "{name}");
        assert_eq!(bound.terms.iter().filter(|t| t.amount.is_none()).map(|t| t.name.as_str()).collect::<Vec<_>>(), [name]);
        assert_eq!(excess(&policy, &now), None);
    }
}

#[test]
fn slots_that_ended_by_themselves_are_counted_and_may_have_been_those_of_crashed_holders() {
    let slots = Limit::Concurrency { slots: tokens(5), max_hold: Duration::from_secs(60) };
    let quiet = Circumstances::quiet([slots], Capacity::ZERO);
    assert_eq!(bound(&enforced(), &quiet).overshoot_bound, Some(0.0));
    let now = Circumstances { held: quiet.held.map(|held| Held { outlived: tokens(2), ..held }), ..quiet };
    let bound = bound(&enforced(), &now);
    let outlived = term(&bound, "max-hold");
    assert_eq!((bound.overshoot_bound, outlived.amount), (Some(2.0), Some(2.0)));
    assert!(outlived.why.contains("60s") && outlived.why.contains("crashed"), "{}", outlived.why);
}

#[test]
fn what_reservations_cost_beyond_their_estimates_is_in_the_bound() {
    let bound = bound(&enforced(), &Circumstances { settled: tokens(3), ..quiet() });
    let settled = term(&bound, "settlements");
    assert_eq!((bound.overshoot_bound, settled.amount, settled.amount_per_period), (Some(3.0), Some(3.0), Some(0.0)));
}

#[test]
fn terms_add_up_and_a_pending_change_says_which_limit_is_meant() {
    let now = Circumstances {
        floors_beyond: Capacity::new(tokens(300), tokens(20)),
        steps: Steps { count: 1, total: Duration::from_secs(3_600) },
        pending: Some("version 4 waits for eu".into()),
        ..quiet()
    };
    let bound = bound(&enforced(), &now);
    assert_eq!((bound.overshoot_bound, bound.overshoot_per_period), (Some(60.0), Some(300.0)));
    let change = term(&bound, "policy-change");
    assert!(change.amount == Some(0.0) && change.why.contains("old limit") && change.why.ends_with("version 4 waits for eu"));
}

#[test]
fn a_region_that_does_not_know_the_policy_leaves_no_number() {
    let bound = bound(&enforced(), &Circumstances { passed_by: Some("eu, us".into()), ..quiet() });
    assert!(bound.unbounded && bound.overshoot_bound.is_none());
    let change = term(&bound, "policy-change");
    assert!(change.amount.is_none() && change.why.starts_with("eu, us may go by an older set"), "{}", change.why);
}
