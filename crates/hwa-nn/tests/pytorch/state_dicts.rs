//! The names, shapes and types of every network's tensors.

use std::collections::BTreeSet;

use hwa_core::{Role, ValueType};
use hwa_nn::{BurnReplica, ModelSpec, SgdConfig, Task, names};
use hwa_train::Replica;
use serde::Deserialize;

use crate::{ByName, read};

/// A tensor of a state dict: its name, shape and type.
type Entry = (String, Vec<usize>, String);

#[test]
fn every_network_has_the_tensors_of_pytorchs_state_dict() {
    #[derive(Deserialize)]
    struct Golden {
        networks: ByName<Vec<Entry>>,
    }
    let golden: Golden = read("state_dicts.json");
    let names: BTreeSet<String> = ModelSpec::all().iter().map(ModelSpec::to_string).collect();
    assert_eq!(golden.networks.keys().cloned().collect::<BTreeSet<_>>(), names);
    for (network_name, mut expected) in golden.networks {
        let spec: ModelSpec = network_name.parse().unwrap();
        let task = Task { classes: 10, ..spec.usual_task() };
        let network = spec.blank(task).unwrap();
        let found = names::export(&network).unwrap();
        // Methods that look at layers need the order: a batch norm behind its convolution.
        let sgd = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
        let in_order = BurnReplica::new(network, task, sgd).unwrap().parameters().unwrap();
        let is_parameter =
            |(name, _, _): &&Entry| found.get(name).unwrap().role() == Role::Parameter;
        let expected_order: Vec<&String> =
            expected.iter().filter(is_parameter).map(|(name, _, _)| name).collect();
        assert_eq!(in_order.iter().collect::<Vec<_>>(), expected_order, "{network_name}");
        let entry = |(name, tensor): (&str, &hwa_core::Tensor)| {
            let value_type = tensor.values().value_type();
            assert_eq!(tensor.role(), Role::infer(name, value_type), "{name}");
            let value_type = match value_type {
                ValueType::I64 => "int64",
                ValueType::F32 => "float32",
                other => panic!("{other:?}"),
            };
            (name.to_owned(), tensor.shape().to_vec(), value_type.to_owned())
        };
        let found: Vec<Entry> = found.iter().map(entry).collect();
        // There in the order of the layers, here in that of the names.
        expected.sort();
        assert_eq!(found, expected, "{network_name}");
    }
}
