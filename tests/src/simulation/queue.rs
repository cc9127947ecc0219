//! What is to happen, in order of time.

use super::Micros;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time; those of one instant in the order in which they were scheduled.
#[derive(Debug)]
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Micros,
    place: u64,
    event: E,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::with_capacity(64), scheduled: 0 }
    }
}

impl<E> Queue<E> {
    /// Something is to happen at `at`.
    pub fn schedule(&mut self, at: Micros, event: E) {
        self.scheduled += 1;
        self.heap.push(Reverse(Entry { at, place: self.scheduled, event }));
    }

    /// When the next thing happens.
    pub fn next_at(&self) -> Option<Micros> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next thing.
    pub fn pop(&mut self) -> Option<E> {
        self.heap.pop().map(|Reverse(entry)| entry.event)
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Micros, u64) {
        (self.at, self.place)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_scheduling() {
        let mut queue = Queue::default();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            queue.schedule(at, event);
        }
        assert_eq!(queue.next_at(), Some(3));
        let order: Vec<char> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
