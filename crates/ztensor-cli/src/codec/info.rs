//! `z4ai info`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use z4ai::{Part, ReferenceId};

use super::mistaken::failure;
use super::streams::whole;
use crate::display::{counted, say, say_json, say_table, size, table};
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Info {
    /// The compressed file; - is standard input
    file: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub(crate) fn run(self) -> Result {
        let source = whole(&self.file)?;
        let frame = source.bytes(0, source.len())?;
        let info = z4ai::Info::read(&frame).map_err(|error| failure(&self.file, &error))?;
        let dtype = info.dtype.map_or("opaque bytes", z4ai::Dtype::name);
        if self.json {
            let parts = |parts: &[Part]| -> Vec<_> {
                parts.iter().map(|part| json!({ "name": part.name, "bytes": part.decoded_len, "stored_bytes": part.encoded_len })).collect()
            };
            return say_json(&json!({
                "dtype": info.dtype.map(z4ai::Dtype::name),
                "shape": info.shape,
                "effort": info.effort.name(),
                "reference": info.reference.map(|reference| json!({ "bytes": reference.length, "digest": digest(&reference) })),
                "bytes": info.decoded_len,
                "stored_bytes": info.encoded_len,
                "ratio": info.ratio(),
                "bits_per_element": info.bits_per_element(),
                "entropy_floor": info.entropy_floor,
                "blocks": info.blocks,
                "transforms": parts(&info.transforms),
                "planes": parts(&info.planes),
            }));
        }
        let shape = info.shape.as_ref().map(|shape| format!(" {shape:?}")).unwrap_or_default();
        say(&format!("{}: {dtype}{shape}, effort {}", self.file.display(), info.effort.name()))?;
        if let Some(reference) = &info.reference {
            say(&format!(
                "a delta against {} with the digest {}",
                size(reference.length),
                digest(reference)
            ))?;
        }
        say(&format!(
            "{} -> {}, {:.3}x, {:.3} bits per element, {}",
            size(info.decoded_len),
            size(info.encoded_len),
            info.ratio(),
            info.bits_per_element(),
            counted(info.blocks, "block")
        ))?;
        if let Some(floor) = info.entropy_floor {
            say(&format!(
                "an ideal order-0 coder of the byte planes would take {floor:.3} bits per element"
            ))?;
        }
        show("Blocks by transform", &info.transforms, info.encoded_len)?;
        show("Bytes by plane", &info.planes, info.encoded_len)?;
        Ok(Outcome::Done)
    }
}

fn digest(reference: &ReferenceId) -> String {
    reference.digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn show(title: &str, parts: &[Part], total: u64) -> Result<()> {
    let mut rows = table(&["", "data", "stored", "share"], &[1, 2, 3]);
    for part in parts {
        let data = if part.decoded_len == 0 { String::new() } else { size(part.decoded_len) };
        let share = 100.0 * part.encoded_len as f64 / total.max(1) as f64;
        rows.add_row([part.name.clone(), data, size(part.encoded_len), format!("{share:.1} %")]);
    }
    say("")?;
    say(title)?;
    say_table(&rows)
}
