//! Names without the prefixes that wrappers of a model leave on them.

use hwa_core::{Values, Weights, WeightsError};

/// `DataParallel` and its kin keep the model as `module`, `torch.compile` as `_orig_mod`.
const WRAPPERS: [&str; 2] = [MODULE, "_orig_mod."];
const MODULE: &str = "module.";
/// What `AveragedModel` keeps beside its `module`.
const COUNT: &str = "n_averaged";
/// Wrappers around one model. A bound, because names may be made to have millions.
const MAX_NESTING: usize = 8;

/// Weights by the names that the model itself gives them.
#[derive(Debug)]
pub(crate) struct Stripped {
    pub(crate) weights: Weights,
    /// How many models an `AveragedModel` is the mean of.
    pub(crate) n_averaged: Option<i64>,
    /// Whether names are others than before.
    pub(crate) changed: bool,
}

/// Removes wrappers' prefixes that all names have, one after the other.
pub(crate) fn strip(weights: Weights) -> Result<Stripped, WeightsError> {
    let mut stripped = Stripped { weights, n_averaged: None, changed: false };
    for _ in 0..MAX_NESTING {
        let count = stripped.n_averaged.is_none().then(|| averaged(&stripped.weights)).flatten();
        if count.is_some() {
            stripped.n_averaged = count;
            stripped.weights = rebuilt(stripped.weights, |name| (name != COUNT).then_some(name))?;
        }
        let worn = |prefix: &&str| is_on_all(prefix, &stripped.weights);
        let Some(prefix) = WRAPPERS.into_iter().find(worn) else {
            break;
        };
        stripped.weights = rebuilt(stripped.weights, |name| name.strip_prefix(prefix))?;
        stripped.changed = true;
    }
    Ok(stripped)
}

/// The count of an `AveragedModel`: beside it, everything is in its `module`.
fn averaged(weights: &Weights) -> Option<i64> {
    let Values::I64(count) = weights.get(COUNT)?.values() else {
        return None;
    };
    let mut others = weights.iter().filter(|(name, _)| *name != COUNT);
    let is_averaged = weights.len() > 1 && others.all(|(name, _)| name.starts_with(MODULE));
    match count.as_slice() {
        [count] if is_averaged => Some(*count),
        _ => None,
    }
}

fn is_on_all(prefix: &str, weights: &Weights) -> bool {
    let has = |name: &str| name.len() > prefix.len() && name.starts_with(prefix);
    !weights.is_empty() && weights.iter().all(|(name, _)| has(name))
}

/// The same tensors by other names, or without some of them.
fn rebuilt(
    weights: Weights,
    name_of: impl Fn(&str) -> Option<&str>,
) -> Result<Weights, WeightsError> {
    let mut rebuilt = Weights::new();
    for (name, tensor) in weights {
        if let Some(name) = name_of(&name) {
            rebuilt.insert(name, tensor)?;
        }
    }
    Ok(rebuilt)
}

#[cfg(test)]
mod tests {
    use hwa_core::{Role, Tensor};

    use super::*;

    fn named(names: &[&str]) -> Weights {
        let mut weights = Weights::new();
        for name in names {
            let tensor = match *name {
                COUNT => Tensor::new(Role::Counter, vec![], Values::I64(vec![3])),
                _ => Tensor::parameter(vec![], vec![1.0]),
            };
            weights.insert(*name, tensor.unwrap()).unwrap();
        }
        weights
    }

    fn stripped(names: &[&str]) -> Vec<String> {
        strip(named(names)).unwrap().weights.iter().map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn a_prefix_goes_when_all_names_have_it() {
        assert_eq!(stripped(&["module.a.weight", "module.b"]), ["a.weight", "b"]);
        assert_eq!(stripped(&["_orig_mod.a"]), ["a"]);
        assert_eq!(stripped(&["module._orig_mod.module.a"]), ["a"]);
        assert_eq!(stripped(&["_orig_mod.module.a", "_orig_mod.module.b"]), ["a", "b"]);
    }

    #[test]
    fn a_prefix_stays_when_it_is_part_of_the_model() {
        assert_eq!(stripped(&["module.a", "b"]), ["b", "module.a"]);
        assert_eq!(stripped(&["module."]), ["module."]);
        assert_eq!(stripped(&["modules.a"]), ["modules.a"]);
        assert!(stripped(&[]).is_empty());
    }

    #[test]
    fn the_count_of_an_averaged_model_is_no_weight() {
        let found = strip(named(&[COUNT, "module.a", "module.b"])).unwrap();
        assert_eq!((found.n_averaged, found.weights.len(), found.changed), (Some(3), 2, true));
        let found = strip(named(&[COUNT, "a"])).unwrap();
        assert_eq!((found.n_averaged, found.weights.len(), found.changed), (None, 2, false));
    }

    #[test]
    fn stripping_ends_however_often_a_prefix_is_there() {
        let name = MODULE.repeat(1000) + "a";
        assert_eq!(stripped(&[&name])[0].len(), name.len() - MAX_NESTING * MODULE.len());
    }
}
