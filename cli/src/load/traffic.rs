//! Endless built-in traffic for `quorate dev`.

use super::fleet::{Agent, Fleet};
use super::outcome::{Outcome, Sample};
use super::schedule::{Attributes, Paced};
use super::send::{SendSettings, Sender};
use super::shape::{Demand, Shape};
use reqwest::header::HeaderMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a shape takes to repeat.
pub const CYCLE: Duration = Duration::from_secs(60);

/// What became of the traffic, in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allowed.
    pub admitted: u64,
    /// Refused by a limit.
    pub refused: u64,
    /// No decision.
    pub failed: u64,
}

/// Sends `rate` requests per second over all regions to `agents` (region and address of each) until cancelled.
/// Failures are counted and change nothing: an agent that comes back is sent to again.
///
/// # Errors
/// A name that is no region, or an address that is no URL.
pub async fn run(
    agents: Vec<(String, String)>,
    shape: Shape,
    rate: f64,
    attributes: Attributes,
    stop: CancellationToken,
) -> anyhow::Result<Counts> {
    let agent = |(region, url): (String, String)| anyhow::Ok(Agent { region: region.parse()?, url });
    let fleet = Fleet::new(agents.into_iter().map(agent).collect::<Result<_, _>>()?);
    let demand = Demand::new(shape, rate, fleet.regions().len(), CYCLE);
    let settings = SendSettings { connections: 64, timeout: Duration::from_secs(2), headers: HeaderMap::new() };
    let sender = Arc::new(Sender::new(&fleet, &[attributes], None, settings)?);
    let (out, mut samples) = mpsc::unbounded_channel::<Sample>();
    let sending = sender.send(Paced::new(demand, &fleet), &stop, out);
    let counting = async {
        let mut counts = Counts::default();
        while let Some(sample) = samples.recv().await {
            match sample.outcome {
                Outcome::Admitted { .. } => counts.admitted += 1,
                Outcome::Refused { .. } => counts.refused += 1,
                Outcome::Failed(_) | Outcome::Unknown(_) => counts.failed += 1,
            }
        }
        counts
    };
    let ((), counts) = tokio::join!(sending, counting);
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use axum::routing::post;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test]
    async fn it_goes_on_until_cancelled_and_an_agent_that_is_down_changes_nothing() {
        let stop = CancellationToken::new();
        let (asked, enough) = (Arc::new(AtomicU64::new(0)), stop.clone());
        let answer = async move || {
            if asked.fetch_add(1, Ordering::SeqCst) == 19 {
                enough.cancel();
            }
            StatusCode::TOO_MANY_REQUESTS
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let up = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/v1/check", post(answer))).await });
        let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let down = format!("http://{}", unused.local_addr().expect("bound"));
        drop(unused);
        let agents = vec![("us".to_owned(), up), ("eu".to_owned(), down)];
        let counts = run(agents, Shape::Steady, 2_000.0, Attributes::new(), stop).await.expect("good names");
        assert!(counts.refused >= 20 && counts.failed > 0 && counts.admitted == 0, "{counts:?}");
    }

    #[tokio::test]
    async fn a_name_that_is_no_region_is_refused() {
        let agents = vec![("US".to_owned(), "http://127.0.0.1:9".to_owned())];
        assert!(run(agents, Shape::Steady, 1.0, Attributes::new(), CancellationToken::new()).await.is_err());
    }
}
