//! What a run leaves behind: its states, its weights and its events.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The newest complete state of a run.
pub(crate) fn newest_state(run: &Path) -> Option<String> {
    let names = fs::read_dir(run.join("state")).ok()?.flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("manifest-")).max()
}

/// Whether the run has a complete state.
pub(crate) fn has_state(run: &Path) -> bool {
    newest_state(run).is_some()
}

/// Everything of a finished run that must not depend on how it came about.
pub(crate) fn fingerprint(run: &Path) -> (Vec<(String, Vec<u8>)>, Vec<Value>) {
    let mut files = vec![("best".to_owned(), fs::read(run.join("best.safetensors")).unwrap())];
    for entry in fs::read_dir(run.join("checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.push((name, fs::read(path).unwrap()));
    }
    files.sort();
    (files, events(run))
}

/// The events, without what depends on the clock and on the network.
fn events(run: &Path) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("time");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let parse = |line: &str| {
        let mut event = serde_json::from_str(line).unwrap();
        strip(&mut event);
        event
    };
    text.lines().map(parse).collect()
}
