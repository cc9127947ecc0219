use super::*;
use quorate_shared::names::{PolicyName, SubjectHash, SubjectKey};
use quorate_shared::policy::Window;
use quorate_shared::units::Capacity;

fn budget(subject: &str) -> BudgetId {
    let policy: PolicyName = "p".parse().expect("a name");
    let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [subject]);
    BudgetId { policy, generation: 1, subject }
}

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

/// Of a limit of 1,000 a second, or in another period, with a burst of 1,000.
fn charge(subject: &str, cost: u64, period: u64) -> Charge {
    let limit = Limit::TokenBucket { rate: tokens(1_000), period: Duration::from_secs(period), burst: tokens(1_000) };
    let floor = Capacity::new(tokens(100), tokens(100));
    Charge {
        budget: budget(subject),
        limit,
        floor,
        lendable: floor,
        former_floors: vec![],
        floor_ttl: None,
        cost: tokens(cost),
        enforced: true,
    }
}

/// Of a bucket of 100 tokens.
fn left(remaining: u64, fits: bool) -> LimitDecision {
    LimitDecision {
        fits,
        capacity: Capacity::new(tokens(100), tokens(100)),
        remaining: tokens(remaining),
        retry_after: None,
        reset_after: None,
        used_lease: false,
    }
}

const PLENTY: u64 = 99;

const ALWAYS: fn(&BudgetId) -> Option<MicroTokens> = |_| None;

#[test]
fn estimates_are_told_from_other_admissions() {
    let (mut tracker, now) = (DemandTracker::default(), LocalTime::ZERO.after(Duration::from_secs(60)));
    let (known, estimated, unknown) = (charge("a", 2, 1), charge("a", 3, 1), charge("b", 3, 1));
    for charge in [&known, &estimated] {
        tracker.count(now, charge, true, &left(PLENTY, true));
    }
    tracker.note_estimate(&estimated);
    tracker.note_estimate(&unknown);
    let reports = tracker.reports(now, |_| Some(Duration::from_secs(1)), ALWAYS);
    let totals: Vec<_> = reports.iter().map(|report| (report.admitted, report.estimated)).collect();
    assert_eq!(totals, [(tokens(5), tokens(3))]);
}

/// One tracker, one budget, a clock.
struct World {
    tracker: DemandTracker,
    now_ms: u64,
    period: u64,
}

impl World {
    fn new(period: u64) -> Self {
        Self { tracker: DemandTracker::default(), now_ms: 60_000, period }
    }

    fn now(&self) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_millis(self.now_ms))
    }

    fn count(&mut self, cost: u64, decision: &LimitDecision) -> bool {
        self.tracker.count(self.now(), &charge("a", cost, self.period), decision.fits, decision)
    }

    /// `rate` requests a second, evenly, for so long.
    fn ask(&mut self, rate: u64, ms: u64, remaining: u64) {
        for _ in 0..ms * rate / 1_000 {
            self.count(1, &left(remaining, remaining > 0));
            self.now_ms += 1_000 / rate;
        }
    }

    fn rest(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn reports(&mut self) -> Vec<Report> {
        let period = Duration::from_secs(self.period);
        self.tracker.reports(self.now(), |_| Some(period), ALWAYS)
    }

    fn demand(&mut self) -> u64 {
        self.reports().first().map_or(0, |r| r.demand.tokens_floor())
    }

    fn is_news(&mut self) -> bool {
        let period = Duration::from_secs(self.period);
        self.tracker.hurry(self.now(), |_| Some(period), [budget("a")].iter()) == Hurry::News
    }
}

fn assert_near(demand: u64, least: u64, most: u64) {
    assert!((least..=most).contains(&demand), "{demand} is not from {least} to {most}");
}

#[test]
fn a_rise_is_known_after_a_moment_and_refused_requests_are_demand() {
    let mut world = World::new(1);
    world.ask(20, 5_000, PLENTY);
    assert_near(world.demand(), 15, 25);
    world.ask(500, 100, 0);
    // an eighth more than was seen, since it was refused
    assert_near(world.demand(), 400, 600);
}

