//! Floats in JSON that come back as they were, NaN and infinities included.
//!
//! JSON has no NaN; `null`, which is what it becomes by default, cannot be read
//! back. Here what is not finite becomes the string `"NaN"`, `"inf"` or `"-inf"`.
//! Use with `#[serde(with = "hwa_core::float")]`.

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes a float as a number, or as a string if it is not finite.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        serializer.serialize_str(&value.to_string())
    }
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Name(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(value) => Ok(value),
        Written::Name(name) => match name.as_str() {
            "NaN" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            _ => Err(de::Error::custom(format!("expected a number, found {name:?}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder(#[serde(with = "crate::float")] f64);

    fn round_trip(value: f64) -> f64 {
        let text = serde_json::to_string(&Holder(value)).unwrap();
        serde_json::from_str::<Holder>(&text).unwrap().0
    }

    #[test]
    fn what_is_not_finite_comes_back() {
        assert!(round_trip(f64::NAN).is_nan());
        assert_eq!(round_trip(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(serde_json::from_str::<Holder>("\"seven\"").is_err());
    }

    proptest! {
        #[test]
        fn every_finite_number_comes_back_bit_for_bit(value in any::<f64>()) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(round_trip(value).to_bits(), value.to_bits());
        }
    }
}
