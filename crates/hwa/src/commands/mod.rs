//! One file per command.

pub(crate) mod analyze;
pub(crate) mod average;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod evaluate;
pub(crate) mod fetch;
pub(crate) mod figures;
pub(crate) mod landscape;
pub(crate) mod models;
pub(crate) mod recalibrate;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod soup;
pub(crate) mod train;