#[test]
fn a_fall_is_known_after_a_moment_whole_or_in_part() {
    for (after, least, most) in [(0, 0, 0), (100, 80, 160)] {
        let mut world = World::new(1);
        world.ask(500, 5_000, PLENTY);
        assert_near(world.demand(), 400, 500);
        assert!(!world.is_news());
        match after {
            0 => world.rest(300),
            rate => world.ask(rate, 300, PLENTY),
        }
        assert!(world.is_news());
        assert_near(world.demand(), least, most);
        assert!(!world.is_news(), "the coordinators know");
    }
}

#[test]
fn a_demand_that_rises_or_falls_steadily_is_known_a_second_ahead() {
    let slope = |rates: &mut dyn Iterator<Item = u64>| {
        let mut world = World::new(1);
        world.ask(rates.next().expect("some"), 5_000, 10);
        rates.for_each(|rate| world.ask(rate, 500, 10));
        world.demand()
    };
    // each second 40 more than the one before, up to 500; then the other way
    assert_near(slope(&mut (100..=500).step_by(20)), 515, 580);
    assert_near(slope(&mut (100..=500).rev().step_by(20)), 30, 90);
}

#[test]
fn few_requests_have_no_trend() {
    let mut world = World::new(1);
    world.ask(3, 5_000, 10);
    for rate in (3..=15).step_by(3) {
        world.ask(rate, 1_000, 10);
        assert_near(world.demand(), 1, rate);
    }
}

#[test]
fn what_is_refused_after_a_jump_is_news_for_a_moment() {
    let mut world = World::new(1);
    world.ask(500, 100, 0);
    assert!(world.is_news());
    world.reports();
    assert!(!world.is_news(), "nothing was refused since");
    world.ask(500, 2_000, 0);
    assert!(!world.is_news(), "the coordinators have heard of it");
    world.reports();
    world.rest(100);
    assert!(world.is_news(), "fifty should have come, and none did");
}

#[test]
fn chance_is_no_change() {
    let mut world = World::new(1);
    world.ask(100, 5_000, PLENTY);
    let before = world.demand();
    for n in 0..40 {
        // one more, one less: as many as come in a quarter of a second
        world.ask(100, 250 + 10 * (n % 3), PLENTY);
        assert!(!world.is_news());
        assert_eq!(world.demand(), before);
    }
}

#[test]
fn a_gap_between_large_requests_is_no_end_of_demand() {
    // a heartbeat each quarter of a second, which falls between two requests; sizes that differ, the same sum
    for costs in [[33, 33], [65, 1]] {
        let mut world = World::new(1);
        for n in 0..320 {
            world.count(costs[n % 2], &left(0, false));
            world.now_ms += 31;
            if n > 32 && n % 8 == 0 {
                assert_near(world.demand(), 900, 1_400);
            }
        }
    }
}

#[test]
fn a_bucket_that_stays_full_asks_for_less_than_it_sees() {
    let demand_at = |remaining| {
        let mut world = World::new(1);
        world.ask(100, 5_000, remaining);
        world.demand()
    };
    assert_near(demand_at(PLENTY), 84, 92);
    assert_near(demand_at(10), 95, 105);
    assert_near(demand_at(0), 108, 118);
}

#[test]
fn one_request_is_no_demand_for_a_thousand_a_minute() {
    let mut world = World::new(60);
    world.count(1, &left(10, true));
    world.rest(900);
    assert_near(world.demand(), 15, 17);
    // steadily one in two seconds is thirty a minute, give or take
    for _ in 0..100 {
        world.count(1, &left(10, true));
        world.rest(2_000);
        world.demand();
    }
    assert_near(world.demand(), 18, 40);
}

#[test]
fn a_heartbeat_is_due_when_a_charge_does_not_fit_or_soon_will_not() {
    let mut world = World::new(1);
    assert!(world.count(1, &left(0, false)));
    let mut world = World::new(1);
    world.ask(50, 1_000, PLENTY);
    assert!(!world.count(1, &left(1, true)), "50 a second of 100");
    let mut world = World::new(1);
    world.ask(500, 200, PLENTY);
    assert!(world.count(1, &left(50, true)), "gone in a fraction of a second");
    assert!(!world.count(0, &left(0, false)), "a look");
}

