//! Prints every tensor of a file as tab-separated columns: name, role, element type, shape, layout, encoding, sha256 of the decoded bytes;
//! then what was skipped and why. Made for comparing with another reader's output: `cargo run --example dump -- model.pt`.
#![allow(clippy::print_stdout)]

use sha2::{Digest, Sha256};

fn main() -> ztensor::Result<()> {
    for path in std::env::args_os().skip(1) {
        let reader = ztensor::open(std::path::Path::new(&path))?;
        for (name, object) in reader.objects() {
            for (role, component) in &object.components {
                let bytes = reader.component_bytes(name, role)?;
                let digest: String =
                    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                let encoding = component.data.encoding_name();
                println!(
                    "{name}\t{role}\t{}\t{}\t{}\t{encoding}\t{digest}",
                    component.element, object.shape, object.layout
                );
            }
        }
        for skipped in reader.skipped() {
            println!("skipped\t{}\t{}", skipped.name, skipped.reason);
        }
    }
    Ok(())
}
