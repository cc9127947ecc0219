//! `quorate budgets`, `regions`, `bound` and `cluster status`: what a coordinator shows, as tables.

use super::check::mode_name;
use super::{Verdict, ended, watch};
use crate::arguments::{BudgetsArgs, ViewArgs};
use crate::client::{Ask, Client, Server};
use crate::table::{Align, Cell, Paint, Table, Tone, capacity, milliseconds, number, percent, rate};
use quorate_shared::api::{Bounds, BudgetState, Budgets, Cluster, Member, PolicyBound, RegionState, Regions};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// `quorate budgets`.
pub async fn budgets(args: BudgetsArgs, client: &Client) -> anyhow::Result<Verdict> {
    let limit = args.limit.map(|n| n.to_string());
    let query = [
        ("policy", args.policy.as_deref()),
        ("subject", args.subject.as_deref()),
        ("sort", args.sort.as_deref()),
        ("limit", limit.as_deref()),
        ("cursor", args.cursor.as_deref()),
    ];
    show(&Ask::get("/v1/budgets", &query), &args.view, client, budgets_text).await
}

/// `quorate regions`.
pub async fn regions(args: ViewArgs, client: &Client) -> anyhow::Result<Verdict> {
    show(&Ask::get("/v1/regions", &[]), &args, client, regions_text).await
}

/// `quorate bound`.
pub async fn bound(args: ViewArgs, client: &Client) -> anyhow::Result<Verdict> {
    show(&Ask::get("/v1/bound", &[]), &args, client, bound_text).await
}

/// `quorate cluster status`.
pub async fn cluster(args: ViewArgs, client: &Client) -> anyhow::Result<Verdict> {
    show(&Ask::get("/v1/cluster", &[]), &args, client, cluster_text).await
}

async fn show<T: DeserializeOwned>(
    ask: &Ask,
    view: &ViewArgs,
    client: &Client,
    text: impl Fn(&T, Paint) -> String,
) -> anyhow::Result<Verdict> {
    watch::show(view.watch, || async {
        let reply = client.ask_coordinator(ask).await?.success(Server::Coordinator)?;
        match view.json {
            true => Ok(ended(&reply.body)),
            false => Ok(text(&reply.value(Server::Coordinator)?, Paint::for_stdout())),
        }
    })
    .await
}

/// `quorate budgets`, for people.
pub fn budgets_text(budgets: &Budgets, paint: Paint) -> String {
    if budgets.budgets.is_empty() {
        return "no active budgets: no subject outgrows its floor\n".to_owned();
    }
    let mut table = Table::new(&[
        ("POLICY", Align::Left),
        ("SUBJECT", Align::Left),
        ("LIMIT", Align::Right),
        ("REGION", Align::Left),
        ("FLOOR", Align::Right),
        ("HELD", Align::Right),
        ("OFFERED", Align::Right),
        ("LENT", Align::Right),
        ("BORROWED", Align::Right),
        ("DEMAND", Align::Right),
        ("ADMITTED", Align::Right),
        ("REFUSED", Align::Right),
    ]);
    for budget in &budgets.budgets {
        budget_rows(&mut table, budget);
    }
    let shown = budgets.budgets.len();
    let more = budgets.cursor.as_ref().map(|c| format!("; the next page: --cursor {c}"));
    format!("{}{shown} of {} budgets{}\n", table.render(paint), budgets.total, more.unwrap_or_default())
}

fn budget_rows(table: &mut Table, budget: &BudgetState) {
    let period = Duration::from_millis(budget.period_ms);
    let mode = if budget.enforced { "" } else { &budget.mode };
    let part = |part| capacity(part, budget.limit, period);
    let mut first = [named(&budget.policy, mode), (&budget.subject).into(), budget.limit_in_words.as_str().into()];
    for (region, share) in &budget.regions {
        let rest = [
            region.into(),
            part(share.floor).into(),
            part(share.held).into(),
            part(share.offered).into(),
            part(share.lent).into(),
            part(share.borrowed).into(),
            rate(share.demand, period).into(),
            number(share.admitted, 0).into(),
            number(share.refused, 0).into(),
        ];
        table.row(std::mem::take(&mut first).into_iter().chain(rest));
    }
}

