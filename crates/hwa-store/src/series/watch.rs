//! Who watches a pass over a series, and may end it.

use std::fmt;

/// Hears how far a pass is, and says whether it should go on.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Told the bytes read so far.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Asked between pieces.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Watch<'_> {
    /// Nobody does.
    pub fn nobody() -> Self {
        Self { progress: &|_| {}, cancelled: &|| false }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
