//! Lengths of training as users write them: steps, epochs, or a share of the budget.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A stretch of training: `352`, `"epoch"`, `"0.25 epochs"`, `"100 steps"` or `"10%"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Span {
    /// So many steps of one model.
    Steps(u64),
    /// So many passes over the training set.
    Epochs(f64),
    /// This share of the budget, from 0 to 1.
    Share(f64),
}

impl Span {
    /// The length in steps, rounded to the nearest; zero stays zero.
    pub fn steps(self, per_epoch: u64, budget: u64) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Epochs(epochs) => (epochs * per_epoch as f64).round() as u64,
            Self::Share(share) => (share * budget as f64).round() as u64,
        }
    }
}

/// Why a text is no [`Span`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected steps (352), epochs (\"epoch\", \"0.25 epochs\") or a share (\"10%\"), found {0:?}"
)]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let error = || SpanError(text.to_owned());
        let number = |digits: &str| -> Result<f64, SpanError> {
            let value: f64 = digits.trim().parse().map_err(|_| error())?;
            if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(error()) }
        };
        let trimmed = text.trim();
        if trimmed == "epoch" {
            return Ok(Self::Epochs(1.0));
        }
        if let Some(share) = trimmed.strip_suffix('%') {
            let share = number(share)? / 100.0;
            return if share <= 1.0 { Ok(Self::Share(share)) } else { Err(error()) };
        }
        if let Some(epochs) = trimmed.strip_suffix("epochs").or(trimmed.strip_suffix("epoch")) {
            return Ok(Self::Epochs(number(epochs)?));
        }
        let steps = trimmed.strip_suffix("steps").or(trimmed.strip_suffix("step"));
        let steps = steps.unwrap_or(trimmed).trim();
        steps.parse().map(Self::Steps).map_err(|_| error())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps} steps"),
            Self::Epochs(epochs) if *epochs == 1.0 => f.write_str("epoch"),
            Self::Epochs(epochs) => write!(f, "{epochs} epochs"),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Steps(steps) => serializer.serialize_u64(*steps),
            other => serializer.serialize_str(&other.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("steps (352), epochs (\"0.25 epochs\") or a share (\"10%\")")
            }

            fn visit_i64<E: de::Error>(self, steps: i64) -> Result<Span, E> {
                let steps = u64::try_from(steps);
                steps.map(Span::Steps).map_err(|_| E::custom("steps cannot be negative"))
            }

            fn visit_u64<E: de::Error>(self, steps: u64) -> Result<Span, E> {
                Ok(Span::Steps(steps))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_length_is_understood() {
        for (text, span) in [
            ("352", Span::Steps(352)),
            ("100 steps", Span::Steps(100)),
            ("epoch", Span::Epochs(1.0)),
            ("0.25 epochs", Span::Epochs(0.25)),
            ("80%", Span::Share(0.8)),
        ] {
            assert_eq!(text.parse(), Ok(span), "{text}");
            assert_eq!(span.to_string().parse(), Ok(span), "{text}");
        }
        for text in ["", "x", "-1", "101%", "NaN epochs", "-2 epochs", "1.5"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn epochs_and_shares_become_steps() {
        // 79 steps an epoch, 1,580 in all: a quarter of an epoch is 19.75, so 20
        assert_eq!(Span::Epochs(0.25).steps(79, 1580), 20);
        assert_eq!(Span::Share(0.1).steps(79, 1580), 158);
        assert_eq!(Span::Steps(7).steps(79, 1580), 7);
    }
}
