//! Weights from elsewhere, made fit for a network.
//!
//! Files of other programs have the names and shapes of PyTorch's state dicts, but other
//! types, sometimes no counters, and a head for other classes. What can be taken over without
//! a guess is; everything else is an error that names the tensor.
//!
//! ```text
//! f16, bf16           to f32: exact
//! f64                 to f32: rounded to the nearest, ties to even; what f32 cannot hold is refused
//! counters            0 if they are missing: PyTorch before 0.4.1 had none
//! statistics          all, or none: parameters alone are for callers that re-estimate
//! the head            with the network's classes, or the network's own if asked for
//! a prefix            of all names, such as Lightning's `model.`, is taken off
//! anything else       refused
//! ```

use std::collections::BTreeMap;

use hwa_core::{Role, Tensor, ValueType, Values, Weights, WeightsError};

use crate::error::NnError;
use crate::names;
use crate::replica::Task;
use crate::zoo::{ModelSpec, Origin};

/// Where the layer that makes scores comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// From the weights given: it has to be for the network's classes.
    Kept,
    /// From the network's own initial weights, for other classes than the weights given.
    Fresh,
}

/// Weights that fit a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapted {
    /// A complete model; parameters alone if that is what was given.
    pub weights: Weights,
    /// The tensors that come from the network's own initial weights.
    pub fresh: Vec<String>,
}

/// Makes weights fit a network.
///
/// `own` are all of the network's tensors, `head` is the name of its layer that makes scores
/// ([`ModelSpec::head`]). Names and shapes have to be the network's own, but for what
/// [`Head::Fresh`] replaces.
pub fn adapt(found: Weights, own: &Weights, head: &str, policy: Head) -> Result<Adapted, NnError> {
    let replaced = |name: &str| policy == Head::Fresh && is_part_of(head, name);
    let found = without_wrapper(found.into_iter().collect(), own);
    let found = found.into_iter().filter(|(name, _)| !replaced(name));
    let mut found: BTreeMap<String, Tensor> = found.collect();
    let is_parameter = |name: &str| own.get(name).is_none_or(|t| t.role() == Role::Parameter);
    let parameters_only = found.keys().all(|name| is_parameter(name));
    let wanted = |tensor: &Tensor| !parameters_only || tensor.role() == Role::Parameter;
    ensure_all_there(&found, own, |name, tensor| {
        wanted(tensor) && tensor.role() != Role::Counter && !replaced(name)
    })?;
    let mut adapted = Adapted { weights: Weights::new(), fresh: Vec::new() };
    for (name, expected) in own.iter().filter(|(_, tensor)| wanted(tensor)) {
        let tensor = match found.remove(name) {
            Some(tensor) => fit(name, tensor, expected, head)?,
            None if replaced(name) => {
                adapted.fresh.push(name.to_owned());
                expected.clone()
            }
            // A counter, after the check above.
            None => expected.zeros_like(),
        };
        adapted.weights.insert(name, tensor).map_err(NnError::Weights)?;
    }
    Ok(adapted)
}

impl ModelSpec {
    /// Makes weights fit this network, see [`adapt()`]. A fresh head is that of a model of
    /// this origin.
    pub fn adapt(
        &self,
        found: Weights,
        task: Task,
        origin: Origin,
        policy: Head,
    ) -> Result<Adapted, NnError> {
        let own = match policy {
            Head::Kept => self.blank(task)?,
            Head::Fresh => self.network(task, origin)?,
        };
        adapt(found, &names::export(&own)?, self.head(), policy)
    }
}

