//! Names without the prefixes that wrappers of a model leave on them.

use std::collections::BTreeMap;

use hwa_core::{Tensor, Values, Weights, WeightsError};

/// `DataParallel` and its kin keep the model as `module`, `torch.compile` as `_orig_mod`.
const WRAPPERS: [&str; 2] = [MODULE, "_orig_mod."];
const MODULE: &str = "module.";
/// What `AveragedModel` keeps beside its `module`.
const COUNT: &str = "n_averaged";
/// Wrappers around one model. A bound, because names may be made to have millions.
const MAX_NESTING: usize = 8;

/// Things by the names that the model itself gives them.
#[derive(Debug)]
pub(crate) struct Stripped<T> {
    pub(crate) named: T,
    /// How many models an `AveragedModel` is the mean of.
    pub(crate) n_averaged: Option<i64>,
    /// Whether names are others than before.
    pub(crate) changed: bool,
}

/// Removes wrappers' prefixes that all names of weights have.
pub(crate) fn strip(weights: Weights) -> Result<Stripped<Weights>, WeightsError> {
    let count = |tensor: &Tensor| match tensor.values() {
        Values::I64(count) => <[i64; 1]>::try_from(count.as_slice()).ok().map(|[count]| count),
        _ => None,
    };
    let Stripped { named, n_averaged, changed } = strip_names(weights.into_iter().collect(), count);
    let mut weights = Weights::new();
    for (name, tensor) in named {
        weights.insert(name, tensor)?;
    }
    Ok(Stripped { named: weights, n_averaged, changed })
}

/// Removes wrappers' prefixes that all names have, one after the other. `count` reads the
/// count of an `AveragedModel`, if that is what the tensor may be.
pub(crate) fn strip_names<T>(
    named: BTreeMap<String, T>,
    count: impl Fn(&T) -> Option<i64>,
) -> Stripped<BTreeMap<String, T>> {
    let mut stripped = Stripped { named, n_averaged: None, changed: false };
    for _ in 0..MAX_NESTING {
        if stripped.n_averaged.is_none() && is_averaged(&stripped.named) {
            stripped.n_averaged = stripped.named.get(COUNT).and_then(&count);
            if stripped.n_averaged.is_some() {
                stripped.named.remove(COUNT);
            }
        }
        let worn = |prefix: &&str| is_on_all(prefix, &stripped.named);
        let Some(prefix) = WRAPPERS.into_iter().find(worn) else {
            break;
        };
        // No two names become one: all of them had the prefix.
        let bare = |(mut name, thing): (String, T)| (name.split_off(prefix.len()), thing);
        stripped.named = std::mem::take(&mut stripped.named).into_iter().map(bare).collect();
        stripped.changed = true;
    }
    stripped
}

/// Beside the count of an `AveragedModel`, everything is in its `module`.
fn is_averaged<T>(named: &BTreeMap<String, T>) -> bool {
    let mut others = named.keys().filter(|name| *name != COUNT);
    named.len() > 1 && others.all(|name| name.starts_with(MODULE))
}

fn is_on_all<T>(prefix: &str, named: &BTreeMap<String, T>) -> bool {
    let has = |name: &String| name.len() > prefix.len() && name.starts_with(prefix);
    !named.is_empty() && named.keys().all(has)
}

#[cfg(test)]
mod tests {
    use hwa_core::Role;

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
        strip(named(names)).unwrap().named.iter().map(|(name, _)| name.to_owned()).collect()
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
        assert_eq!((found.n_averaged, found.named.len(), found.changed), (Some(3), 2, true));
        let found = strip(named(&[COUNT, "a"])).unwrap();
        assert_eq!((found.n_averaged, found.named.len(), found.changed), (None, 2, false));
    }

    #[test]
    fn stripping_ends_however_often_a_prefix_is_there() {
        let name = MODULE.repeat(1000) + "a";
        assert_eq!(stripped(&[&name])[0].len(), name.len() - MAX_NESTING * MODULE.len());
    }
}
