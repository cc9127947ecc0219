//! A word to the coordinators while the store fails: it renews nothing, but says why nothing is renewed.

use crate::coordinators::Coordinators;
use crate::region::Region;
use quorate_limiter::lease_book::LeaseBook;
use quorate_shared::heartbeat::{ClockReport, Heartbeat, PROTOCOL, StoreReport};

/// Repeats the last number that was answered, by which the coordinators know that nothing is to be renewed (R1), and says
/// that the store fails. Before the first answer nothing is said: no number would be known to them.
pub(super) async fn tell(region: &Region, coordinators: &Coordinators) {
    let notice = region.state.lock().book.as_ref().and_then(|book| compose(region, book));
    if let Some(notice) = notice.filter(|_| !region.is_unplugged()) {
        // whoever does not hear it sees at the latest that the lease ends
        let _ = coordinators.send(&notice).await;
    }
}

fn compose(region: &Region, book: &LeaseBook) -> Option<Heartbeat> {
    Some(Heartbeat {
        protocol: PROTOCOL,
        region: region.name.clone(),
        agent: region.agent.clone(),
        others: Vec::new(),
        number: Some(book.taken()).filter(|number| number.seq > 0)?,
        nonce: book.view(region.clock.now()).nonce,
        echo: None,
        drained: Vec::new(),
        floors_drained: None,
        windows: Vec::new(),
        policies: None,
        reports: Vec::new(),
        spent: Vec::new(),
        store: StoreReport { kind: region.store.kind().to_owned(), healthy: false, excesses: Vec::new() },
        clock: ClockReport::default(),
    })
}