/// The name of a policy, and its mode if it lets anything pass on purpose.
fn named(policy: &str, mode: &str) -> Cell {
    match mode {
        "" | "enforce" => policy.into(),
        mode => Cell::toned(format!("{policy} ({mode})"), Tone::Attention),
    }
}

/// The agents of a region; of several, the one that renews is named so.
fn agents(region: &RegionState) -> String {
    let renews = |agent: &String| region.agents.len() > 1 && region.renewed_by.as_ref() == Some(agent);
    let named = region.agents.iter().map(|agent| if renews(agent) { format!("{agent} (renews)") } else { agent.clone() });
    named.collect::<Vec<_>>().join(", ")
}

/// `quorate regions`, for people.
pub fn regions_text(regions: &Regions, paint: Paint) -> String {
    if regions.regions.is_empty() {
        return "no regions: the policy set names none\n".to_owned();
    }
    let mut table = Table::new(&[
        ("REGION", Align::Left),
        ("STATE", Align::Left),
        ("MODE", Align::Left),
        ("LEASE ENDS IN", Align::Right),
        ("HEARTBEAT", Align::Right),
        ("SESSION", Align::Right),
        ("WEIGHT", Align::Right),
        ("POLICIES", Align::Right),
        ("STORE", Align::Left),
        ("AGENTS", Align::Left),
    ]);
    for region in &regions.regions {
        table.row(region_cells(region));
    }
    table.render(paint)
}

fn region_cells(region: &RegionState) -> [Cell; 10] {
    let state = match region.state.as_str() {
        "live" => Tone::Good,
        "expired" => Tone::Bad,
        _ => Tone::Attention,
    };
    let mode = if region.mode == mode_name(quorate_shared::api::DecisionMode::Leased) { Tone::Good } else { Tone::Attention };
    let (store, store_tone) = match region.store.healthy {
        true if region.clock_alarm().is_some() => {
            (format!("{}, {}", region.store.kind, region.clock_alarm().unwrap_or_default()), Tone::Bad)
        }
        true => (region.store.kind.clone(), Tone::Plain),
        false if region.store.kind.is_empty() => ("-".to_owned(), Tone::Plain),
        false => (format!("{}, unreachable", region.store.kind), Tone::Bad),
    };
    [
        (&region.region).into(),
        Cell::toned(&region.state, state),
        Cell::toned(&region.mode, mode),
        milliseconds(region.horizon_ms).into(),
        region.heartbeat_age_ms.map_or("never".to_owned(), |ms| format!("{} ago", milliseconds(ms))).into(),
        region.session.into(),
        region.weight.into(),
        format!("v{}", region.policies).into(),
        Cell::toned(store, store_tone),
        agents(region).into(),
    ]
}

/// `quorate bound`, for people.
pub fn bound_text(bounds: &Bounds, paint: Paint) -> String {
    if bounds.policies.is_empty() {
        return "no policies\n".to_owned();
    }
    let mut table = Table::new(&[
        ("POLICY", Align::Left),
        ("LIMIT", Align::Right),
        ("BOUND", Align::Right),
        ("MEASURED OVERSHOOT", Align::Right),
        ("LAST HOUR", Align::Right),
        ("UTILISATION", Align::Right),
    ]);
    for policy in &bounds.policies {
        let measured = |tokens| Cell::toned(tokens_text(tokens), measured_tone(policy, tokens));
        let (worst, last_hour) = (measured(policy.measured_overshoot), measured(policy.measured_overshoot_last_hour));
        let utilisation = policy.utilisation.map_or("no demand".to_owned(), percent);
        table.row([
            named(&policy.policy, &policy.mode),
            policy.limit_in_words.as_str().into(),
            bound_cell(policy),
            worst,
            last_hour,
            utilisation.into(),
        ]);
    }
    let terms: String = bounds.policies.iter().flat_map(term_lines).collect();
    let alarms: String = bounds.policies.iter().flat_map(alarm_lines).collect();
    let changes: String = bounds.policies.iter().filter_map(change_line).collect();
    let part = |title: &str, lines: String| if lines.is_empty() { lines } else { format!("\n{title}\n{lines}") };
    let broken: String = bounds.policies.iter().filter_map(broken_line).collect();
    let exceeded = "Measured beyond the bound of that time (a bug, or an assumption that did not hold):";
    let failed = "Internal checks that failed (a bug; quorate cluster clear-alarm lets grants go on):";
    [
        table.render(paint),
        part(exceeded, broken),
        part(failed, alarms),
        part("Terms that are not 0:", terms),
        part("Bounds of old limits, until a change is in force:", changes),
    ]
    .concat()
}

