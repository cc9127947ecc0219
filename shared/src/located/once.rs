//! Values that may not repeat.

use super::Located;
use std::collections::BTreeMap;

/// Values that may be there once, with the place of each.
#[derive(Debug)]
pub struct Once<'a, T>(BTreeMap<T, Located<'a>>);

impl<T> Default for Once<'_, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, T: Ord> Once<'a, T> {
    /// Notes a value, or reports that it was there already.
    pub fn first(&mut self, at: &Located<'a>, value: T, otherwise: &str) -> Option<()> {
        if let Some(first) = self.0.get(&value) {
            let line = first.line().map(|l| format!(" in line {l}")).unwrap_or_default();
            at.refuse(format!("{otherwise}{line}"));
            return None;
        }
        self.0.insert(value, at.clone());
        Some(())
    }
}