/// Without a first part that all names have and the network's do not: programs that wrap a
/// network leave the name of their field there.
fn without_wrapper(found: BTreeMap<String, Tensor>, own: &Weights) -> BTreeMap<String, Tensor> {
    let first = found.keys().next().and_then(|name| Some(name.split_once('.')?.0.to_owned()));
    let Some(prefix) = first.map(|first| format!("{first}.")) else { return found };
    let inside =
        |name: &String| name.strip_prefix(&prefix).is_some_and(|name| own.get(name).is_some());
    if found.keys().any(|name| own.get(name).is_some()) || !found.keys().any(inside) {
        return found;
    }
    if !found.keys().all(|name| name.starts_with(&prefix)) {
        return found;
    }
    found.into_iter().map(|(name, tensor)| (name[prefix.len()..].to_owned(), tensor)).collect()
}

fn is_part_of(layer: &str, name: &str) -> bool {
    name.strip_prefix(layer).is_some_and(|rest| rest.starts_with('.'))
}

/// Checks that no tensor is missing that is needed, and that there is none beside them.
fn ensure_all_there(
    found: &BTreeMap<String, Tensor>,
    own: &Weights,
    is_needed: impl Fn(&str, &Tensor) -> bool,
) -> Result<(), NnError> {
    let needed = own.iter().filter(|(name, tensor)| is_needed(name, tensor));
    let missing = needed.map(|(name, _)| name).filter(|name| !found.contains_key(*name));
    let missing: Vec<String> = missing.map(str::to_owned).collect();
    let unexpected = found.keys().filter(|name| own.get(name).is_none());
    let unexpected: Vec<String> = unexpected.cloned().collect();
    match missing.is_empty() && unexpected.is_empty() {
        true => Ok(()),
        false => Err(NnError::OtherTensors { missing, unexpected }),
    }
}

/// A tensor with the shape, the type and the role that is expected of it.
fn fit(name: &str, tensor: Tensor, expected: &Tensor, head: &str) -> Result<Tensor, NnError> {
    ensure_same_shape(name, tensor.shape(), expected.shape(), head)?;
    let shape = tensor.shape().to_vec();
    let values = convert(name, tensor.into_values(), expected.values().value_type())?;
    Tensor::new(expected.role(), shape, values).map_err(NnError::Weights)
}

/// Shapes that differ, with the reason where it is a usual one.
fn ensure_same_shape(
    name: &str,
    found: &[usize],
    expected: &[usize],
    head: &str,
) -> Result<(), NnError> {
    let name = name.to_owned();
    match (found, expected) {
        _ if found == expected => Ok(()),
        ([found, inputs @ ..], [expected, own @ ..])
            if is_part_of(head, &name) && inputs == own =>
        {
            let (head, found, expected) = (head.to_owned(), *found, *expected);
            Err(NnError::OtherClasses { head, found, expected })
        }
        ([o, found, kernel @ ..], [own_o, expected, own_kernel @ ..])
            if kernel.len() == 2 && o == own_o && kernel == own_kernel =>
        {
            Err(NnError::OtherChannels { name, found: *found, expected: *expected })
        }
        _ => {
            let (expected, found) = (expected.to_vec(), found.to_vec());
            Err(NnError::Weights(WeightsError::ShapesDiffer { name, expected, found }))
        }
    }
}