fn bound_cell(policy: &PolicyBound) -> Cell {
    Cell::toned(promised(policy), if policy.bound.unbounded { Tone::Attention } else { Tone::Plain })
}

/// By how much a limit can be exceeded at most.
pub fn promised(policy: &PolicyBound) -> String {
    match (policy.bound.overshoot_bound, policy.bound.overshoot_per_period) {
        (Some(tokens), Some(more)) => amount_text(tokens, more, policy),
        _ => "unbounded".to_owned(),
    }
}

/// So much at once, and so much in each period if that is not nothing.
fn amount_text(tokens: f64, more: f64, policy: &PolicyBound) -> String {
    match more > 0.0 {
        true => format!("{} + {}", tokens_text(tokens), rate(more, Duration::from_millis(policy.period_ms))),
        false => tokens_text(tokens),
    }
}

fn alarm_lines(policy: &PolicyBound) -> impl Iterator<Item = String> {
    policy.alarms.iter().map(|alarm| format!("  {}\n", alarm.what))
}

/// A change that is not in force yet, and so the bound that of the old limit.
pub fn change_line(policy: &PolicyBound) -> Option<String> {
    let change = policy.change.as_ref()?;
    let until = change
        .until_ms
        .map_or("nobody knows how long".to_owned(), |ms| format!("about {} more while regions go on answering", milliseconds(ms)));
    Some(format!("  {}, version {} waits, {until}: {}\n", policy.policy, change.version, change.why))
}

/// An overshoot beyond the bound that held at that time is a broken promise.
fn measured_tone(policy: &PolicyBound, tokens: f64) -> Tone {
    match tokens > 0.0 {
        true if policy.measured_beyond_bound > 0.0 => Tone::Bad,
        true => Tone::Attention,
        false => Tone::Good,
    }
}

fn broken_line(policy: &PolicyBound) -> Option<String> {
    let beyond = policy.measured_beyond_bound;
    (beyond > 0.0).then(|| format!("  {}: by {}\n", policy.policy, tokens_text(beyond)))
}

/// The terms of a bound that are not 0.
pub fn term_lines(policy: &PolicyBound) -> impl Iterator<Item = String> {
    let relevant = policy.bound.terms.iter().filter(|t| t.amount != Some(0.0) || t.amount_per_period != Some(0.0));
    relevant.map(|term| {
        let amount = term.amount.zip(term.amount_per_period);
        let amount = amount.map_or("unbounded".to_owned(), |(tokens, more)| amount_text(tokens, more, policy));
        format!("  {}, {}: {amount}; {}\n", policy.policy, term.name, term.why)
    })
}

fn tokens_text(tokens: f64) -> String {
    match number(tokens, 3).as_str() {
        "1" => "1 token".to_owned(),
        text => format!("{text} tokens"),
    }
}

fn cluster_text(cluster: &Cluster, paint: Paint) -> String {
    let leader = match cluster.leader {
        Some(leader) => paint.tone(&format!("node {leader}"), Tone::Good),
        None => paint.tone("none", Tone::Bad),
    };
    let snapshot = cluster.snapshot.map_or("none".to_owned(), |index| format!("up to {index}"));
    let mut table =
        Table::new(&[("NODE", Align::Right), ("ROLE", Align::Left), ("ADDRESS", Align::Left), ("ENTRIES BEHIND", Align::Right)]);
    for member in &cluster.members {
        table.row([member.id.into(), member_role(member, cluster).into(), (&member.address).into(), lag(member).into()]);
    }
    format!(
        "leader {leader}, term {}\nnode {} ({}) answers: applied {} of {} entries at level {}, snapshot {snapshot}\n{}",
        cluster.term,
        cluster.node,
        cluster.state,
        cluster.applied,
        cluster.last_log,
        cluster.level,
        table.render(paint)
    )
}