#[test]
fn what_presses_on_no_floor_is_not_reported_and_an_idle_budget_is_forgotten() {
    let mut world = World::new(1);
    let second = |_: &BudgetId| Some(Duration::from_secs(1));
    world.count(1, &left(99, true));
    world.rest(1_000);
    assert!(world.tracker.reports(world.now(), second, |_| Some(MicroTokens(1))).is_empty(), "a hundredth of the burst");
    world.count(1, &left(40, true));
    world.rest(1_000);
    assert_eq!(world.tracker.reports(world.now(), second, |_| Some(MicroTokens(1))).len(), 1, "runs low");
    for _ in 0..5 {
        world.rest(1_000);
        world.tracker.reports(world.now(), second, |_| Some(tokens(2)));
    }
    assert!(world.tracker.budgets.is_empty());
    world.count(0, &left(0, true));
    world.count(1_001, &left(0, false));
    assert!(world.tracker.budgets.is_empty(), "a look is no demand, nor is what no capacity could serve");
}

#[test]
fn a_cost_that_no_share_holds_is_remembered_until_it_was_to_come_back() {
    let mut world = World::new(1);
    world.count(500, &left(100, false));
    world.rest(1_000);
    assert_eq!(world.reports()[0].largest, tokens(500));
    // the loan came: it is still needed while such costs come
    let lent = LimitDecision { capacity: Capacity::new(tokens(100), tokens(500)), ..left(0, true) };
    world.rest(10_000);
    world.count(500, &lent);
    world.rest(14_000);
    assert_eq!(world.reports()[0].largest, tokens(500));
    assert_eq!(wait_for_large(charge("a", 500, 1).limit, tokens(500)), Duration::from_millis(2_500));
    world.rest(2_000);
    assert_eq!(world.reports()[0].largest, MicroTokens::ZERO, "twice the wait, and ten seconds");
    assert!(world.tracker.budgets.is_empty());
}

#[test]
fn a_cost_beyond_a_limit_that_was_lowered_is_forgotten_with_the_next_request() {
    let mut world = World::new(1);
    for cost in [500, 300] {
        world.count(cost, &left(100, false));
        world.rest(1_000);
    }
    let limit = Limit::TokenBucket { rate: tokens(1_000), period: Duration::from_secs(1), burst: tokens(400) };
    world.tracker.count(world.now(), &Charge { limit, ..charge("a", 1, 1) }, true, &left(PLENTY, true));
    assert_eq!(world.reports()[0].largest, tokens(300));
}

#[test]
fn a_cost_that_a_loan_holds_is_told_by_an_agent_that_never_knew_it_without() {
    let mut world = World::new(1);
    let lent = LimitDecision { capacity: Capacity::new(tokens(100), tokens(500)), ..left(PLENTY, true) };
    world.count(100, &lent);
    assert_eq!(world.reports()[0].largest, MicroTokens::ZERO, "the floor holds as much");
    world.count(500, &lent);
    assert_eq!(world.reports()[0].largest, tokens(500), "or the loan would be given to others");
}

#[test]
fn who_needs_more_than_the_share_waits_for_what_it_lacks() {
    let (reach, hour) = (tokens(100), 3_600);
    let share = |remaining| LimitDecision { capacity: Capacity::new(tokens(3), tokens(34)), ..left(remaining, false) };
    let wait = |limit, cost, remaining| wait_for_more(limit, tokens(cost), reach, &share(remaining)).as_secs();
    let bucket = Limit::TokenBucket { rate: tokens(10), period: Duration::from_secs(hour), burst: tokens(100) };
    assert_eq!(wait(bucket, 35, 34), 2 + hour / 3, "a token at the present rate, and not all of them");
    assert_eq!(wait(bucket, 100, 0), 2 + 10 * hour, "never longer than until all of the limit has refilled");
    let log = Limit::SlidingLog { units: tokens(100), window: Duration::from_secs(hour) };
    assert_eq!(wait(log, 35, 34), 2, "others may give what they do not use");
    assert_eq!(wait(log, 99, 33), 2);
    assert_eq!(wait(log, 100, 33), 2 + hour, "what counts here leaves no room for it");
    let window = Limit::FixedWindow { units: tokens(100), window: Window::Every(Duration::from_secs(hour)) };
    assert_eq!(wait(window, 35, 0), 2);
}

