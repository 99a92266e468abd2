//! Comparisons of training methods, as files.
//!
//! A [`Spec`] names methods, networks, data sets and seeds. Every combination of them is a
//! [`Cell`]: an experiment whose runs differ by their seed alone. [`figures`] has what a finished run
//! is worth, and [`Tables`] what tables know that were written before. Which runs are trained when,
//! and how, is the business of the command `hwa compare`.
//!
//! ```
//! use hwa_compare::Spec;
//!
//! let text = r#"
//! name = "mine"
//! methods = ["sgd", { label = "HWA, K = 3", method = "hwa", hwa.num_models = 3 }]
//! networks = ["resnet8"]
//! datasets = ["digits"]
//! experiment = { schedule.epochs = 10, hwa.window_length = 3 }
//! "#;
//! let spec = Spec::parse(text, "mine.toml".as_ref())?;
//! let cells = spec.cells(&["optimizer.rate=0.05".to_owned()])?;
//! let folders: Vec<&str> = cells.iter().map(|cell| cell.folder.as_str()).collect();
//! let hwa = ["digits/resnet8/hwa-k-3", "digits/resnet8/hwa-k-3-total"];
//! assert_eq!(folders, ["digits/resnet8/sgd", hwa[0], hwa[1]]);
//! assert_eq!(cells[2].experiment.num_models().get(), 3);
//! # Ok::<_, hwa_compare::CompareError>(())
//! ```

mod cell;
mod entry;
mod error;
mod figures;
mod file_kind;
mod keys;
mod presets;
mod source;
mod spec;
mod tables;
mod unused;

pub use cell::Cell;
pub use entry::slug;
pub use error::CompareError;
pub use figures::{divergence, figures};
pub use file_kind::FileKind;
pub use presets::{PRESETS, Preset, preset};
pub use spec::Spec;
pub use tables::{Tables, Taken};
