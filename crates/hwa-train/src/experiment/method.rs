//! The names of the methods, and what is asked about each.

use serde::{Deserialize, Serialize};

use super::ScheduleKind;
use crate::settings::Init;

/// A training method: numbers and a [`Technique`](crate::Technique) for the same loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// One model, no averaging.
    Sgd,
    /// K models averaged every H steps; no window.
    Online,
    /// One model; the plain mean of every sample since stage II.
    Swa,
    /// One model; a slide window over its checkpoints.
    Lawa,
    /// K models averaged every H steps, and a slide window over the averages.
    #[default]
    Hwa,
    /// One model; sharpness-aware steps.
    Sam,
    /// K models that take over layers from each other; the best of them is the result.
    Fg,
    /// One model, without its most redundant filters for a while.
    Repr,
    /// One model; slow weights that follow it.
    Lookahead,
    /// One model and the moving average of its weights.
    Ema,
    /// One model whose rate begins again several times.
    Sgdr,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Sgd,
        Self::Online,
        Self::Swa,
        Self::Lawa,
        Self::Hwa,
        Self::Sam,
        Self::Fg,
        Self::Repr,
        Self::Lookahead,
        Self::Ema,
        Self::Sgdr,
    ];

    /// As it is written in an experiment.
    pub fn name(self) -> &'static str {
        self.traits().name
    }

    /// Whether it trains several models.
    pub fn has_several_models(self) -> bool {
        self.traits().several_models
    }

    /// Whether its models begin every cycle with the average of all.
    pub fn restarts_from_the_average(self) -> bool {
        self.traits().restarts
    }

    /// Whether it slides a window over outer weights.
    pub fn has_window(self) -> bool {
        self.traits().window
    }

    /// How its rate falls, unless it is told.
    pub(crate) fn usual_kind(self) -> ScheduleKind {
        match self {
            Self::Swa => ScheduleKind::TwoStage,
            Self::Sgdr => ScheduleKind::Restarts,
            _ => ScheduleKind::Cosine,
        }
    }

    /// Whether its models start alike, unless it is told. Networks that graft have learned
    /// different things; averages are of models that have not.
    pub(crate) fn usual_init(self) -> Init {
        match self {
            Self::Fg => Init::Independent,
            _ => Init::Shared,
        }
    }

    /// Whether its cycles are as long as its author's in epochs, however short an epoch is; other
    /// methods have as many cycles in a smaller experiment.
    pub(crate) fn counts_cycles_in_epochs(self) -> bool {
        self.traits().epochs
    }

    /// The table of an experiment that it has to itself.
    pub(crate) fn table(self) -> Option<&'static str> {
        self.traits().table
    }

    /// What others ask about it. A method that is missing here does not compile.
    fn traits(self) -> Traits {
        let one = |name| Traits {
            name,
            several_models: false,
            restarts: true,
            window: false,
            epochs: false,
            table: None,
        };
        let with = |name| Traits { table: Some(name), ..one(name) };
        match self {
            Self::Sgd => one("sgd"),
            Self::Online => Traits { several_models: true, ..one("online") },
            Self::Swa => with("swa"),
            Self::Lawa => Traits { window: true, ..one("lawa") },
            Self::Hwa => Traits { several_models: true, window: true, ..one("hwa") },
            Self::Sam => one("sam"),
            Self::Fg => {
                Traits { several_models: true, restarts: false, epochs: true, ..with("fg") }
            }
            Self::Repr => with("repr"),
            Self::Lookahead => Traits { restarts: false, ..with("lookahead") },
            Self::Ema => Traits { restarts: false, ..with("ema") },
            Self::Sgdr => one("sgdr"),
        }
    }
}

/// What is asked about a method.
struct Traits {
    name: &'static str,
    several_models: bool,
    restarts: bool,
    window: bool,
    epochs: bool,
    table: Option<&'static str>,
}
