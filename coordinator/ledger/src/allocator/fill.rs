//! Weighted max-min filling, in integers.
//!
//! Source: Bertsekas and Gallager, Data Networks, 6.5.2 (max-min flow control); with weights as
//! in weighted fair queueing.

/// One who wants a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// Has so much.
    pub share: u64,
    /// Wants so much.
    pub want: u64,
    /// At least 1.
    pub weight: u64,
    /// Greater ones are served first.
    pub priority: u32,
}

impl Seat {
    fn missing(&self) -> u64 {
        self.want.saturating_sub(self.share)
    }

    /// What it would take on if shares were raised to `level` for each unit of weight.
    fn rise_to(&self, level: u64) -> u64 {
        level.saturating_mul(self.weight).min(self.want).saturating_sub(self.share)
    }
}

/// Gives away what is `left`: the least share for its weight is raised first, until there is
/// nothing left or nothing missing; those of a greater priority before all others.
pub(super) fn raise(seats: &mut [Seat], left: &mut u64) {
    let mut hungry: Vec<usize> = (0..seats.len()).filter(|i| seats[*i].missing() > 0).collect();
    hungry.sort_by_key(|i| std::cmp::Reverse(seats[*i].priority));
    for group in hungry.chunk_by(|a, b| seats[*a].priority == seats[*b].priority).map(<[usize]>::to_vec).collect::<Vec<_>>() {
        raise_group(seats, &group, left);
    }
}

fn raise_group(seats: &mut [Seat], group: &[usize], left: &mut u64) {
    let taken = |level: u64| group.iter().map(|i| seats[*i].rise_to(level)).fold(0_u64, u64::saturating_add);
    let (mut low, mut high) = (0, group.iter().map(|i| seats[*i].want).max().unwrap_or_default());
    // the highest level that what is left suffices for
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match taken(middle) <= *left {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    for i in group {
        let rise = seats[*i].rise_to(low).min(*left);
        seats[*i].share = seats[*i].share.saturating_add(rise);
        *left -= rise;
    }
    // less than one more level: in order
    for i in group {
        let rise = seats[*i].missing().min(seats[*i].weight).min(*left);
        seats[*i].share = seats[*i].share.saturating_add(rise);
        *left -= rise;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(left: u64, seats: &[(u64, u64, u64, u32)]) -> (Vec<u64>, u64) {
        let mut seats: Vec<Seat> = seats
            .iter()
            .map(|(share, want, weight, priority)| Seat { share: *share, want: *want, weight: *weight, priority: *priority })
            .collect();
        let mut left = left;
        raise(&mut seats, &mut left);
        (seats.iter().map(|s| s.share).collect(), left)
    }

    #[test]
    fn the_least_is_raised_first_and_nobody_beyond_what_it_wants() {
        assert_eq!(filled(10, &[(0, 3, 1, 0), (0, 100, 1, 0)]), (vec![3, 7], 0));
        assert_eq!(filled(10, &[(6, 100, 1, 0), (0, 100, 1, 0)]), (vec![8, 8], 0));
        assert_eq!(filled(10, &[(0, 100, 3, 0), (0, 100, 1, 0)]), (vec![8, 2], 0));
        assert_eq!(filled(10, &[(0, 2, 1, 0), (0, 3, 1, 0)]), (vec![2, 3], 5));
        assert_eq!(filled(1, &[(0, 9, 1, 0); 3]), (vec![1, 0, 0], 0));
        assert_eq!(filled(u64::MAX, &[(0, u64::MAX, 1_000_000, 0)]), (vec![u64::MAX], 0));
    }

    #[test]
    fn a_greater_priority_is_served_first() {
        assert_eq!(filled(10, &[(0, 8, 1, 0), (0, 8, 1, 2), (0, 8, 1, 1)]), (vec![0, 8, 2], 0));
    }
}