fn member_role(member: &Member, cluster: &Cluster) -> &'static str {
    match (cluster.leader == Some(member.id), member.voter) {
        (true, _) => "leader",
        (false, true) => "voter",
        (false, false) => "learner",
    }
}

fn lag(member: &Member) -> String {
    member.lag.map_or("not known here".to_owned(), |entries| entries.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::api::{BudgetAlarm, BudgetShare, CapacityTokens, PendingChange, StoreStatus};
    use quorate_shared::bound::{Bound, Term};
    use std::collections::BTreeMap;

    fn c(rate: f64, burst: f64) -> CapacityTokens {
        CapacityTokens { rate, burst }
    }

    #[test]
    fn a_budget_is_named_once_and_has_a_line_for_each_region() {
        let share = |held| BudgetShare { floor: c(50.0, 100.0), held, admitted: 7.0, ..BudgetShare::default() };
        let budget = BudgetState {
            policy: "write-api".into(),
            subject: "0123456789abcdef".into(),
            limit: c(100.0, 200.0),
            limit_in_words: "100/s +200".into(),
            period_ms: 1_000,
            mode: "canary 10%".into(),
            enforced: true,
            regions: BTreeMap::from([("eu".into(), share(c(0.0, 0.0))), ("us".into(), share(c(45.5, 90.0)))]),
            floor_ttl_ms: None,
            windows: vec![],
            alarm: None,
        };
        let text = budgets_text(&Budgets { budgets: vec![budget], cursor: Some("x".into()), total: 9 }, Paint::NONE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].starts_with("write-api  0123456789abcdef  100/s +200  eu"), "{text}");
        assert!(lines[2].starts_with("           ") && lines[2].contains("45.5/s +90"), "{text}");
        assert_eq!(lines[3], "1 of 9 budgets; the next page: --cursor x");
    }

    fn policy(overshoot_bound: Option<f64>, overshoot_per_period: Option<f64>, terms: Vec<Term>) -> PolicyBound {
        PolicyBound {
            policy: "p".into(),
            limit: c(600.0, 40.0),
            limit_in_words: "600/min +40".into(),
            period_ms: 60_000,
            mode: "enforce".into(),
            bound: Bound { overshoot_bound, overshoot_per_period, unbounded: overshoot_bound.is_none(), terms },
            measured_overshoot: 1.0,
            measured_overshoot_last_hour: 0.0,
            measured_beyond_bound: 0.0,
            utilisation: Some(0.5),
            change: None,
            alarms: vec![],
        }
    }

    fn term(name: &str, amount: Option<f64>, amount_per_period: Option<f64>) -> Term {
        Term { name: name.into(), amount, amount_per_period, why: "because".into() }
    }

    #[test]
    fn a_bound_shows_the_terms_that_are_not_zero() {
        let terms = vec![
            term("floors", Some(20.0), Some(300.0)),
            term("drift", Some(0.0), Some(0.0)),
            term("max-hold", Some(2.0), Some(0.0)),
            term("fail-open", None, None),
        ];
        let text = bound_text(&Bounds { policies: vec![policy(None, None, terms)] }, Paint::NONE);
        assert!(text.contains("600/min +40  unbounded") && text.contains("1 token ") && text.contains("50%"), "{text}");
        let lines = "  p, floors: 20 tokens + 300/min; because\n  p, max-hold: 2 tokens; because\n  p, fail-open: unbounded; because\n";
        assert!(text.ends_with(lines), "{text}");
    }

    #[test]
    fn a_policy_that_lets_pass_on_purpose_says_so() {
        let canary = PolicyBound { mode: "canary 10%".into(), ..policy(None, None, vec![]) };
        let text = bound_text(&Bounds { policies: vec![canary] }, Paint::NONE);
        assert!(text.contains("\np (canary 10%)  600/min"), "{text}");
    }

    #[test]
    fn an_overshoot_is_noticed_and_one_beyond_its_bound_is_called_what_it_is() {
        let within = policy(Some(2.0), Some(0.0), vec![]);
        assert_eq!([0.0, 1.0].map(|tokens| measured_tone(&within, tokens)), [Tone::Good, Tone::Attention]);
        let broken = PolicyBound { measured_beyond_bound: 1.5, ..within };
        assert_eq!(measured_tone(&broken, 1.0), Tone::Bad);
        let text = bound_text(&Bounds { policies: vec![broken] }, Paint::NONE);
        assert!(text.contains("1 token   0 tokens") && text.ends_with("did not hold):\n  p: by 1.5 tokens\n"), "{text}");
    }

    #[test]
    fn a_pending_change_says_whose_bound_it_is_and_until_when() {
        let change = |until_ms: Option<u64>| {
            let far = if until_ms.is_none() { vec!["eu".into()] } else { vec![] };
            Some(PendingChange { version: 4, waits_for: vec!["eu".into()], out_of_reach: far, until_ms, why: "so".into() })
        };
        let text = |until_ms| {
            let waiting = PolicyBound { change: change(until_ms), ..policy(Some(0.0), Some(0.0), vec![]) };
            bound_text(&Bounds { policies: vec![waiting] }, Paint::NONE)
        };
        let (known, unknown) = (text(Some(3_200)), text(None));
        assert!(
            known.ends_with("until a change is in force:\n  p, version 4 waits, about 3.2s more while regions go on answering: so\n"),
            "{known}"
        );
        assert!(unknown.ends_with("  p, version 4 waits, nobody knows how long: so\n"), "{unknown}");
    }

    #[test]
    fn a_failed_check_is_shown_with_what_to_do() {
        let alarm = BudgetAlarm { policy: "p".into(), subject: "00ff".into(), what: "p/1/00ff: 3 exceeds 2".into() };
        let broken = PolicyBound { alarms: vec![alarm], ..policy(None, None, vec![]) };
        let text = bound_text(&Bounds { policies: vec![broken] }, Paint::NONE);
        assert!(text.contains("clear-alarm") && text.ends_with("  p/1/00ff: 3 exceeds 2\n"), "{text}");
    }

    #[test]
    fn regions_and_cluster_say_what_is_wrong() {
        let region = RegionState {
            region: "eu".into(),
            state: "expired".into(),
            session: 3,
            horizon_ms: 0,
            heartbeat_age_ms: None,
            agents: vec!["a".into(), "b".into()],
            renewed_by: Some("b".into()),
            store: StoreStatus { kind: "redis".into(), ..StoreStatus::default() },
            mode: "floor".into(),
            weight: 1,
            policies: 4,
            clock_ahead_ms: None,
        };
        let healthy = StoreStatus { healthy: true, ..region.store.clone() };
        let ahead = |ms| RegionState { store: healthy.clone(), clock_ahead_ms: Some(ms), ..region.clone() };
        let text = |region| regions_text(&Regions { regions: vec![region] }, Paint::NONE);
        assert!(text(ahead(3_600_000)).contains("redis, its store's clock is 3600 s ahead of that of every other region"));
        assert!(text(ahead(-60_000)).contains("60 s behind") && !text(ahead(9_000)).contains("clock"));
        let text = text(region);
        assert!(
            text.contains("expired") && text.contains("never") && text.contains("redis, unreachable") && text.contains("a, b (renews)"),
            "{text}"
        );
        let member = |id, voter| Member { id, address: format!("127.0.0.1:710{id}"), voter, lag: (id == 2).then_some(5) };
        let cluster = Cluster {
            node: 1,
            leader: Some(1),
            term: 7,
            members: vec![member(1, true), member(2, true), member(3, false)],
            ..Cluster::default()
        };
        let text = cluster_text(&cluster, Paint::NONE);
        assert!(text.starts_with("leader node 1, term 7\n"), "{text}");
        assert!(text.contains("   2  voter    127.0.0.1:7102               5\n"), "{text}");
        assert!(text.contains("learner"), "{text}");
    }
}
