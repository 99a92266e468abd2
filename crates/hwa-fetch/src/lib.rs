//! Published archives of data sets: download, verify, unpack.
//!
//! A [`Recipe`] says where a data set is published, what its checksums are, and what its
//! folder holds. [`fetch`] follows it. Downloads are resumed, checked before anything is
//! unpacked, and unpacked beside their place: the folder of a data set appears whole or not
//! at all. Nothing here reads images; that is for whoever opens the folder.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//! use hwa_fetch::{Existing, Watch, fetch};
//!
//! let interrupted = AtomicBool::new(false);
//! let show = |p: hwa_fetch::Progress<'_>| eprintln!("{:?} {}: {}", p.phase, p.name, p.done);
//! let watch = Watch { progress: &show, cancel: &interrupted };
//! let fetched = fetch("cifar10", Path::new("data"), Existing::Keep, &watch)?;
//! assert_eq!(fetched.folder, Path::new("data/cifar-10-batches-bin"));
//! # Ok::<(), hwa_fetch::FetchError>(())
//! ```

mod checksum;
mod cifar_pictures;
mod contents;
mod download;
mod error;
mod fetch;
mod http;
mod npm;
mod part;
mod progress;
mod recipe;
mod redirect;
mod target;
#[cfg(test)]
mod test_server;
mod unpack;

pub use contents::Flaw;
pub use error::FetchError;
pub use fetch::{Existing, Fetched, How, fetch};
pub use progress::{Phase, Progress, Watch};
pub use recipe::{Download, Recipe, Source, recipe, recipes};
