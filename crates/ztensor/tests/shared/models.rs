//! Small models that look like models, for tests that write folders of them.
#![allow(dead_code, reason = "each test file uses some of them")]

use std::path::{Path, PathBuf};

/// Weights that look like weights: small, of both signs, no two alike.
pub fn weights(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..count)
        .map(|_| {
            let mut sum = 0.0;
            for _ in 0..4 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                sum += (state >> 8) as f32 / (1u32 << 24) as f32 - 0.5;
            }
            0.05 * sum
        })
        .collect()
}

/// What a few steps of training make of weights.
pub fn trained(weights: &[f32]) -> Vec<f32> {
    weights.iter().enumerate().map(|(i, w)| if i % 7 == 0 { w * 1.000_01 } else { *w }).collect()
}

/// A safetensors file of vectors.
pub fn safetensors(tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let mut offset = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, values)| {
            let start = offset;
            offset += 4 * values.len();
            let shape = values.len();
            format!(r#""{name}":{{"dtype":"F32","shape":[{shape}],"data_offsets":[{start},{offset}]}}"#)
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(tensors.iter().flat_map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes())));
    bytes
}

/// Writes a file.
pub fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Writes a sharded model of three tensors as transformers does; returns its index.
pub fn sharded(folder: &Path, tensors: [&[f32]; 3]) -> PathBuf {
    let [a, b, c] = tensors;
    write(folder, "model-00001-of-00002.safetensors", safetensors(&[("a", a), ("b", b)]));
    write(folder, "model-00002-of-00002.safetensors", safetensors(&[("c", c)]));
    let map = r#"{"metadata": {"total_size": 1}, "weight_map": {"a": "model-00001-of-00002.safetensors",
        "b": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}}"#;
    write(folder, "model.safetensors.index.json", map)
}
