//! `GET /v1/budgets`: a page of the active budgets, sorted.

use super::refusal::Refusal;
use super::{App, body};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use quorate_ledger::Ledger;
use quorate_shared::api::{BudgetShare, BudgetState, Budgets};
use quorate_shared::names::{PolicyName, SubjectHash};
use quorate_shared::problem::Problem;
use serde::Deserialize;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// `?policy=&subject=&sort=&limit=&cursor=`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetQuery {
    policy: Option<String>,
    subject: Option<String>,
    sort: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// By what budgets are sorted: the name, or the sum over all regions, greatest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Policy and subject.
    #[default]
    Policy,
    /// Tokens wanted in one period.
    Demand,
    /// Tokens admitted.
    Admitted,
    /// Tokens refused.
    Refused,
    /// Rate lent to other regions.
    Lent,
}

const SORTS: [(&str, Sort); 5] =
    [("policy", Sort::Policy), ("demand", Sort::Demand), ("admitted", Sort::Admitted), ("refused", Sort::Refused), ("lent", Sort::Lent)];

/// A checked [`BudgetQuery`].
#[derive(Debug, Default)]
pub struct Wanted {
    policy: Option<PolicyName>,
    subject: Option<SubjectHash>,
    sort: Sort,
    limit: usize,
    after: Option<Position>,
}

/// Where a budget stands in the order; as text, a cursor.
#[derive(Clone, Debug, PartialEq)]
struct Position {
    amount: f64,
    policy: String,
    subject: String,
}

/// A page of the active budgets.
#[utoipa::path(get, path = "/v1/budgets", tag = "views", params(("policy" = Option<String>, Query, pattern = "^[a-z0-9-]{1,63}$", description = "Of this policy only."), ("subject" = Option<String>, Query, pattern = "^[0-9a-fA-F]{32}$", description = "Of this subject only, as a hash."), ("sort" = Option<String>, Query, pattern = "^(policy|demand|admitted|refused|lent)$", description = "`policy`, `demand`, `admitted`, `refused` or `lent`."), ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "1 to 1000; 100."), ("cursor" = Option<String>, Query, pattern = "^[0-9]{1,15}([.][0-9]{1,15})?~[^~]*~[^~]*$", description = "Of the page before.")), responses((status = 200, body = Budgets), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn budgets(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<Budgets>, Refusal> {
    let wanted = Wanted::read(body::query(&uri)?)?;
    Ok(Json(app.node.read(|ledger| wanted.page(ledger))))
}

impl Wanted {
    /// The first `limit` budgets in an order.
    pub fn first(limit: usize, sort: Sort) -> Self {
        Self { sort, limit, ..Self::default() }
    }

    fn read(query: BudgetQuery) -> Result<Self, Refusal> {
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Refusal::invalid_request("", format!("query: `limit` is {limit}; from 1 to {MAX_LIMIT}")));
        }
        Ok(Self {
            policy: parsed("policy", query.policy)?,
            subject: parsed("subject", query.subject)?,
            sort: parsed("sort", query.sort)?.unwrap_or_default(),
            limit,
            after: parsed("cursor", query.cursor)?,
        })
    }

    /// The page. Its cost is in proportion to the budgets of the policy, or to all.
    pub fn page(&self, ledger: &Ledger) -> Budgets {
        let subject = self.subject.map(|s| s.to_string());
        let mut all: Vec<(Position, BudgetState)> = ledger
            .budgets(self.policy.as_ref())
            .filter(|budget| subject.as_ref().is_none_or(|s| budget.subject == *s))
            .map(|budget| (Position::of(&budget, self.sort), budget))
            .collect();
        let total = all.len();
        all.sort_by(|(a, _), (b, _)| a.order(b));
        let start = self.after.as_ref().map_or(0, |after| all.partition_point(|(at, _)| at.order(after) != Ordering::Greater));
        let rest = all.split_off(start.min(total));
        let more = rest.len() > self.limit;
        let cursor = rest.get(self.limit.saturating_sub(1)).filter(|_| more).map(|(at, _)| at.to_string());
        Budgets { budgets: rest.into_iter().take(self.limit).map(|(_, budget)| budget).collect(), cursor, total }
    }
}

pub(super) fn parsed<T: FromStr<Err: fmt::Display>>(name: &str, text: Option<String>) -> Result<Option<T>, Refusal> {
    let read = |text: String| text.parse().map_err(|error| Refusal::invalid_request("", format!("query: `{name}`: {error}")));
    text.map(read).transpose()
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = SORTS.iter().find(|(name, _)| *name == text);
        known.map(|(_, sort)| *sort).ok_or_else(|| format!("one of {}", SORTS.map(|(name, _)| name).join(", ")))
    }
}

impl Position {
    fn of(budget: &BudgetState, sort: Sort) -> Self {
        let part: fn(&BudgetShare) -> f64 = match sort {
            Sort::Policy => |_| 0.0,
            Sort::Demand => |share| share.demand,
            Sort::Admitted => |share| share.admitted,
            Sort::Refused => |share| share.refused,
            Sort::Lent => |share| share.lent.rate,
        };
        Self { amount: budget.regions.values().map(part).sum(), policy: budget.policy.clone(), subject: budget.subject.clone() }
    }

    fn order(&self, other: &Self) -> Ordering {
        let by_name = || (&self.policy, &self.subject).cmp(&(&other.policy, &other.subject));
        other.amount.total_cmp(&self.amount).then_with(by_name)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}~{}", self.amount, self.policy, self.subject)
    }
}

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (amount, names) = text.split_once('~')?;
            let (policy, subject) = names.split_once('~')?;
            Some(Self { amount: amount.parse().ok()?, policy: policy.to_owned(), subject: subject.to_owned() })
        };
        read().ok_or("not a cursor of an earlier answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(amount: f64, policy: &str, subject: &str) -> Position {
        Position { amount, policy: policy.into(), subject: subject.into() }
    }

    #[test]
    fn the_greatest_comes_first_and_equals_are_in_order_of_their_names() {
        let mut all = [at(1.0, "b", "x"), at(2.5, "c", "x"), at(1.0, "a", "y"), at(1.0, "a", "x")];
        all.sort_by(Position::order);
        assert_eq!(all, [at(2.5, "c", "x"), at(1.0, "a", "x"), at(1.0, "a", "y"), at(1.0, "b", "x")]);
    }

    #[test]
    fn a_cursor_reads_back_as_written_and_nothing_else_does() {
        let position = at(0.1 + 0.2, "write-api", "00ff");
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", "1", "1~a", "x~a~b"] {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_query_is_refused() {
        let with = |limit, sort: &str| BudgetQuery { limit, sort: Some(sort.to_owned()), ..BudgetQuery::default() };
        assert!(Wanted::read(with(Some(1), "demand")).is_ok());
        assert!(Wanted::read(with(Some(0), "demand")).is_err());
        assert!(Wanted::read(with(Some(1_001), "demand")).is_err());
        assert!(Wanted::read(with(None, "colour")).is_err());
    }
}
