//! The search for a window, as the command does it: what is usual, what was scored before, what
//! there is to see. How candidates are chosen is in `hwa_core::search`.

mod budget;
mod found;
mod heat;
mod ledger;
mod usual;

pub(crate) use budget::{BEST, Budget};
pub(crate) use found::{Answer, Line, files};
pub(crate) use heat::Heat;
pub(crate) use ledger::{Bounds, Ledger, Session, begin_anew};
pub(crate) use usual::{Usual, usual};
