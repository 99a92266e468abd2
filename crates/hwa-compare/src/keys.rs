//! Tables of keys, as entries of a comparison have them.

use toml::{Table, Value};

/// A table with a value some tables down.
pub(crate) fn nested(key: &[&str], value: &str) -> Table {
    let inner = match key {
        [_, rest @ ..] if !rest.is_empty() => Value::Table(nested(rest, value)),
        _ => Value::String(value.to_owned()),
    };
    key.first().map(|first| ((*first).to_owned(), inner)).into_iter().collect()
}

/// A text some tables down.
pub(crate) fn text_at(keys: &Table, key: &[&str]) -> Option<String> {
    value_at(keys, key)?.as_str().map(str::to_owned)
}

/// A value some tables down.
pub(crate) fn value_at<'a>(keys: &'a Table, key: &[&str]) -> Option<&'a Value> {
    let (first, rest) = key.split_first()?;
    let value = keys.get(*first)?;
    match rest {
        [] => Some(value),
        rest => value_at(value.as_table()?, rest),
    }
}

/// Keys with their values, but for what depends on the machine.
pub(crate) fn keys_of(table: &Table) -> Vec<(String, String)> {
    fn add(prefix: &str, table: &Table, keys: &mut Vec<(String, String)>) {
        for (key, value) in table {
            let key = format!("{prefix}{key}");
            match value {
                _ if ["label", "threads", "data.dir", "data.decoders"].contains(&key.as_str()) => {}
                Value::Table(inner) => add(&format!("{key}."), inner, keys),
                Value::String(text) => keys.push((key, text.clone())),
                other => keys.push((key, other.to_string())),
            }
        }
    }
    let mut keys = Vec::new();
    add("", table, &mut keys);
    keys
}

/// Puts keys over others, table by table.
pub(crate) fn merge(into: &mut Table, keys: &Table) {
    for (key, value) in keys {
        match (into.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}
