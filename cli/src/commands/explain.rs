//! `quorate explain`: which policies a request meets, whose budget each is, who holds how much of it until
//! when, and by how much its limit can be exceeded.

use super::check::mode_name;
use super::{Verdict, print, views};
use crate::arguments::ExplainArgs;
use crate::client::{Ask, Client, Failure, Server};
use crate::table::{Align, Paint, Table, capacity, milliseconds, number, rate};
use chrono::{DateTime, SecondsFormat};
use quorate_shared::api::{
    Bounds, BudgetState, BudgetWindow, Budgets, CapacityTokens, CheckAnswer, CheckRequest, LimitState, PolicyBound, RegionState, Regions,
    WindowUnits,
};
use quorate_shared::text::DurationText;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// All that is known.
#[derive(Debug, Serialize)]
struct Explanation {
    /// What the agent sees without taking anything; absent if it does not answer.
    agent: Option<CheckAnswer>,
    /// Why it does not.
    agent_error: Option<String>,
    budgets: Vec<BudgetState>,
    regions: Vec<RegionState>,
    bounds: Vec<PolicyBound>,
}

/// `quorate explain`.
pub async fn run(args: ExplainArgs, client: &Client) -> anyhow::Result<Verdict> {
    let request = CheckRequest { attributes: args.attributes.0, cost: None, request_id: None };
    let post = |path, body: &CheckRequest| anyhow::Ok(Ask::send(Method::POST, path, &[], "application/json", serde_json::to_string(body)?));
    let budgets: Budgets = ask(client, &post("/v1/explain", &request)?).await?;
    let regions: Regions = ask(client, &Ask::get("/v1/regions", &[])).await?;
    let Bounds { policies } = ask(client, &Ask::get("/v1/bound", &[])).await?;
    let looked = look(client, &post("/v1/check", &CheckRequest { cost: Some(0), ..request })?).await;
    let (agent, agent_error) = looked.map_or_else(|e| (None, Some(e.to_string())), |answer| (Some(answer), None));
    let bounds = policies.into_iter().filter(|bound| budgets.budgets.iter().any(|budget| budget.policy == bound.policy)).collect();
    let explanation = Explanation { agent, agent_error, budgets: budgets.budgets, regions: regions.regions, bounds };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string(&explanation)?),
        false => text(&explanation, Paint::for_stdout()),
    };
    print(&text)?;
    Ok(Verdict::Done)
}

async fn ask<T: DeserializeOwned>(client: &Client, ask: &Ask) -> Result<T, Failure> {
    client.ask_coordinator(ask).await?.success(Server::Coordinator)?.value(Server::Coordinator)
}

async fn look(client: &Client, ask: &Ask) -> Result<CheckAnswer, Failure> {
    client.ask_agent(ask).await?.success(Server::Agent)?.value(Server::Agent)
}

fn text(all: &Explanation, paint: Paint) -> String {
    let mut text = match all.budgets.is_empty() {
        true => "no policy matches: the request is not limited\n".to_owned(),
        false => all.budgets.iter().map(|budget| budget_text(budget, all, paint)).collect::<Vec<_>>().join("\n"),
    };
    if let Some(error) = &all.agent_error {
        text.push_str(&format!("\nThe agent said nothing of what is left: {error}\n"));
    }
    text
}

