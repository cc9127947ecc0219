//! The ceiling: a bare axum server that parses the question and answers a constant.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A question as agents are asked it.
#[derive(Deserialize)]
struct Check {
    attributes: BTreeMap<String, String>,
    cost: Option<u64>,
}

/// As long as the answer of an agent to the questions that are asked.
const ANSWER: &str =
    r#"{"decision":"allow","limits":[{"policy":"write","limit":1000000,"remaining":999999,"reset_after_ms":1,"mode":"leased"}]}"#;

/// Serves on any free port, which it prints, until it is killed.
pub fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", listener.local_addr().expect("it is bound"));
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let router = Router::new().route("/v1/check", post(check)).route("/readyz", get(async || "ready\n"));
        axum::serve(listener, router).await.expect("it serves");
    });
}

async fn check(Json(check): Json<Check>) -> impl IntoResponse {
    std::hint::black_box((check.attributes, check.cost));
    ([(CONTENT_TYPE, "application/json")], ANSWER)
}
