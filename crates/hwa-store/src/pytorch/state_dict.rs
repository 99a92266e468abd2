//! Where in a checkpoint the weights are.
//!
//! People save a state dict, or a dict that has it under one of a few names beside the
//! optimizer, the epoch and the arguments.

use std::collections::BTreeMap;

use super::shown;
use super::strided::StridedTensor;
use super::value::{Id, Objects, Value};
use crate::checkpoint_error::CheckpointError;

/// The names under which training scripts save weights: the first that is there counts.
/// A moving average comes last: where the weights themselves are, they are meant.
const ENTRIES: [&str; 5] = ["state_dict", "model_state_dict", "model", "net", "model_ema"];
/// The keys that a message lists.
const KEYS_SHOWN: usize = 12;

/// A state dict, and the entry it was in unless it is the whole.
#[derive(Debug)]
pub(super) struct Found<'o, 'a> {
    pub(super) entry: Option<&'a str>,
    pub(super) tensors: BTreeMap<&'a str, &'o StridedTensor<'a>>,
}

/// Finds the state dict: the one in `wanted`, or else the whole or the first of the usual entries.
pub(super) fn find<'o, 'a>(
    objects: &'o Objects<'a>,
    wanted: Option<&str>,
) -> Result<Found<'o, 'a>, CheckpointError> {
    let Value::Dict(entries) = objects.root() else {
        return Err(nothing(kind_of(objects.root()).to_owned()));
    };
    let Some(entries) = by_name(objects, entries)? else {
        return Err(nothing("a dict whose keys are not all texts".to_owned()));
    };
    if let Some(wanted) = wanted {
        return find_wanted(objects, &entries, wanted);
    }
    if let Contents::Tensors(tensors) = contents(objects, &entries) {
        return Ok(Found { entry: None, tensors });
    }
    for entry in ENTRIES {
        let Some((entry, id)) = entries.get_key_value(entry) else {
            continue;
        };
        let Value::Dict(inner) = objects.get(*id) else {
            continue; // such as the name of an architecture
        };
        let Some(inner) = by_name(objects, inner)? else {
            continue;
        };
        match contents(objects, &inner) {
            Contents::Tensors(tensors) => return Ok(Found { entry: Some(entry), tensors }),
            Contents::Mixed { other } => {
                return Err(CheckpointError::NotATensor { name: shown(other) });
            }
            Contents::Others => {}
        }
    }
    let hint = nested(objects, &entries);
    let found = listed(entries.keys());
    Err(CheckpointError::NoStateDict { expected: listed(ENTRIES.iter()), found, hint })
}

/// The place of a state dict in an entry, or in an entry of one.
fn nested(objects: &Objects<'_>, entries: &BTreeMap<&str, Id>) -> Option<String> {
    entries.iter().find_map(|(name, id)| {
        let Value::Dict(inner) = objects.get(*id) else { return None };
        let inner = by_name(objects, inner).ok().flatten()?;
        if let Contents::Tensors(_) = contents(objects, &inner) {
            return Some(shown(name));
        }
        let holds = |(_, id): &(&&str, &Id)| match objects.get(**id) {
            Value::Dict(tensors) => by_name(objects, tensors)
                .ok()
                .flatten()
                .is_some_and(|t| matches!(contents(objects, &t), Contents::Tensors(_))),
            _ => false,
        };
        inner.iter().find(holds).map(|(key, _)| format!("{}.{}", shown(name), shown(key)))
    })
}

