//! Plans against a golden file, so that a change of what the allocator does is seen in review.
//!
//! `UPDATE_GOLDEN=1 cargo nextest run -p quorate-ledger --test plans` writes the file anew.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test that may write its golden file")]

mod situations;

use quorate_ledger::allocator::{Situation, Targets, plan};
use quorate_shared::units::Capacity;
use std::fmt::Write;

const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn plans_are_as_reviewed() {
    let plans: Vec<String> = situations::all().into_iter().map(|(title, situations)| describe(title, situations)).collect();
    let plans = plans.join("\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans/golden.txt"), &plans).expect("the file can be written");
        return;
    }
    let differs = plans.lines().zip(GOLDEN.lines()).find(|(now, reviewed)| now != reviewed);
    assert_eq!(differs, None, "(now, as reviewed); see the top of this test for how to write the file anew");
    assert_eq!(plans.len(), GOLDEN.len());
}

/// One after another, each with the plan before it.
fn describe(title: &str, situations: Vec<Situation>) -> String {
    let mut text = format!("# {title}\n\n");
    let mut before = Targets::new();
    for (n, mut situation) in situations.into_iter().enumerate() {
        for (name, claim) in &mut situation.claims {
            claim.before = before.get(name).cloned().unwrap_or_default();
        }
        if n > 0 {
            text.push_str("\nthen\n");
        }
        let targets = plan(&situation);
        claims(&mut text, &situation);
        plans(&mut text, &situation, &targets);
        before = targets;
    }
    text
}

fn claims(text: &mut String, situation: &Situation) {
    let Situation { limit, pool, readiness, turn, .. } = situation;
    let _ = writeln!(text, "  limit {}, pool {}, ready {readiness:?}, turn {turn}", show(*limit), show(*pool));
    for (name, claim) in &situation.claims {
        let _ = write!(text, "  {name}: floor {}, lendable {}, demand {}", show(claim.floor), show(claim.lendable), claim.demand);
        for (what, value, usual) in [("weight", claim.weight, 1), ("priority", claim.priority, 0)] {
            if value != usual {
                let _ = write!(text, ", {what} {value}");
            }
        }
        if claim.largest.0 > 0 {
            let _ = write!(text, ", largest {}", claim.largest);
        }
        text.push_str(if claim.live { "\n" } else { ", out of reach\n" });
    }
}

fn plans(text: &mut String, situation: &Situation, targets: &Targets) {
    text.push_str("gives\n");
    for (name, claim) in &situation.claims {
        let holding = targets.get(name).cloned().unwrap_or_default();
        let has = holding.entitlement(claim.floor, false, true, |_| true);
        let _ = write!(text, "  {name}: {}", show(has));
        let _ = match holding.is_zero() {
            true => write!(text, ", its floor"),
            false => write!(text, " = floor - {} + pool {}", show(holding.lent), show(holding.pool)),
        };
        for (lender, loan) in &holding.borrowed {
            let _ = write!(text, " + {} from {lender}", show(*loan));
        }
        text.push('\n');
    }
}

/// Rate and burst, in tokens.
fn show(capacity: Capacity) -> String {
    format!("{}/{}", capacity.rate, capacity.burst)
}
