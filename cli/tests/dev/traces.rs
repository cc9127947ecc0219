//! What a collector hears of a request and of a heartbeat.

use crate::collector::Collector;
use crate::system::Dev;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

const SET: &str = "\
regions: {us: {}}
policies:
- name: writes
  limit: {algorithm: token-bucket, rate: 1/h, burst: 1}
";

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const UNSAMPLED: &str = "0af7651916cd43dd8448eb211c803fff";

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names from this span up to the one whose parent is not among `spans`, and that parent.
fn way_up<'a>(spans: &'a [Span], mut span: &'a Span) -> (Vec<&'a str>, String) {
    let mut names = vec![span.name.as_str()];
    while let Some(parent) = spans.iter().find(|other| other.span_id == span.parent_span_id) {
        assert_eq!(parent.trace_id, span.trace_id);
        names.push(parent.name.as_str());
        span = parent;
    }
    (names, hex(&span.parent_span_id))
}

fn said(span: &Span, key: &str) -> String {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key);
    format!("{:?}", attribute.and_then(|attribute| attribute.value.as_ref()?.value.clone()))
}

#[tokio::test]
async fn a_request_and_a_heartbeat_are_told_from_their_beginning_to_their_end() {
    let (collector, url) = Collector::listen().await;
    let dev = Dev::start_with(SET, |command| {
        command.args(["--redis", "--traces", &url]);
    })
    .await;
    for (trace, flags) in [(TRACE, "01"), (TRACE, "01"), (UNSAMPLED, "00")] {
        dev.post_in_trace("/v1/check", &format!("00-{trace}-{CALLER}-{flags}"), json!({"attributes": {}}).to_string()).await;
    }
    dev.end().await;
    let spans = collector.spans();
    let of = |name: &str| {
        let mut of: Vec<&Span> = spans.iter().filter(|span| hex(&span.trace_id) == TRACE && span.name == name).collect();
        of.sort_by_key(|span| span.start_time_unix_nano);
        of
    };
    // a question that the lease overtook is put once more
    assert!(of("batch").len() >= 2, "one after the other was asked of the store");
    for batch in of("batch") {
        let (names, caller) = way_up(&spans, batch);
        assert_eq!((names, caller.as_str()), (vec!["batch", "store", "decide", "POST /v1/check"], CALLER));
    }
    let decisions: Vec<String> = of("decide").iter().map(|span| said(span, "quorate.decision")).collect();
    assert!(decisions.len() == 2 && decisions[0].contains("allow") && decisions[1].contains("refuse"), "{decisions:?}");
    assert!(said(of("POST /v1/check")[1], "http.response.status_code").contains("429"));
    assert!(spans.iter().all(|span| hex(&span.trace_id) != UNSAMPLED), "whoever asked did not want it");

    let ways: Vec<_> = spans.iter().filter(|span| span.name == "apply").map(|span| way_up(&spans, span)).collect();
    let whole = (vec!["apply", "propose", "POST /v1/regions/{region}/heartbeat", "heartbeat"], String::new());
    assert!(ways.contains(&whole), "{ways:?}");
}
