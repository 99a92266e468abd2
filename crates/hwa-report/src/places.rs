//! Where words go on a picture without covering each other.

/// A rectangle on a picture, in pixels; y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Patch {
    /// Its left and upper side.
    pub(crate) from: (f64, f64),
    /// Its right and lower side.
    pub(crate) to: (f64, f64),
}

impl Patch {
    /// Of this size around a point.
    pub(crate) fn around((x, y): (f64, f64), (width, height): (f64, f64)) -> Self {
        let (half, tall) = (width / 2.0, height / 2.0);
        Self { from: (x - half, y - tall), to: (x + half, y + tall) }
    }

    /// Its middle.
    pub(crate) fn middle(&self) -> (f64, f64) {
        ((self.from.0 + self.to.0) / 2.0, (self.from.1 + self.to.1) / 2.0)
    }

    /// The area that it has in common with another.
    pub(crate) fn shared(&self, other: &Self) -> f64 {
        let width = self.to.0.min(other.to.0) - self.from.0.max(other.from.0);
        let height = self.to.1.min(other.to.1) - self.from.1.max(other.from.1);
        width.max(0.0) * height.max(0.0)
    }

    /// Whether a point is in it.
    pub(crate) fn contains(&self, (x, y): (f64, f64)) -> bool {
        (self.from.0..=self.to.0).contains(&x) && (self.from.1..=self.to.1).contains(&y)
    }

    /// Whether another is wholly in it.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.contains(other.from) && self.contains(other.to)
    }

    /// Moved as little as puts it into another, if it is not larger.
    fn moved_into(&self, other: &Self) -> Self {
        let shift =
            |from: f64, to: f64, low: f64, high: f64| (low - from).max(0.0) + (high - to).min(0.0);
        let x = shift(self.from.0, self.to.0, other.from.0, other.to.0);
        let y = shift(self.from.1, self.to.1, other.from.1, other.to.1);
        Self { from: (self.from.0 + x, self.from.1 + y), to: (self.to.0 + x, self.to.1 + y) }
    }

    /// The parts of a line that are outside of it.
    pub(crate) fn cut_from(&self, line: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        let mut parts = vec![Vec::new()];
        let mut add = |point: (f64, f64), begins: bool| {
            if begins {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.push(point);
            }
        };
        if let Some(first) = line.first().filter(|first| !self.contains(**first)) {
            add(*first, false);
        }
        for step in line.windows(2) {
            let (from, to) = (step[0], step[1]);
            let at =
                |share: f64| (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            if let Some((enters, leaves)) = self.crossed(from, to) {
                if enters > 0.0 {
                    add(at(enters), false);
                }
                if leaves < 1.0 {
                    add(at(leaves), true);
                    add(to, false);
                }
            } else {
                add(to, false);
            }
        }
        parts.retain(|part| part.len() > 1);
        parts
    }

    /// Between which shares of its way a straight line is inside.
    fn crossed(&self, from: (f64, f64), to: (f64, f64)) -> Option<(f64, f64)> {
        let (mut enters, mut leaves) = (0.0f64, 1.0f64);
        for (start, end, low, high) in
            [(from.0, to.0, self.from.0, self.to.0), (from.1, to.1, self.from.1, self.to.1)]
        {
            if start == end {
                if !(low..=high).contains(&start) {
                    return None;
                }
                continue;
            }
            let (a, b) = ((low - start) / (end - start), (high - start) / (end - start));
            enters = enters.max(a.min(b));
            leaves = leaves.min(a.max(b));
        }
        (enters < leaves).then_some((enters, leaves))
    }
}

/// The best place for words of this size near a point: within the bounds, covering as little as
/// possible of what is there, and near.
pub(crate) fn beside(
    (x, y): (f64, f64),
    size: (f64, f64),
    bounds: &Patch,
    taken: &[Patch],
) -> Patch {
    let mut best: Option<(f64, Patch)> = None;
    for (ring, gap) in [12.0, 26.0, 44.0, 66.0, 92.0].into_iter().enumerate() {
        // The right first, then the left, above and below, then the corners.
        for (right, down) in [(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)]
        {
            let (right, down) = (f64::from(right), f64::from(down));
            let middle = (x + right * (gap + size.0 / 2.0), y + down * (gap + size.1 / 2.0));
            let wanted = Patch::around(middle, size);
            let patch = wanted.moved_into(bounds);
            let moved = (patch.from.0 - wanted.from.0).abs() + (patch.from.1 - wanted.from.1).abs();
            let covered: f64 = taken.iter().map(|other| patch.shared(other)).sum();
            let own = if patch.contains((x, y)) { 1e4 } else { 0.0 };
            let cost = 10.0 * covered + own + moved + 30.0 * ring as f64;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, patch));
            }
        }
    }
    best.map_or(Patch::around((x, y), size), |(_, patch)| patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Patch = Patch { from: (0.0, 0.0), to: (300.0, 200.0) };

    #[test]
    fn words_stay_within_and_apart() {
        // In the corners, on top of each other, and in the middle.
        let points = [(1.0, 1.0), (299.0, 199.0), (150.0, 100.0), (151.0, 101.0), (149.0, 99.0)];
        let mut taken: Vec<Patch> = Vec::new();
        for point in points {
            let patch = beside(point, (90.0, 18.0), &BOUNDS, &taken);
            assert!(BOUNDS.holds(&patch), "{patch:?}");
            assert!(taken.iter().all(|other| other.shared(&patch) == 0.0), "{patch:?} {taken:?}");
            assert!(!patch.contains(point));
            taken.push(patch);
        }
    }

    #[test]
    fn a_line_is_cut_where_it_enters_and_leaves() {
        let patch = Patch { from: (10.0, 0.0), to: (20.0, 10.0) };
        let across = patch.cut_from(&[(0.0, 5.0), (30.0, 5.0)]);
        assert_eq!(across, [vec![(0.0, 5.0), (10.0, 5.0)], vec![(20.0, 5.0), (30.0, 5.0)]]);
        let into = patch.cut_from(&[(0.0, 5.0), (15.0, 5.0), (16.0, 6.0), (15.0, 20.0)]);
        assert_eq!((into.len(), into[0].clone()), (2, vec![(0.0, 5.0), (10.0, 5.0)]));
        assert_eq!(into[1].last(), Some(&(15.0, 20.0)));
        let past = [(0.0, 20.0), (30.0, 20.0)];
        assert_eq!(patch.cut_from(&past), [past.to_vec()]);
        assert!(patch.cut_from(&[(12.0, 5.0), (18.0, 5.0)]).is_empty());
    }
}