fn budget_text(budget: &BudgetState, all: &Explanation, paint: Paint) -> String {
    let period = Duration::from_millis(budget.period_ms);
    let mode = if budget.enforced { "enforced" } else { "only observed" };
    let title = paint.bold(&budget.policy);
    let mut text = format!("{title}: {}, {mode}; subject {}\n", budget.limit_in_words, budget.subject);
    let seen = all.agent.as_ref().and_then(|agent| agent.limits.iter().find(|limit| limit.policy == budget.policy));
    if let Some(limit) = seen {
        text.push_str(&seen_text(limit));
    }
    let columns = [
        ("REGION", Align::Left),
        ("FLOOR", Align::Right),
        ("HELD", Align::Right),
        ("LENT", Align::Right),
        ("BORROWED", Align::Right),
        ("DEMAND", Align::Right),
        ("UNTIL", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for (region, share) in &budget.regions {
        let [floor, held, lent, borrowed] =
            [share.floor, share.held, share.lent, share.borrowed].map(|part| capacity(part, budget.limit, period).into());
        table.row([region.into(), floor, held, lent, borrowed, rate(share.demand, period).into(), until(region, &all.regions).into()]);
    }
    text.push_str(&table.render(paint));
    text.extend(set_aside_line(budget, period));
    text.extend(floor_ttl_line(budget));
    text.extend(budget.windows.iter().map(window_line));
    if let Some(bound) = all.bounds.iter().find(|bound| bound.policy == budget.policy) {
        text.push_str(&format!("can be exceeded by: {}\n", views::promised(bound)));
        text.extend(views::term_lines(bound));
        text.extend(views::change_line(bound));
    }
    text
}

/// What agents may spend without their store, which is in no column; `None` if nothing.
fn set_aside_line(budget: &BudgetState, period: Duration) -> Option<String> {
    let nothing = CapacityTokens::default();
    let with_any = budget.regions.iter().filter(|(_, share)| share.set_aside != nothing);
    let each: Vec<String> =
        with_any.map(|(region, share)| format!("{region} {}", capacity(share.set_aside, budget.limit, period))).collect();
    (!each.is_empty()).then(|| format!("set aside for agents without their store: {}\n", each.join(", ")))
}

/// How long floors hold without a coordinator, if not for ever.
fn floor_ttl_line(budget: &BudgetState) -> Option<String> {
    let ttl = Duration::from_millis(budget.floor_ttl_ms?);
    Some(format!("floors hold for {} without a coordinator, and from then on nothing is admitted\n", DurationText(ttl)))
}

/// What was granted of a window, and spent.
fn window_line(window: &BudgetWindow) -> String {
    let begins = i64::try_from(window.begins_at_ms).ok().and_then(DateTime::from_timestamp_millis);
    let begins = begins.map_or_else(|| format!("{} ms", window.begins_at_ms), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    let of =
        |(region, units): (&String, &WindowUnits)| format!("{region} {} of {} spent", number(units.spent, 2), number(units.granted, 2));
    format!("window from {begins}: {}\n", window.regions.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// What the agent's region may use of it at this moment.
fn seen_text(limit: &LimitState) -> String {
    let (left, full) = (format!("{} of {} left", limit.remaining, limit.limit), milliseconds(limit.reset_after_ms));
    format!("at the agent that was asked: {left}, full in {full}, {}\n", mode_name(limit.mode))
}

/// Until when a region may use more than its floor.
fn until(region: &str, regions: &[RegionState]) -> String {
    match regions.iter().find(|known| known.region == region) {
        Some(known) if known.horizon_ms > 0 => format!("{} without a word", milliseconds(known.horizon_ms)),
        _ => "floor alone: no lease".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::api::{BudgetShare, DecisionMode};
    use quorate_shared::bound::{Bound, Term};
    use std::collections::BTreeMap;

    fn explanation() -> Explanation {
        let c = |rate, burst| CapacityTokens { rate, burst };
        let share = |held| BudgetShare { floor: c(50.0, 100.0), held, ..BudgetShare::default() };
        let term = Term { name: "observe".into(), amount: None, amount_per_period: None, why: "the policy only observes".into() };
        let limit = LimitState {
            policy: "write".into(),
            limit: 120,
            remaining: 41,
            reset_after_ms: 1_590,
            mode: DecisionMode::Leased,
            observed: false,
        };
        let region = RegionState {
            region: "us".into(),
            state: "live".into(),
            session: 1,
            horizon_ms: 4_200,
            heartbeat_age_ms: Some(800),
            agents: vec![],
            renewed_by: None,
            store: Default::default(),
            mode: "leased".into(),
            weight: 1,
            policies: 1,
            clock_ahead_ms: None,
        };
        Explanation {
            agent: Some(CheckAnswer { decision: "allow".into(), limits: vec![limit], slot: None, reservation: None }),
            agent_error: None,
            budgets: vec![BudgetState {
                policy: "write".into(),
                subject: "00ff".into(),
                limit: c(100.0, 200.0),
                limit_in_words: "100/s +200".into(),
                period_ms: 1_000,
                mode: "observe".into(),
                enforced: false,
                regions: BTreeMap::from([("eu".into(), share(c(50.0, 100.0))), ("us".into(), share(c(60.0, 120.0)))]),
                floor_ttl_ms: Some(600_000),
                windows: vec![],
                alarm: None,
            }],
            regions: vec![region],
            bounds: vec![PolicyBound {
                policy: "write".into(),
                limit: c(100.0, 200.0),
                limit_in_words: "100/s +200".into(),
                period_ms: 1_000,
                mode: "observe".into(),
                bound: Bound { overshoot_bound: None, overshoot_per_period: None, unbounded: true, terms: vec![term] },
                measured_overshoot: 0.0,
                measured_overshoot_last_hour: 0.0,
                measured_beyond_bound: 0.0,
                utilisation: None,
                change: None,
                alarms: vec![],
            }],
        }
    }

    #[test]
    fn a_request_is_explained_budget_by_budget() {
        let expected = "\
write: 100/s +200, only observed; subject 00ff
at the agent that was asked: 41 of 120 left, full in 1.6s, leased
REGION      FLOOR       HELD  LENT  BORROWED  DEMAND  UNTIL
eu      50/s +100  50/s +100  0/s +0    0/s +0     0/s  floor alone: no lease
us      50/s +100  60/s +120  0/s +0    0/s +0     0/s  4.2s without a word
floors hold for 10min without a coordinator, and from then on nothing is admitted
can be exceeded by: unbounded
  write, observe: unbounded; the policy only observes
";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text(&explanation(), Paint::NONE)), words(expected));
    }

    #[test]
    fn a_window_says_when_it_began_and_what_of_it_is_spent() {
        let units = WindowUnits { granted: 40.0, held: 55.0, spent: 12.5 };
        let window = BudgetWindow { begins_at_ms: 1_793_491_200_000, regions: BTreeMap::from([("us".into(), units)]) };
        assert_eq!(window_line(&window), "window from 2026-11-01T00:00:00Z: us 12.5 of 40 spent\n");
    }

    #[test]
    fn what_is_missing_is_said() {
        let nothing = Explanation { agent: None, agent_error: Some("refused".into()), budgets: vec![], ..explanation() };
        let expected = "no policy matches: the request is not limited\n\nThe agent said nothing of what is left: refused\n";
        assert_eq!(text(&nothing, Paint::NONE), expected);
    }
}
