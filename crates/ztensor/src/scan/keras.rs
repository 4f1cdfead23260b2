//! Keras models: a layer called `Lambda` brings its own bytecode, and a description may name classes and functions of any module, which Keras
//! imports when it loads the model.

use serde_json::Value as Json;

use super::{Part, ScannedCall, ScannedGlobal, Trust};
use crate::error::Error;
use crate::formats::pytorch;
use crate::tensor::{Attributes, Value};

/// Layers that run what a file brings along: bytecode, pickles, other models.
const LAYERS_OF_CODE: [&str; 6] =
    ["Lambda", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer", "__lambda__"];
/// Packages of Keras itself.
const OWN_PACKAGES: [&str; 5] = ["keras", "keras_cv", "keras_hub", "keras_nlp", "tf_keras"];
/// Attributes of an HDF5 file that describe a model.
const DESCRIPTIONS: [&str; 3] = ["model_config", "training_config", "config.json"];
/// Longest text shown of a layer's arguments.
const LONGEST: usize = 200;
/// Findings that are listed one by one.
const MOST_CALLS: usize = 100;

/// Whether a member of an archive describes a Keras model.
pub(super) fn is_description(name: &str) -> bool {
    name == "config.json" || name.ends_with("/config.json")
}

/// Scans the description in a member of an archive. Other tools keep other things under that name.
pub(super) fn member(name: &str, bytes: &[u8]) -> Vec<Part> {
    match serde_json::from_slice(bytes) {
        Ok(document) => description(name, &document).into_iter().collect(),
        Err(cause) => vec![unread(name, &cause)],
    }
}

/// Scans the attributes of an HDF5 file, or the descriptions of an archive that has become attributes.
pub(super) fn attributes(attributes: &Attributes) -> Vec<Part> {
    let mut parts = Vec::new();
    for name in DESCRIPTIONS {
        let text = match attributes.get(name) {
            Some(Value::Text(text)) => text.as_bytes(),
            Some(Value::Bytes(bytes)) => bytes,
            _ => continue,
        };
        match serde_json::from_slice(text) {
            Ok(document) => parts.extend(description(name, &document)),
            Err(cause) => parts.push(unread(name, &cause)),
        }
    }
    parts
}

fn unread(name: &str, cause: &serde_json::Error) -> Part {
    Part::unread(name, "keras", &Error::malformed(format!("it is not JSON: {cause}")))
}

/// What a description would import and call; `None` if it names nothing but Keras' own.
fn description(name: &str, document: &Json) -> Option<Part> {
    let mut part = Part::new(name, "keras");
    let mut rest = vec![document];
    while let Some(value) = rest.pop() {
        match value {
            Json::Array(items) => rest.extend(items),
            Json::Object(entries) => {
                if let Some(class) = entries.get("class_name").and_then(Json::as_str) {
                    object(&mut part, class, entries);
                }
                rest.extend(entries.values());
            }
            _ => {}
        }
    }
    (!part.globals.is_empty()).then_some(part)
}

/// Judges one serialised object.
fn object(part: &mut Part, class: &str, entries: &serde_json::Map<String, Json>) {
    let module = entries.get("module").and_then(Json::as_str);
    let config = entries.get("config");
    // A function is named by its configuration.
    let (class, is_function) = match config.and_then(Json::as_str) {
        Some(function) if class == "function" => (function, true),
        _ => (class, false),
    };
    let root = module.map(|module| module.split('.').next().unwrap_or(module));
    let own = root.is_none_or(|root| OWN_PACKAGES.contains(&root));
    let registered = entries.get("registered_name").and_then(Json::as_str);
    let trust = match module {
        _ if LAYERS_OF_CODE.contains(&class) => Trust::Dangerous,
        Some(module)
            if own && is_function && module.starts_with("keras.") && module != "keras.activations" =>
        {
            pytorch::trust(module, class)
        }
        // Without a module, or in Keras itself, a name is one of Keras' own or has to be registered by whoever loads the model.
        _ if own && registered.is_none_or(|name| !name.contains('>')) => return,
        Some("builtins") | None => Trust::Unknown,
        Some(_) if own => Trust::Unknown,
        Some(module) => pytorch::trust(module, class),
    };
    if trust == Trust::Harmless {
        return;
    }
    let module = module.unwrap_or("keras.layers").to_owned();
    let global = ScannedGlobal { module: module.clone(), name: class.to_owned(), trust };
    if part.calls.len() < MOST_CALLS {
        let arguments = config.map(shown).unwrap_or_default();
        part.calls.push(ScannedCall { text: format!("{module}.{class}({arguments})"), trust });
    }
    if !part.globals.contains(&global) {
        part.globals.push(global);
    }
}

fn shown(config: &Json) -> String {
    let text = config.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
