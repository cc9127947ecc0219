//! `quorate audit`: who changed what, when and why; and who was granted how much.

use super::{Verdict, print, watch};
use crate::arguments::AuditArgs;
use crate::client::{Ask, Client, Server};
use crate::table::{Align, Cell, Paint, Table, Tone, number};
use chrono::{DateTime, SecondsFormat};
use quorate_shared::api::CapacityTokens;
use quorate_shared::audit::{AuditEvent, AuditHolding, AuditKind, AuditPage};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// As many are asked for at once.
const PAGE: u32 = 1_000;

/// `quorate audit`.
pub async fn run(args: AuditArgs, client: &Client) -> anyhow::Result<Verdict> {
    if args.view.json {
        return lines(&args, client).await;
    }
    watch::show(args.view.watch, || async {
        let page = page(&args, args.limit.min(PAGE), None, client).await?;
        Ok(text(&page, Paint::for_stdout()))
    })
    .await
}

/// One JSON object in each line, page after page.
async fn lines(args: &AuditArgs, client: &Client) -> anyhow::Result<Verdict> {
    let (mut left, mut cursor) = (args.limit, None);
    while left > 0 {
        let AuditPage { events, next } = page(args, left.min(PAGE), cursor.as_deref(), client).await?;
        let mut text = String::new();
        for event in &events {
            text.push_str(&serde_json::to_string(event)?);
            text.push('\n');
        }
        print(&text)?;
        left = left.saturating_sub(u32::try_from(events.len()).unwrap_or(u32::MAX));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Verdict::Done)
}

async fn page(args: &AuditArgs, limit: u32, cursor: Option<&str>, client: &Client) -> anyhow::Result<AuditPage> {
    let limit = limit.to_string();
    let since = args.since.map(|ago| now_ms().saturating_sub(millis(ago)).to_string());
    let query = [
        ("policy", args.policy.as_deref()),
        ("subject", args.subject.as_deref()),
        ("region", args.region.as_deref()),
        ("kind", args.kind.as_deref()),
        ("since_ms", since.as_deref()),
        ("limit", Some(limit.as_str())),
        ("cursor", cursor),
    ];
    let reply = client.ask_coordinator(&Ask::get("/v1/audit", &query)).await?.success(Server::Coordinator)?;
    Ok(reply.value(Server::Coordinator)?)
}

fn text(page: &AuditPage, paint: Paint) -> String {
    if page.events.is_empty() {
        return "nothing of that kind is kept\n".to_owned();
    }
    let mut table = Table::new(&[
        ("WHEN", Align::Left),
        ("ENTRY", Align::Right),
        ("WHAT", Align::Left),
        ("REGION", Align::Left),
        ("POLICY", Align::Left),
        ("SUBJECT", Align::Left),
        ("WHO", Align::Left),
        ("DETAIL", Align::Left),
        ("WHY", Align::Left),
    ]);
    for event in &page.events {
        let or_dash = |text: &Option<String>| Cell::from(text.as_deref().unwrap_or("-"));
        table.row([
            when(event.at_ms).into(),
            event.index.into(),
            Cell::toned(event.kind.name(), tone(event.kind)),
            or_dash(&event.region),
            or_dash(&event.policy),
            or_dash(&event.subject),
            or_dash(&event.who),
            detail(event).into(),
            or_dash(&event.why),
        ]);
    }
    let more = page.next.as_ref().map(|_| "there is more: --limit N, or --json for all of it\n");
    format!("{}{}", table.render(paint), more.unwrap_or_default())
}

const fn tone(kind: AuditKind) -> Tone {
    match kind {
        AuditKind::CheckFailed => Tone::Bad,
        AuditKind::LeaseEnded | AuditKind::Gap | AuditKind::FenceOrdered | AuditKind::RegionFenced => Tone::Attention,
        _ => Tone::Plain,
    }
}

fn detail(event: &AuditEvent) -> String {
    let version = event.version.map(|version| format!("version {version}"));
    let holding = event.holding.as_ref().map(holding_text);
    let units = event.units.map(|units| match units > 0.0 {
        true => format!("{} units", number(units, 3)),
        false => "its floor".to_owned(),
    });
    let window = event.window_begins_at_ms.map(|begins| format!("of the window from {}", when(begins)));
    let said = (!event.detail.is_empty()).then(|| event.detail.clone());
    let parts: Vec<String> = [version, holding, units, window, said].into_iter().flatten().collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

fn holding_text(holding: &AuditHolding) -> String {
    let shown = |name: String, part: &CapacityTokens| format!("{name} {} +{}", number(part.rate, 3), number(part.burst, 3));
    let nothing = CapacityTokens::default();
    let own = [("pool", &holding.pool), ("lent", &holding.lent)].map(|(name, part)| (name.to_owned(), part));
    let loans = holding.borrowed.iter().map(|(lender, loan)| (format!("from {lender}"), loan));
    let parts: Vec<String> =
        own.into_iter().chain(loans).filter(|(_, part)| **part != nothing).map(|(name, part)| shown(name, part)).collect();
    if parts.is_empty() { "its floor".to_owned() } else { parts.join(", ") }
}

fn when(ms: u64) -> String {
    let date = i64::try_from(ms).ok().and_then(DateTime::from_timestamp_millis);
    date.map_or("-".to_owned(), |date| date.to_rfc3339_opts(SecondsFormat::Millis, true))
}

fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn c(rate: f64, burst: f64) -> CapacityTokens {
        CapacityTokens { rate, burst }
    }

    #[test]
    fn what_happened_is_a_table() {
        let at_ms = 1_767_323_045_678;
        let granted = AuditHolding { pool: c(5.0, 10.0), lent: c(0.0, 0.0), borrowed: BTreeMap::from([("us".into(), c(1.5, 3.0))]) };
        let events = vec![
            AuditEvent {
                at_ms,
                index: 12,
                kind: AuditKind::Granted,
                region: Some("eu".into()),
                policy: Some("write".into()),
                subject: Some("00ff".into()),
                holding: Some(granted),
                ..AuditEvent::default()
            },
            AuditEvent {
                at_ms,
                index: 7,
                kind: AuditKind::PoliciesChanged,
                who: Some("ops".into()),
                why: Some("more room\u{1b}[2J".into()),
                version: Some(3),
                detail: "waits for eu".into(),
                ..AuditEvent::default()
            },
        ];
        let text = text(&AuditPage { events, next: Some("7.0".into()) }, Paint::NONE);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("2026-01-02T03:04:05.678Z     12  granted           eu      write   00ff     -"), "{text}");
        assert!(lines[1].contains("pool 5 +10, from us 1.5 +3"), "{text}");
        assert!(lines[2].contains("ops  version 3, waits for eu") && !text.contains('\u{1b}'), "{text}");
        assert!(lines[3].starts_with("there is more"), "{text}");
    }

    #[test]
    fn who_was_granted_nothing_has_its_floor() {
        let event = |units| AuditEvent { units: Some(units), ..AuditEvent::default() };
        assert_eq!([0.0, 2.5].map(|units| detail(&event(units))), ["its floor", "2.5 units"]);
        assert_eq!(detail(&AuditEvent { holding: Some(AuditHolding::default()), ..AuditEvent::default() }), "its floor");
        assert_eq!(detail(&AuditEvent::default()), "-");
        assert!(super::text(&AuditPage::default(), Paint::NONE).starts_with("nothing"));
    }
}
