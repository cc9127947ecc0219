//! `quorate check`: one decision.

use super::{Verdict, ended, print};
use crate::arguments::CheckArgs;
use crate::client::{Ask, Client, Server};
use crate::table::{Align, Paint, Table, Tone, milliseconds};
use quorate_shared::api::{CheckAnswer, CheckRequest, DecisionMode};
use quorate_shared::problem::Problem;
use reqwest::{Method, StatusCode};

/// Asks the agent and prints what it says.
pub async fn run(args: CheckArgs, client: &Client) -> anyhow::Result<Verdict> {
    let request = CheckRequest { attributes: args.attributes.0, cost: args.cost, request_id: None };
    let ask = Ask::send(Method::POST, "/v1/check", &[], "application/json", serde_json::to_string(&request)?);
    let reply = client.ask_agent(&ask).await?;
    let paint = Paint::for_stdout();
    if reply.status == StatusCode::TOO_MANY_REQUESTS {
        let text = match args.json {
            true => ended(&reply.body),
            false => refused(&reply.value(Server::Agent)?, paint),
        };
        print(&text)?;
        return Ok(Verdict::Negative);
    }
    let reply = reply.success(Server::Agent)?;
    let text = match args.json {
        true => ended(&reply.body),
        false => allowed(&reply.value(Server::Agent)?, paint),
    };
    print(&text)?;
    Ok(Verdict::Done)
}

fn refused(problem: &Problem, paint: Paint) -> String {
    let mut text = paint.tone("refused", Tone::Bad);
    match problem.violated_policies.as_slice() {
        [] => text.push_str(&problem.policy.as_ref().map_or(String::new(), |p| format!(" by {p}"))),
        policies => text.push_str(&format!(" by {}", policies.join(", "))),
    }
    if let Some(ms) = problem.retry_after_ms {
        text.push_str(&format!("; retry after {}", milliseconds(ms)));
    }
    text.push('\n');
    text
}

fn allowed(answer: &CheckAnswer, paint: Paint) -> String {
    let mut text = paint.tone("allowed", Tone::Good);
    if answer.limits.is_empty() {
        text.push_str(": no policy matches\n");
        return text;
    }
    text.push('\n');
    let columns =
        [("POLICY", Align::Left), ("REMAINING", Align::Right), ("LIMIT", Align::Right), ("FULL IN", Align::Right), ("MODE", Align::Left)];
    let mut table = Table::new(&columns);
    for limit in &answer.limits {
        let observed = if limit.observed { ", observed: would be refused" } else { "" };
        let mode = format!("{}{observed}", mode_name(limit.mode));
        table.row([
            limit.policy.as_str().into(),
            limit.remaining.into(),
            limit.limit.into(),
            milliseconds(limit.reset_after_ms).into(),
            mode.into(),
        ]);
    }
    text.push_str(&table.render(paint));
    if let Some(slot) = &answer.slot {
        text.push_str(&format!("slot {slot}\n"));
    }
    text
}

/// As in JSON.
pub fn mode_name(mode: DecisionMode) -> &'static str {
    match mode {
        DecisionMode::Leased => "leased",
        DecisionMode::Floor => "floor",
        DecisionMode::Emergency => "emergency",
        DecisionMode::Open => "open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::api::LimitState;

    #[test]
    fn an_allowed_request_shows_its_limits() {
        let limit = LimitState {
            policy: "write-api".into(),
            limit: 200,
            remaining: 41,
            reset_after_ms: 1590,
            mode: DecisionMode::Leased,
            observed: false,
        };
        let answer = CheckAnswer { decision: "allow".into(), limits: vec![limit], slot: None, reservation: None };
        let expected = "allowed\nPOLICY     REMAINING  LIMIT  FULL IN  MODE\nwrite-api         41    200     1.6s  leased\n";
        assert_eq!(allowed(&answer, Paint::NONE), expected);
        let nothing = CheckAnswer { limits: vec![], ..answer };
        assert_eq!(allowed(&nothing, Paint::NONE), "allowed: no policy matches\n");
    }

    #[test]
    fn a_refusal_names_every_policy_and_the_wait() {
        let mut problem = Problem::new(429, "quota-exceeded", "Quota exceeded");
        problem.violated_policies = vec!["a".into(), "b".into()];
        problem.retry_after_ms = Some(250);
        assert_eq!(refused(&problem, Paint::NONE), "refused by a, b; retry after 250ms\n");
    }
}