/// The same numbers in another type, as far as it can hold them.
fn convert(name: &str, values: Values, expected: ValueType) -> Result<Values, NnError> {
    let found = values.value_type();
    match (values, expected) {
        (values, _) if found == expected => Ok(values),
        (Values::F16(v), ValueType::F32) => Ok(Values::F32(v.iter().map(|x| x.to_f32()).collect())),
        (Values::BF16(v), ValueType::F32) => {
            Ok(Values::F32(v.iter().map(|x| x.to_f32()).collect()))
        }
        (Values::F64(v), ValueType::F32) => {
            match v.iter().find(|x| x.is_finite() && !(**x as f32).is_finite()) {
                Some(&value) => Err(NnError::TooLarge { name: name.to_owned(), value }),
                None => Ok(Values::F32(v.iter().map(|x| *x as f32).collect())),
            }
        }
        _ => {
            let name = name.to_owned();
            Err(NnError::Weights(WeightsError::TypesDiffer { name, expected, found }))
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use hwa_data::ImageShape;
    use proptest::prelude::*;

    use super::*;

    const TASK: Task =
        Task { images: ImageShape { height: 8, width: 8, channels: 3 }, classes: 10 };
    const ORIGIN: Origin = Origin { seed: 5, replica: 0 };

    fn spec() -> ModelSpec {
        "resnet8".parse().unwrap()
    }

    /// A complete ResNet-8 of this task.
    fn resnet8(task: Task, replica: u32) -> Weights {
        names::export(&spec().network(task, Origin { seed: 7, replica }).unwrap()).unwrap()
    }

    /// With each tensor replaced, or left out.
    fn edited(weights: &Weights, edit: impl Fn(&str, &Tensor) -> Option<Tensor>) -> Weights {
        let mut edited = Weights::new();
        for (name, tensor) in weights.iter() {
            if let Some(tensor) = edit(name, tensor) {
                edited.insert(name, tensor).unwrap();
            }
        }
        edited
    }

    fn in_type(tensor: &Tensor, values: impl Fn(&[f32]) -> Values) -> Tensor {
        match tensor.as_f32() {
            Some(v) => Tensor::new(tensor.role(), tensor.shape().to_vec(), values(v)).unwrap(),
            None => tensor.clone(),
        }
    }

    fn kept(found: Weights) -> Result<Adapted, NnError> {
        spec().adapt(found, TASK, ORIGIN, Head::Kept)
    }

    fn refused(found: Weights) -> String {
        kept(found).unwrap_err().to_string()
    }

    #[test]
    fn a_prefix_that_all_names_have_is_taken_off() {
        let weights = resnet8(TASK, 0);
        let wrapped = |prefix: &str| {
            let mut wrapped = Weights::new();
            for (name, tensor) in weights.iter() {
                wrapped.insert(format!("{prefix}{name}"), tensor.clone()).unwrap();
            }
            wrapped
        };
        let adapted = spec().adapt(wrapped("model."), TASK, ORIGIN, Head::Kept).unwrap();
        assert_eq!(adapted.weights, weights);
        let fresh = spec().adapt(wrapped("net."), TASK, ORIGIN, Head::Fresh).unwrap();
        assert_eq!(fresh.fresh, ["linear.bias", "linear.weight"]);
        // Names of something else beside them are not guessed at.
        let mut more = wrapped("model.");
        more.insert("loss.weight", Tensor::parameter(vec![1], vec![1.0]).unwrap()).unwrap();
        let error = spec().adapt(more, TASK, ORIGIN, Head::Kept).unwrap_err();
        assert!(matches!(error, NnError::OtherTensors { .. }), "{error}");
    }

    #[test]
    fn weights_of_the_network_itself_stay_as_they_are() {
        let weights = resnet8(TASK, 1);
        let expected = Adapted { weights: weights.clone(), fresh: vec![] };
        assert_eq!(kept(weights.clone()).unwrap(), expected);
        let parameters = weights.only(Role::Parameter);
        assert_eq!(kept(parameters.clone()).unwrap().weights, parameters);
    }

    #[test]
    fn counters_that_are_missing_begin_at_zero_and_others_stay() {
        let seven = |_: &str, tensor: &Tensor| match tensor.role() {
            Role::Counter => Tensor::new(Role::Counter, vec![], Values::I64(vec![7])).ok(),
            _ => Some(tensor.clone()),
        };
        let counted = edited(&resnet8(TASK, 1), seven);
        assert_eq!(kept(counted.clone()).unwrap().weights, counted);
        let old = edited(&counted, |_, t| (t.role() != Role::Counter).then(|| t.clone()));
        let adapted = kept(old).unwrap().weights;
        let counter = adapted.require("bn1.num_batches_tracked").unwrap();
        assert_eq!(counter.values(), &Values::I64(vec![0]));
        assert_eq!(adapted.len(), counted.len());
    }

    #[test]
    fn tensors_that_are_missing_or_too_many_are_named_and_counted() {
        let without = |prefix: &'static str| {
            edited(&resnet8(TASK, 1), move |name, t| (!name.starts_with(prefix)).then(|| t.clone()))
        };
        // Two convolutions with two batch norms: 2 + 2 * 4, and counters do not count.
        assert_eq!(
            refused(without("layer2.0.")),
            "the weights are not those of this network; missing: `layer2.0.bn1.bias`, \
             `layer2.0.bn1.running_mean`, `layer2.0.bn1.running_var` and 7 more"
        );
        assert_eq!(
            refused(without("bn1.running_var")),
            "the weights are not those of this network; missing: `bn1.running_var`"
        );
        let mut more = without("conv1");
        for name in ["fc.weight", "fc.bias"] {
            more.insert(name, Tensor::parameter(vec![1], vec![0.0]).unwrap()).unwrap();
        }
        assert_eq!(
            refused(more),
            "the weights are not those of this network; missing: `conv1.weight`; \
             not expected: `fc.bias`, `fc.weight`"
        );
    }

    #[test]
    fn a_head_for_other_classes_is_refused_or_replaced() {
        let foreign = resnet8(Task { classes: 7, ..TASK }, 1);
        assert_eq!(refused(foreign.clone()), "the head `linear` is for 7 classes, expected 10");
        let fresh = spec().adapt(foreign.clone(), TASK, ORIGIN, Head::Fresh).unwrap();
        assert_eq!(fresh.fresh, ["linear.bias", "linear.weight"]);
        let own = names::export(&spec().network(TASK, ORIGIN).unwrap()).unwrap();
        for (name, tensor) in fresh.weights.iter() {
            let source = if name.starts_with("linear") { &own } else { &foreign };
            assert_eq!(Some(tensor), source.get(name), "{name}");
        }
        // Without any head it is the same, and with parameters alone.
        let headless = edited(&foreign, |name, t| (!is_part_of("linear", name)).then(|| t.clone()));
        let again = spec().adapt(headless.clone(), TASK, ORIGIN, Head::Fresh).unwrap();
        assert_eq!(again, fresh);
        let bare = headless.only(Role::Parameter);
        let bare = spec().adapt(bare, TASK, ORIGIN, Head::Fresh).unwrap();
        assert_eq!(bare.weights, fresh.weights.only(Role::Parameter));
    }

    #[test]
    fn images_with_other_channels_are_refused_by_the_layer_that_sees_them() {
        let grey = Task { images: ImageShape { channels: 1, ..TASK.images }, ..TASK };
        let expected = "input channels of `conv1.weight` are 1, expected 3";
        assert_eq!(refused(resnet8(grey, 1)), expected);
    }

    #[test]
    fn other_shapes_and_types_are_refused_by_name() {
        let replace = |replaced: &'static str, by: Tensor| {
            edited(&resnet8(TASK, 1), move |name, t| {
                Some(if name == replaced { by.clone() } else { t.clone() })
            })
        };
        let wide = Tensor::parameter(vec![17], vec![0.0; 17]).unwrap();
        assert_eq!(
            refused(replace("bn1.bias", wide)),
            "the weights do not fit the network: `bn1.bias` has shape [17], expected [16]"
        );
        let integers = Tensor::new(Role::Counter, vec![16], Values::I64(vec![0; 16])).unwrap();
        assert_eq!(
            refused(replace("bn1.bias", integers)),
            "the weights do not fit the network: `bn1.bias` has type I64, expected F32"
        );
        let mut large = vec![0.0; 16];
        large[3] = 1e39;
        let large = Tensor::new(Role::Parameter, vec![16], Values::F64(large)).unwrap();
        assert_eq!(
            refused(replace("bn1.bias", large)),
            "`bn1.bias` has the value 1e39, which is too large for single precision"
        );
    }

    #[test]
    fn double_precision_is_rounded_to_the_nearest() {
        // Halfway between 1 and the next number of single precision, and just above.
        let half = 2f64.powi(-24);
        let values =
            Values::F64(vec![1.0 + half, 1.0 + half * 1.000_001, 1.0 + 3.0 * half, f64::NAN]);
        let Ok(Values::F32(found)) = convert("w", values, ValueType::F32) else {
            panic!("not converted")
        };
        let next = 1.0 + f32::EPSILON;
        assert_eq!(found[..3], [1.0, next, next + f32::EPSILON]);
        assert!(found[3].is_nan());
    }

    /// Parameters, statistics and counters of made-up layers.
    fn layouts() -> impl Strategy<Value = Weights> {
        let layer = prop::collection::vec(-8i8..8, 1..6);
        prop::collection::btree_map("[a-d]{1,3}", layer, 1..6).prop_map(|layers| {
            let mut weights = Weights::new();
            for (name, values) in layers {
                // Small integers are exact in every type.
                let values: Vec<f32> = values.into_iter().map(f32::from).collect();
                let one = |role| Tensor::new(role, vec![values.len()], Values::F32(values.clone()));
                let parameter = one(Role::Parameter).unwrap();
                weights.insert(format!("{name}.weight"), parameter).unwrap();
                let statistic = one(Role::Statistic).unwrap();
                weights.insert(format!("{name}.running_mean"), statistic).unwrap();
                let counter = Tensor::new(Role::Counter, vec![], Values::I64(vec![3])).unwrap();
                weights.insert(format!("{name}.num_batches_tracked"), counter).unwrap();
            }
            weights
        })
    }

    proptest! {
        #[test]
        fn every_type_of_float_gives_the_same_numbers(weights in layouts(), types in prop::collection::vec(0..4, 18)) {
            let mut types = types.into_iter().cycle();
            let mut other = Weights::new();
            for (name, tensor) in weights.iter() {
                let tensor = match types.next() {
                    Some(0) => in_type(tensor, |v| Values::F64(v.iter().map(|x| f64::from(*x)).collect())),
                    Some(1) => in_type(tensor, |v| Values::F16(v.iter().map(|x| f16::from_f32(*x)).collect())),
                    Some(2) => in_type(tensor, |v| Values::BF16(v.iter().map(|x| bf16::from_f32(*x)).collect())),
                    _ => tensor.clone(),
                };
                other.insert(name, tensor).unwrap();
            }
            prop_assert_eq!(adapt(other, &weights, "head", Head::Kept).unwrap().weights, weights);
        }

        #[test]
        fn nothing_is_taken_over_unless_every_name_fits(weights in layouts(), left_out in any::<u64>(), extra in "[a-f.]{0,8}") {
            let kept = |i: usize| left_out >> (i % 64) & 1 == 0;
            let mut found = Weights::new();
            let mut complete = true;
            for (i, (name, tensor)) in weights.iter().enumerate() {
                if kept(i) {
                    found.insert(name, tensor.clone()).unwrap();
                } else {
                    complete &= tensor.role() == Role::Counter;
                }
            }
            let of_role = |weights: &Weights, role| weights.iter().filter(|(_, t)| t.role() == role).count();
            let parameters_only = of_role(&found, Role::Statistic) + of_role(&found, Role::Counter) == 0;
            let every_parameter = of_role(&found, Role::Parameter) == of_role(&weights, Role::Parameter);
            let fits = complete || parameters_only && every_parameter;
            prop_assert_eq!(adapt(found.clone(), &weights, "head", Head::Kept).is_ok(), fits);
            if weights.get(&extra).is_none() {
                found.insert(extra.clone(), Tensor::parameter(vec![], vec![0.0]).unwrap()).unwrap();
                let error = adapt(found, &weights, "head", Head::Kept).unwrap_err().to_string();
                prop_assert!(error.contains(&format!("not expected: `{extra}`")), "{}", error);
            }
        }
    }
}
