//! A span that does the work of several others: a batch.

use tracing::Span;

/// The spans whose work is done together. Empty, and without memory of its own, unless spans are made at all.
#[derive(Debug, Default)]
pub struct Joined(Vec<Span>);

impl Joined {
    /// Another one.
    pub fn add(&mut self, span: &Span) {
        if !span.is_disabled() {
            self.0.push(span.clone());
        }
    }

    /// Makes `span`, which has to be one of this package, the child of the first, linked to all.
    pub fn parent(&self, span: impl FnOnce(&Span) -> Span) -> Span {
        let Some(first) = self.0.first() else { return Span::none() };
        let joint = span(first);
        self.0.iter().skip(1).for_each(|other| {
            joint.follows_from(other);
        });
        joint
    }
}