/// Finds the state dict in an entry, or in an entry of an entry: `ema`, or `ema.shadow`.
fn find_wanted<'o, 'a>(
    objects: &'o Objects<'a>,
    entries: &BTreeMap<&'a str, Id>,
    wanted: &str,
) -> Result<Found<'o, 'a>, CheckpointError> {
    let missing = |found: String| CheckpointError::NoEntry { wanted: shown(wanted), found };
    // A key may hold dots itself, so that the longest one that is there counts.
    let dots = wanted.match_indices('.').map(|(at, _)| at);
    let mut held = dots.chain([wanted.len()]).filter_map(|end| {
        let (entry, id) = entries.get_key_value(&wanted[..end])?;
        Some((end, *entry, *id))
    });
    let Some((end, entry, id)) = held.next_back() else {
        return Err(missing(listed(entries.keys())));
    };
    let Value::Dict(inner) = objects.get(id) else {
        return Err(missing(format!("{} in `{}`", kind_of(objects.get(id)), shown(entry))));
    };
    let Some(inner) = by_name(objects, inner)? else {
        return Err(missing(format!("keys in `{}` that are not all texts", shown(entry))));
    };
    if end < wanted.len() {
        return find_wanted(objects, &inner, &wanted[end + 1..]).map_err(|error| match error {
            CheckpointError::NoEntry { found, .. } => missing(found),
            other => other,
        });
    }
    match contents(objects, &inner) {
        Contents::Tensors(tensors) => Ok(Found { entry: Some(entry), tensors }),
        Contents::Mixed { other } => Err(CheckpointError::NotATensor { name: shown(other) }),
        Contents::Others => Err(missing(format!("{} in `{}`", listed(inner.keys()), shown(entry)))),
    }
}

/// The names under which training scripts save how far they are, the finest first.
const STEPS: [&str; 5] = ["global_step", "step", "iteration", "iter", "epoch"];

/// How far the training was, if the checkpoint says so.
pub(super) fn step(objects: &Objects<'_>) -> Option<u64> {
    let Value::Dict(entries) = objects.root() else {
        return None;
    };
    let entries = by_name(objects, entries).ok().flatten()?;
    let number = |name: &str| match objects.get(*entries.get(name)?) {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    STEPS.into_iter().find_map(number)
}

/// What a dict holds.
enum Contents<'o, 'a> {
    Tensors(BTreeMap<&'a str, &'o StridedTensor<'a>>),
    Mixed { other: &'a str },
    Others,
}

fn contents<'o, 'a>(objects: &'o Objects<'a>, entries: &BTreeMap<&'a str, Id>) -> Contents<'o, 'a> {
    let mut tensors = BTreeMap::new();
    let mut other = None;
    for (name, id) in entries {
        match objects.get(*id) {
            Value::Tensor(tensor) => drop(tensors.insert(*name, &**tensor)),
            _ => other = Some(*name),
        }
    }
    match other {
        _ if tensors.is_empty() => Contents::Others,
        Some(other) => Contents::Mixed { other },
        None => Contents::Tensors(tensors),
    }
}

/// The entries by name, if all keys are texts.
fn by_name<'a>(
    objects: &Objects<'a>,
    entries: &[(Id, Id)],
) -> Result<Option<BTreeMap<&'a str, Id>>, CheckpointError> {
    let mut named = BTreeMap::new();
    for (key, value) in entries {
        let Value::Text(name) = objects.get(*key) else {
            return Ok(None);
        };
        if named.insert(*name, *value).is_some() {
            return Err(CheckpointError::DuplicateKey { name: shown(name) });
        }
    }
    Ok(Some(named))
}

fn nothing(found: String) -> CheckpointError {
    CheckpointError::NoStateDict { expected: listed(ENTRIES.iter()), found, hint: None }
}

fn listed<'n>(names: impl ExactSizeIterator<Item = &'n &'n str>) -> String {
    let total = names.len();
    let mut listed: Vec<String> =
        names.take(KEYS_SHOWN).map(|name| format!("`{}`", shown(name))).collect();
    if total > KEYS_SHOWN {
        listed.push(format!("{} more", total - KEYS_SHOWN));
    }
    match total {
        0 => "nothing".to_owned(),
        _ => listed.join(", "),
    }
}

fn kind_of(value: &Value<'_>) -> &'static str {
    match value {
        Value::None => "None",
        Value::Int(_) => "a number",
        Value::Text(_) => "a text",
        Value::Tuple(_) | Value::List(_) => "a sequence",
        Value::Dict(_) => "a dict",
        Value::Storage(_) => "a storage",
        Value::Tensor(_) => "a single tensor",
        Value::Inert | Value::Global(_) => "an object without tensors",
    }
}
