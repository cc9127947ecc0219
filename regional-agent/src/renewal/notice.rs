//! A word to the coordinators while the store fails: it renews nothing, but says why nothing is renewed.

use crate::coordinators::Coordinators;
use crate::region::Region;
use quorate_limiter::lease_book::LeaseBook;
use quorate_shared::heartbeat::{Heartbeat, StoreReport};

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
    Some(Heartbeat::silent(
        region.name.clone(),
        region.agent.clone(),
        Some(book.taken()).filter(|number| number.seq > 0)?,
        book.view(region.clock.now()).nonce,
        StoreReport::new(region.store.kind(), false),
    ))
}
