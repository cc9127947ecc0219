//! What happened in a schedule, in words.

use super::Micros;
use super::invariants::Violation;
use super::world::World;
use quorate_shared::names::RegionName;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When.
    pub at: Micros,
    /// To whom; `None`: to the coordinators, or to all.
    pub region: Option<RegionName>,
    /// What.
    pub text: String,
}

/// Is told what happens.
pub type Tell = Box<dyn FnMut(Line)>;

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = self.region.as_ref().map_or("*", RegionName::as_str);
        write!(f, "{:>5}.{:06} {region:>3}  {}", self.at / super::SECOND, self.at % super::SECOND, self.text)
    }
}

/// Runs a schedule and keeps the last `most` things that happened before its end.
pub fn last_lines(seed: u64, most: usize) -> (Vec<Line>, Option<Violation>) {
    let lines: Rc<RefCell<VecDeque<Line>>> = Rc::default();
    let told = lines.clone();
    let outcome = World::new(seed)
        .telling(move |line| {
            let mut lines = told.borrow_mut();
            if lines.len() == most {
                lines.pop_front();
            }
            lines.push_back(line);
        })
        .run();
    (lines.take().into(), outcome.err())
}