#[test]
fn smaller_costs_do_not_keep_a_large_one_in_memory() {
    let mut world = World::new(1);
    world.count(500, &left(100, false));
    for (second, cost) in (0..20).zip([200, 300].into_iter().cycle()) {
        let expected = if second < 15 { 500 } else { 300 };
        world.count(cost, &left(100, false));
        assert_eq!(world.reports()[0].largest, tokens(expected), "after {second} s");
        world.rest(1_000);
    }
    let mut large = Large { own: MicroTokens::ZERO, costs: Vec::new() };
    for n in 0..100 {
        large.note(tokens(100 - n), world.now().after(Duration::from_secs(n)));
    }
    assert_eq!((large.costs.len(), large.largest()), (MOST_LARGE, tokens(100)), "in bounded memory");
}

#[test]
fn many_subjects_do_not_make_a_heartbeat_too_large() {
    let mut tracker = DemandTracker::default();
    let now = |ms| LocalTime::ZERO.after(Duration::from_millis(ms));
    for n in 0..MOST_REPORTS as u64 + 500 {
        tracker.count(now(10), &charge(&n.to_string(), 1 + n % 7, 1), true, &left(0, true));
    }
    let reports = tracker.reports(now(900), |_| Some(Duration::from_secs(1)), |_| Some(MicroTokens(1)));
    assert_eq!(reports.len(), MOST_REPORTS);
    assert_eq!(reports[0].demand, tokens(7));
}

/// Every subject is asked for once, at 50,000 a second; heartbeats go on. Gives the most that were followed at once.
fn most_followed(subjects: u64) -> usize {
    let mut tracker = DemandTracker::default();
    let month = Duration::from_secs(30 * 24 * 3600);
    let mut most = 0;
    for n in 0..subjects {
        let now = LocalTime::ZERO.after(Duration::from_secs(60) + Duration::from_micros(20 * n));
        tracker.count(now, &charge(&n.to_string(), 1, 30 * 24 * 3600), true, &left(PLENTY, true));
        most = most.max(tracker.followed());
        if n % 50_000 == 0 {
            tracker.reports(now, |_| Some(month), |_| Some(tokens(90)));
        }
    }
    most
}

#[test]
fn subjects_that_are_asked_for_once_take_bounded_memory() {
    assert!(most_followed(200_000) <= MOST_FOLLOWED);
}

#[test]
#[ignore = "minutes: cargo nextest run --release -p quorate-limiter ten_million --run-ignored only"]
fn ten_million_subjects_that_are_asked_for_once_take_bounded_memory() {
    assert!(most_followed(10_000_000) <= MOST_FOLLOWED);
}

#[test]
fn a_budget_that_runs_out_is_followed_however_many_others_are_asked_for() {
    let mut tracker = DemandTracker::default();
    let now = LocalTime::ZERO.after(Duration::from_secs(60));
    tracker.count(now, &charge("pressed", 1, 1), false, &left(0, false));
    for n in 0..2 * MOST_FOLLOWED {
        tracker.count(now, &charge(&n.to_string(), 1, 1), true, &left(PLENTY, true));
    }
    let reports = tracker.reports(now, |_| Some(Duration::from_secs(1)), |_| Some(tokens(1)));
    assert!(reports.iter().any(|report| report.budget == budget("pressed") && report.refused == tokens(1)));
}

#[test]
fn counts_begin_anew_and_demand_stays() {
    let mut world = World::new(1);
    for _ in 0..100 {
        world.now_ms += 10;
        world.count(1, &left(PLENTY, true));
    }
    let before = world.tracker.reports(world.now(), |_| Some(Duration::from_secs(1)), ALWAYS);
    world.tracker.count_anew();
    let after = world.tracker.reports(world.now(), |_| Some(Duration::from_secs(1)), ALWAYS);
    assert!(before[0].admitted == tokens(100) && after[0].admitted == MicroTokens::ZERO);
    assert!(before[0].demand > MicroTokens::ZERO);
    assert_eq!(after[0].demand, before[0].demand);
}
